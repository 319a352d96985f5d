import type { Document } from 'mongodb'
import { callbacksIndex, leasedIndex, type Collections } from '../../shared/contract/schemas/collections.ts'
import type { Database } from '../../shared/runtime/database.ts'
import { chunkLeaseMs } from '../../shared/store/chunks.ts'
import { uploadLeaseMs } from '../../shared/store/uploads.ts'
import { callbackBounds } from '../stages/callback/callback-bounds.ts'

interface LongLeases {
  collection: string
  filter: Document
  cut: Document
  hint: Record<string, 1>
}

/**
 * Leases that end further ahead than their length, by the database's clock. They were made before that clock was set
 * back. Leases of processes are cut in shared/store/leases.ts.
 */
export const longLeases = ({ chunks, callbacks, reactions, uploads }: Collections): LongLeases[] => [
  {
    collection: chunks.collectionName,
    filter: { state: 'running', ...endsAfter('lease.until', chunkLeaseMs) },
    cut: { 'lease.until': ahead(chunkLeaseMs) },
    hint: { state: 1, 'lease.holder': 1 },
  },
  {
    collection: callbacks.collectionName,
    filter: {
      state: 'waiting',
      token: { $type: 'string' },
      ...endsAfter('due_at', callbackBounds.leaseMs),
    },
    cut: { due_at: ahead(callbackBounds.leaseMs) },
    hint: callbacksIndex,
  },
  {
    collection: reactions.collectionName,
    filter: { 'lease.token': { $exists: true }, ...endsAfter('lease.began_at', 0) },
    cut: {
      available_at: { $add: ['$$NOW', { $subtract: ['$available_at', '$lease.began_at'] }] },
      'lease.began_at': '$$NOW',
    },
    hint: leasedIndex,
  },
  {
    collection: uploads.collectionName,
    filter: { state: 'unfinished', ...endsAfter('lease.until', uploadLeaseMs) },
    cut: { 'lease.until': ahead(uploadLeaseMs) },
    hint: { state: 1 },
  },
]

/** Cuts those leases, because those of dead processes would last too long. Living holders have time to renew theirs. */
export async function cutLeases({ db, collections }: Database): Promise<number> {
  const cuts = await Promise.all(
    longLeases(collections).map(({ collection, filter, cut, hint }) =>
      db.collection(collection).updateMany(filter, [{ $set: cut }], { hint }),
    ),
  )
  return cuts.reduce((sum, { modifiedCount }) => sum + modifiedCount, 0)
}

const ahead = (ms: number) => ({ $add: ['$$NOW', ms] })
const endsAfter = (field: string, ms: number) => ({ $expr: { $gt: [`$${field}`, ahead(ms)] } })
