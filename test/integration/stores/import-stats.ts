import t from 'tap'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { readImportStats } from '../../../shared/processes/import-stats.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { makeOptions } from '../../helpers/make-plan.ts'
import { leaseOf, storedChunk, storedImport } from '../../helpers/stored-import.ts'

/** What the metrics say of imports, chunks and engines. */

const ago = (seconds: number): Date => new Date(Date.now() - seconds * 1_000)

t.test('due imports wait for their list or for an engine, and a dry run waits for no list', async (t) => {
  const { database } = await databaseAndFolder(t)
  const { collections } = database
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const due = { state: 'scheduled', started_at: null, begins_at: ago(50) } as const
  await collections.imports.insertMany([
    storedImport({ _id: 1, mailing_list_id: 1, state: 'importing', holds_list: true }),
    storedImport({ ...due, _id: 2, mailing_list_id: 1, begins_at: ago(300) }),
    storedImport({ ...due, _id: 3, mailing_list_id: 1, options: makeOptions({ dry_run: true }) }),
    storedImport({ ...due, _id: 4, mailing_list_id: 2 }),
    storedImport({ ...due, _id: 5, mailing_list_id: 2, begins_at: ago(-3_600) }),
    storedImport({ _id: 6, mailing_list_id: 3, state: 'paused', paused_from: 'importing', holds_list: true }),
    storedImport({ ...due, _id: 7, mailing_list_id: 3 }),
    storedImport({ _id: 8, mailing_list_id: 4, state: 'finished', finalized: true, finished_at: ago(1) }),
  ])
  const leased = (until: Date) =>
    ({ state: 'running', ...leaseOf({ token: 'x', holder: 'x', until }) }) as const
  await collections.chunks.insertMany([
    storedChunk(1, 0),
    storedChunk(1, 1, leased(ago(-60))),
    storedChunk(1, 2, leased(ago(60))),
    storedChunk(1, 3, { state: 'done' }),
  ])
  const engine = {
    host: 'h',
    process_id: 1,
    started_at: ago(60),
    session_ids: [],
    sees_files: true,
    lease_election: null,
  }
  await collections.engines.insertMany([
    { ...engine, _id: 'alive', number: 0, dead: false, lease_until: ago(-60) },
    { ...engine, _id: 'late', number: 1, dead: false, lease_until: ago(1) },
    { ...engine, _id: 'dead', number: 2, dead: true, lease_until: ago(-60) },
  ])
  const stats = await readImportStats(collections)
  t.same(stats.due, { list: 2, engine: 2 })
  t.ok(stats.queueAge >= 300 && stats.queueAge < 360, `${stats.queueAge} s`)
  t.same(stats.unfinished, { scheduled: 5, downloading: 0, splitting: 0, importing: 1, paused: 1 })
  t.same(stats.chunks, { ready: 1, running: 1, overdue: 1 })
  t.same(stats.engines, { alive: 1, overdue: 2 })
  t.match(stats.running, [{ importId: 1, state: 'importing', chunks: 2 }])
})
