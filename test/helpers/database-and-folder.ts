import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { openDatabase, type Database } from '../../shared/runtime/database.ts'
import { testMongodbUri } from './service.ts'

/** A database and a folder for one test, removed when it ends. No process runs on them. */
export async function databaseAndFolder(
  t: Test,
  uri: string = testMongodbUri(),
): Promise<{ database: Database; folder: string }> {
  const database = await openDatabase({
    uri,
    name: `test_${randomBytes(6).toString('hex')}`,
  })
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall test '))
  t.teardown(async () => {
    await database.db.dropDatabase()
    await database.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { database, folder }
}
