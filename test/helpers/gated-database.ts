import type { Test } from 'tap'
import { openDatabase, type Database } from '../../shared/runtime/database.ts'
import { CommandGate } from './command-gate.ts'
import { testMongodbUri } from './service.ts'

/** A further connection to a test's database, of which the gate stops commands or loses replies. */
export async function gatedDatabase(
  t: Test,
  name: string,
): Promise<{ database: Database; gate: CommandGate }> {
  const uri = new URL(testMongodbUri())
  const gate = await CommandGate.open({ host: uri.hostname, port: Number(uri.port) })
  uri.host = `127.0.0.1:${gate.port}`
  uri.search = '?directConnection=true'
  const database = await openDatabase({ uri: uri.href, name })
  t.teardown(async () => {
    await database.close()
    await gate.close()
  })
  return { database, gate }
}
