import type { Document } from 'mongodb'
import t from 'tap'
import { isAnythingLeftBehind } from '../../../engine/store/left-behind.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { leaseMs, register, renewLease } from '../../../shared/store/leases.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'

/** What an engine looks for every 3 s, where a living engine and a living control plane are at rest. */

const { database } = await databaseAndFolder(t)
const { db } = database
await ensureSchema(db, createLogger({ process: 'test', level: 'silent' }))
const living = { _id: 'living', host: 'test', process_id: 1, session_ids: [] }
await register(database, 'engines', { ...living, number: 0, sees_files: true })
await register(database, 'processes', { ...living, kind: 'control-plane' })

/** The tests run long after this file was loaded. */
async function renewLiving(): Promise<void> {
  await renewLease(database, 'engines', { _id: 'living', sees_files: true })
  await renewLease(database, 'processes', { _id: 'living' })
}

const { election } = database.local.leaseWatch.lastKnown
const ahead = (ms: number) => new Date(Date.now() + ms)
const registered = {
  'is marked dead': { dead: true },
  'has an expired lease': { lease_until: ahead(-1) },
  'has the lease of another election': { lease_election: '7fffffff0000000000000000' },
  'has a lease longer than one': { lease_until: ahead(10 * leaseMs) },
}
const work: [what: string, collection: string, document: Document][] = [
  ['a running chunk', 'import_chunks', { state: 'running' }],
  ['a leased step', 'imports', { state: 'splitting', lease: { holder: 'other' } }],
  ['a leased step of a paused import', 'imports', { state: 'paused', lease: { holder: 'other' } }],
  ['a leased end', 'imports', { finalized: false, finished_at: new Date(), lease: { holder: 'other' } }],
  ['a limit that no request enforced', 'organizations', { limit_change: 'a' }],
  ['a callback', 'import_callbacks', { state: 'waiting', token: 'a', due_at: ahead(600_000) }],
  ['a message', 'reactions', { lease: { token: 'a', began_at: ahead(600_000) } }],
  ['an upload', 'uploads', { state: 'unfinished', lease: { until: ahead(600_000) } }],
]

for (const collection of ['engines', 'processes'])
  for (const [what, change] of Object.entries(registered))
    t.test(`${collection}: one that ${what}`, async (t) => {
      await renewLiving()
      const { insertedId: _id } = await db.collection(collection).insertOne(
        {
          host: 'test',
          number: 1,
          dead: false,
          lease_until: ahead(5_000),
          lease_election: election,
          ...change,
        },
        { bypassDocumentValidation: true },
      )
      t.equal(await isAnythingLeftBehind(database), true)
      await db.collection(collection).deleteOne({ _id })
      t.equal(await isAnythingLeftBehind(database), false, 'and nothing without it')
    })

for (const [what, collection, document] of work)
  t.test(`${collection}: ${what}`, async (t) => {
    await renewLiving()
    await db.collection(collection).insertOne({ ...document }, { bypassDocumentValidation: true })
    t.equal(await isAnythingLeftBehind(database), true)
    await db.collection(collection).deleteMany({})
    t.equal(await isAnythingLeftBehind(database), false, 'and nothing without it')
  })
