import t from 'tap'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { claimMessages } from '../../../shared/store/outbox.ts'
import { claimChunk } from '../../../shared/store/chunks.ts'
import { LedgerTransactions } from '../../../shared/store/ledger-transactions.ts'
import { noLimits } from '../../../shared/store/ledger.ts'
import { beginUpload } from '../../../shared/store/uploads.ts'
import { claimCallback, insertCallback } from '../../../engine/store/callbacks.ts'
import { cutLongLeases } from '../../../engine/jobs/cut-long-leases.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { storedChunk } from '../../helpers/stored-import.ts'
import { storedReaction } from '../../helpers/stored-reaction.ts'

/** The clock of the primary is set back: leases that were made before it lie further ahead than their length. */

const { database } = await databaseAndFolder(t)
const { db, collections } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(db, log)
const past = new Date(Date.now() - 60_000)
const claim = { engineId: 'a', token: 'mine' }

await collections.chunks.insertOne(storedChunk(1, 0, {}))
await claimChunk(collections, { _id: 1, fence: 0 }, claim)
const callback = { url: 'http://a.example.com', webhookId: 'w', body: '{}', dueAt: past }
await insertCallback(collections, { _id: 1, organization_id: 1 }, callback)
const { queue } = (await collections.callbacks.findOne())!
await claimCallback(collections, queue, { until: new Date(), token: 'mine', leaseMs: 30_000 })
await collections.reactions.insertOne(storedReaction({ due_at: past }))
const lease = { token: 'mine', seconds: 50 }
await claimMessages(collections, [{ queue: 1, dueAt: past }], { now: new Date(), limit: 1, lease })
const upload = { organizationId: 1, name: 'a.csv', own: null, token: 'mine', blob: 'uploads/00/a' }
const ledger = new LedgerTransactions(database)
const start = () => Promise.resolve({ start: 0, expected: null })
await beginUpload({ collections, ledger }, upload, start, noLimits)

const fields = [
  { of: 'chunk', collection: 'import_chunks', field: 'lease.until', maxMs: 60_000 },
  { of: 'callback', collection: 'import_callbacks', field: 'due_at', maxMs: 30_000 },
  { of: 'message', collection: 'reactions', field: 'available_at', maxMs: 50_000 },
  { of: 'message from its beginning', collection: 'reactions', field: 'lease.began_at', maxMs: 0 },
  { of: 'upload', collection: 'uploads', field: 'lease.until', maxMs: 15_000 },
]

/** Milliseconds from now to the time in the field, by the database's clock. */
async function aheadMs({ collection, field }: (typeof fields)[number]): Promise<number> {
  const [found] = await db
    .collection(collection)
    .aggregate<{ ms: number }>([{ $project: { ms: { $subtract: [`$${field}`, '$$NOW'] } } }])
    .toArray()
  return found!.ms
}

t.test('a lease within its length stays as it is', async (t) => {
  const before = await Promise.all(fields.map(({ collection }) => db.collection(collection).find().toArray()))
  await cutLongLeases(database).runOnce()
  const after = await Promise.all(fields.map(({ collection }) => db.collection(collection).find().toArray()))
  t.same(after, before)
})

t.test('each lease that lies further ahead ends after its length', async (t) => {
  for (const { collection, field } of fields)
    await db.collection(collection).updateMany({}, [{ $set: { [field]: { $add: [`$${field}`, 600_000] } } }])
  await cutLongLeases(database).runOnce()
  for (const each of fields) {
    const ms = await aheadMs(each)
    t.ok(ms <= each.maxMs && ms > each.maxMs - 10_000, `${each.of}: ${ms} of ${each.maxMs} ms`)
  }
})
