import { callbacksIndex, leasedIndex, type Collections } from '../../shared/contract/schemas/collections.ts'
import { chunkLeaseMs } from '../../shared/store/chunks.ts'
import { uploadLeaseMs } from '../../shared/store/uploads.ts'

/**
 * Cuts leases that end further ahead than their length to that length, by the database's clock. They were made before
 * that clock was set back, and those of dead processes would otherwise last longer by as much. Living holders have a
 * full lease to renew theirs. Leases of processes are cut in shared/store/leases.ts.
 */
export async function cutLeases(
  { chunks, callbacks, reactions, uploads }: Collections,
  { callbackLeaseMs }: { callbackLeaseMs: number },
): Promise<number> {
  const cuts = await Promise.all([
    chunks.updateMany({ state: 'running', ...endsAfter('lease.until', chunkLeaseMs) }, [
      { $set: { 'lease.until': ahead(chunkLeaseMs) } },
    ]),
    callbacks.updateMany(
      { state: 'waiting', token: { $type: 'string' }, ...endsAfter('due_at', callbackLeaseMs) },
      [{ $set: { due_at: ahead(callbackLeaseMs) } }],
      { hint: callbacksIndex },
    ),
    reactions.updateMany(
      { 'lease.token': { $exists: true }, ...endsAfter('lease.began_at', 0) },
      [
        {
          $set: {
            available_at: { $add: ['$$NOW', { $subtract: ['$available_at', '$lease.began_at'] }] },
            'lease.began_at': '$$NOW',
          },
        },
      ],
      { hint: leasedIndex },
    ),
    uploads.updateMany({ state: 'unfinished', ...endsAfter('lease.until', uploadLeaseMs) }, [
      { $set: { 'lease.until': ahead(uploadLeaseMs) } },
    ]),
  ])
  return cuts.reduce((sum, { modifiedCount }) => sum + modifiedCount, 0)
}

const ahead = (ms: number) => ({ $add: ['$$NOW', ms] })
const endsAfter = (field: string, ms: number) => ({ $expr: { $gt: [`$${field}`, ahead(ms)] } })
