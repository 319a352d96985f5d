import { isDuplicateKey } from '../../shared/runtime/database.ts'
import { callbackQueue, type CallbackDocument } from '../../shared/contract/schemas/callback.ts'
import { callbacksIndex, type Collections } from '../../shared/contract/schemas/collections.ts'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'

/**
 * Callbacks of imports. Who tries one holds a lease, taken in one guarded write; what came of the try is written under
 * its token. An engine that dies holding one leaves it to the end of the lease.
 */

/** Enters the callback of an ended import; false when that was done already. */
export async function insertCallback(
  collections: Collections,
  document: ImportDocument,
  { webhookId, body }: { webhookId: string; body: string },
): Promise<boolean> {
  try {
    await collections.callbacks.insertOne({
      _id: document._id,
      organization_id: document.organization_id,
      queue: callbackQueue(document.organization_id, document.callback!.url),
      webhook_id: webhookId,
      body,
      state: 'waiting',
      // At once, by the database's clock.
      due_at: document.finished_at!,
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

/** Takes the next callback of a queue that is due by `until`; null when there is none. */
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

/** The holder's try went well. False when somebody else has it by now, or had. */
export function markDelivered(collections: Collections, lease: LeasedCallback): Promise<boolean> {
  return writeLeased(collections, lease, { state: 'delivered', ended_at: '$$NOW' })
}

/** The holder's try failed; with null for the wait it was the last one. */
export function noteFailure(
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

/** The holder gives it back without having heard how its try ended: it is due again at once. */
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
