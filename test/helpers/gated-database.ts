import type { Test } from 'tap'
import { openDatabase, type Database } from '../../shared/runtime/database.ts'
import { CommandGate } from './command-gate.ts'
import { testMongodbUri } from './service.ts'

/** A further connection to a test's database, of which the gate stops commands or loses replies. */
export async function gatedDatabase(
  t: Test,
  name: string,
): Promise<{ database: Database; gate: CommandGate }> {
  const gate = await CommandGate.open(testMongodbUri())
  const database = await openDatabase({ uri: gate.uri, name })
  t.teardown(async () => {
    await database.close()
    await gate.close()
  })
  return { database, gate }
}
