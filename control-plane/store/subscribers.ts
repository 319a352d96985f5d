import type { ClientSession, Filter } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { inTransaction } from '../../shared/runtime/transactions.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { removeSubscriberReactions } from '../../shared/store/reactions.ts'
import { addMove, changeCounts, noStatusCounts } from '../../shared/store/subscriber-counts.ts'

/** Which subscriber: by `_id`, by its public id, or by the email where that isn't the identity. */
export type SubscriberReference =
  string | { listId: number; id: number } | { listId: number; emailKey: string }

export function referenceFilter(reference: SubscriberReference): Filter<SubscriberDocument> {
  if (typeof reference === 'string') return { _id: reference }
  return 'id' in reference
    ? { mailing_list_id: reference.listId, id: reference.id }
    : { mailing_list_id: reference.listId, email_key: reference.emailKey }
}

/** Removes up to `limit` subscribers with this reference, lowest id first, and the reactions that are queued for them. */
export function removeSubscribers(
  database: Database,
  organizationId: number,
  reference: SubscriberReference,
  limit: number,
): Promise<{ ids: number[]; moreRemaining: boolean }> {
  const { collections } = database
  return inTransaction(database, async (session) => {
    const found = await collections.subscribers
      .find(referenceFilter(reference), { session, projection: { id: 1, mailing_list_id: 1, status: 1 } })
      // An `_id` finds one at most: a sort would cost the server work for nothing.
      .sort(typeof reference === 'string' ? {} : { id: 1 })
      .limit(limit + 1)
      .toArray()
    const removed = found.slice(0, limit)
    const [first] = removed
    if (first === undefined) return { ids: [], moreRemaining: false }
    const ids = removed.map(({ id }) => id)
    await collections.subscribers.deleteMany({ _id: { $in: removed.map(({ _id }) => _id) } }, { session })
    await removeSubscriberReactions(collections, session, ids)
    await collections.deletedSubscribers.insertMany(
      removed.map(({ id, mailing_list_id }) => ({ _id: id, mailing_list_id })),
      { session },
    )
    const changes = noStatusCounts()
    for (const { status } of removed) addMove(changes, status, null)
    await changeCounts(database, session, { organizationId, listId: first.mailing_list_id, changes })
    return { ids, moreRemaining: found.length > limit }
  })
}

/**
 * Makes a transaction that queues reactions conflict with a concurrent deletion or change of these subscribers, which
 * would otherwise leave the reactions behind.
 */
export async function bumpReactionRequests(
  { subscribers }: Collections,
  session: ClientSession,
  keys: string[],
): Promise<void> {
  await subscribers.updateMany({ _id: { $in: keys } }, { $inc: { reaction_requests: 1 } }, { session })
}
