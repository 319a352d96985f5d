import type { ClientSession } from 'mongodb'
import type { Collections } from '../contract/schemas/collections.ts'
import type { SubscriberStatus } from '../contract/schemas/subscriber.ts'
import { subscriberTransition } from '../values/subscriber-transition.ts'
import { dropReactionsInLists } from './reactions.ts'

/**
 * Gives active subscribers a status in which they have left their lists, with its effects on the subscribers and their
 * reactions. The caller changes the counts.
 */
export async function leaveLists(
  collections: Collections,
  session: ClientSession,
  {
    status,
    listIds,
    subscribers,
    leftAt,
  }: {
    status: SubscriberStatus
    /** The lists of these subscribers. */
    listIds: readonly number[]
    subscribers: readonly { _id: string; id: number }[]
    leftAt: Date
  },
): Promise<void> {
  const { removal, dropsReactions } = subscriberTransition('active', status)
  await collections.subscribers.updateMany(
    { _id: { $in: subscribers.map(({ _id }) => _id) } },
    { $set: { status, ...(removal === 'begins' ? { remove_time: leftAt } : {}) } },
    { session },
  )
  const ids = subscribers.map(({ id }) => id)
  if (dropsReactions) await dropReactionsInLists(collections, session, listIds, ids)
}
