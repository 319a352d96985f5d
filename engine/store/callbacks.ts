import { isDuplicateKey } from '../../shared/runtime/driver-errors.ts'
import { callbackQueue, type CallbackDocument } from '../../shared/contract/schemas/callback.ts'
import { callbacksIndex, type Collections } from '../../shared/contract/schemas/collections.ts'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'

/**
 * Callbacks of imports. An engine leases a callback in one guarded write, and stores the result of its attempt under the
 * lease's token. When the engine dies, the callback is due again at the end of the lease.
 */

/** Queues the callback of an ended import. False when it is queued already. */
export async function insertCallback(
  collections: Collections,
  document: Pick<ImportDocument, '_id' | 'organization_id'>,
  callback: { url: string; webhookId: string; body: string; dueAt: Date },
): Promise<boolean> {
  try {
    await collections.callbacks.insertOne({
      _id: document._id,
      organization_id: document.organization_id,
      queue: callbackQueue(document.organization_id, callback.url),
      webhook_id: callback.webhookId,
      body: callback.body,
      state: 'waiting',
      due_at: callback.dueAt,
      token: null,
      tried_at: null,
      failures: 0,
      problem: null,
      ended_at: null,
    })
    return true
  } catch (error) {
    if (isDuplicateKey(error)) return false
    throw error
  }
}

/** Leases the next callback of a queue that is due by `until`. Null when there is none. */
export function claimCallback(
  collections: Collections,
  queue: string,
  { until, token, leaseMs }: { until: Date; token: string; leaseMs: number },
): Promise<CallbackDocument | null> {
  return collections.callbacks.findOneAndUpdate(
    { state: 'waiting', queue, due_at: { $lte: until } },
    [{ $set: { token, tried_at: '$$NOW', due_at: { $add: ['$$NOW', leaseMs] } } }],
    { sort: callbacksIndex, hint: callbacksIndex, returnDocument: 'after' },
  )
}

/** The attempt succeeded. False when the lease is lost. */
export function markDelivered(collections: Collections, lease: LeasedCallback): Promise<boolean> {
  return writeLeased(collections, lease, { state: 'delivered', ended_at: '$$NOW' })
}

/** The attempt failed; with null for the wait it was the last one. False when the lease is lost. */
export function recordFailure(
  collections: Collections,
  lease: LeasedCallback,
  { problem, waitMs }: { problem: string; waitMs: number | null },
): Promise<boolean> {
  return writeLeased(collections, lease, {
    failures: { $add: ['$failures', 1] },
    problem: { $literal: problem },
    ...(waitMs === null ? { state: 'given_up', ended_at: '$$NOW' } : { due_at: { $add: ['$$NOW', waitMs] } }),
  })
}

/** Releases a callback whose attempt was aborted: it is due again at once. */
export function releaseCallback(collections: Collections, lease: LeasedCallback): Promise<boolean> {
  return writeLeased(collections, lease, { due_at: '$$NOW' })
}

export interface LeasedCallback {
  importId: number
  token: string
}

async function writeLeased(
  { callbacks }: Collections,
  { importId, token }: LeasedCallback,
  set: Record<string, unknown>,
): Promise<boolean> {
  const { matchedCount } = await callbacks.updateOne({ _id: importId, state: 'waiting', token }, [
    { $set: { ...set, token: null } },
  ])
  return matchedCount === 1
}
