import type { ClientSession } from 'mongodb'
import type { Collections } from '../contract/schemas/collections.ts'
import type { SubscriberStatus } from '../contract/schemas/subscriber.ts'
import { subscriberTransition } from '../values/subscriber-transition.ts'
import { dropReactionsInLists } from './reactions.ts'

/**
 * Gives active subscribers statuses in which they have left their lists, with the effects on them and their reactions.
 * The caller changes the counts.
 */
export async function leaveLists(
  collections: Collections,
  session: ClientSession,
  {
    byStatus,
    listIds,
    leftAt,
  }: {
    /** The subscribers by their new status. */
    byStatus: ReadonlyMap<SubscriberStatus, readonly { _id: string; id: number }[]>
    /** Their lists. */
    listIds: readonly number[]
    leftAt: Date
  },
): Promise<void> {
  const subscriberIds: number[] = []
  for (const [status, subscribers] of byStatus) {
    const { removal, dropsReactions } = subscriberTransition('active', status)
    await collections.subscribers.updateMany(
      { _id: { $in: subscribers.map(({ _id }) => _id) } },
      { $set: { status, ...(removal === 'begins' ? { remove_time: leftAt } : {}) } },
      { session },
    )
    if (dropsReactions) subscriberIds.push(...subscribers.map(({ id }) => id))
  }
  await dropReactionsInLists(collections, session, listIds, subscriberIds)
}
