import type { ClientSession, Condition } from 'mongodb'
import { clock } from '../runtime/clock.ts'
import type { Database } from '../runtime/database.ts'
import {
  confirmationId,
  confirmationQueue,
  messageReactionId,
  reactionsOfSubscriber,
  requestReactionId,
  type AutoresponderDocument,
  type Delay,
  type ReactionDocument,
} from '../contract/schemas/autoresponder.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { SubscriberDocument } from '../contract/schemas/subscriber.ts'
import { dueTime } from '../values/due-time.ts'
import { formatInstant, localToUtcMs } from '../values/time-zone.ts'

/**
 * Reactions that requests and delivery events cause, and what ends them. Each function works inside the transaction
 * of its cause. (The reactions of an import are written by its batches: engine/stages/write.)
 */

/** An autoresponder that answers, with its delay. */
export type AnsweringAutoresponder = Pick<AutoresponderDocument, '_id'> & Delay

export interface ReactionToQueue {
  /** From `ids.allocate('reaction', n)`. Unused ids are never assigned, which does no harm. */
  id: number
  /** Each request queues a reaction. For one message each autoresponder queues only one. */
  cause: 'request' | { messageId: string }
  organizationId: number
  /** The subscriber as the transaction read it. */
  subscriber: Pick<SubscriberDocument, 'id' | 'mailing_list_id' | 'reactivations'>
  autoresponder: AnsweringAutoresponder
  /** IANA name of the organization's zone. */
  zone: string
  /** Start of the delay, by the database's clock, which decides what is due. */
  causedAt: Date
  /** Replacements for texts of the mail, under the keys of the request. */
  fields?: Record<string, string>
  rawFields?: Record<string, string>
}

/** Queues reactions with their due times. Resolves to those that weren't queued already. */
export async function queueReactions(
  { reactions }: Collections,
  session: ClientSession,
  toQueue: readonly ReactionToQueue[],
): Promise<ReactionDocument[]> {
  const now = clock.now()
  const documents = new Map(
    toQueue.map((reaction) => [reactionKey(reaction), buildReaction(reaction, now)] as const),
  )
  const ofMessages = toQueue.filter(({ cause }) => cause !== 'request').map(reactionKey)
  if (ofMessages.length > 0) {
    const existing = await reactions
      .find(
        { _id: { $in: ofMessages } },
        { session, projection: { _id: 1 }, batchSize: ofMessages.length + 1 },
      )
      .toArray()
    for (const { _id } of existing) documents.delete(_id)
  }
  const queued = [...documents.values()]
  if (queued.length > 0) await reactions.insertMany(queued, { session })
  return queued
}

function reactionKey({ cause, subscriber, autoresponder, id }: ReactionToQueue): string {
  return cause === 'request'
    ? requestReactionId(subscriber.id, autoresponder._id, id)
    : messageReactionId(subscriber.id, autoresponder._id, cause.messageId)
}

function buildReaction(reaction: ReactionToQueue, now: Date): ReactionDocument {
  const { subscriber, autoresponder, fields, rawFields } = reaction
  const dueAt = dueTime(autoresponder, reaction.causedAt, reaction.zone)
  return {
    _id: reactionKey(reaction),
    id: reaction.id,
    organization_id: reaction.organizationId,
    mailing_list_id: subscriber.mailing_list_id,
    autoresponder_id: autoresponder._id,
    subscriber_id: subscriber.id,
    import_id: null,
    state: 'queued',
    due_at: dueAt,
    available_at: dueAt,
    ...(subscriber.reactivations === undefined ? {} : { reactivations: subscriber.reactivations }),
    ...(fields === undefined ? {} : { fields }),
    ...(rawFields === undefined ? {} : { raw_fields: rawFields }),
    created_at: now,
  }
}

interface Confirmation {
  /** From `ids.allocate('reaction')`. */
  id: number
  organizationId: number
  listId: number
  /** `_id` of the pending subscriber: form, address and link are read from it when the message is taken. */
  pendingSubscriber: string
  /** When it was requested, by the database's clock. */
  dueAt: Date
}

/** Queues the mail that asks for a confirmation. */
export async function queueConfirmation(
  { reactions }: Collections,
  session: ClientSession,
  { id, organizationId, listId, pendingSubscriber, dueAt }: Confirmation,
): Promise<void> {
  const document: ReactionDocument = {
    _id: confirmationId(id),
    id,
    organization_id: organizationId,
    mailing_list_id: listId,
    autoresponder_id: confirmationQueue(organizationId),
    subscriber_id: null,
    pending_subscriber: pendingSubscriber,
    import_id: null,
    state: 'queued',
    due_at: dueAt,
    available_at: dueAt,
    created_at: dueAt,
  }
  await reactions.insertOne(document, { session })
}

/** What no sender has taken. The reply to a take can't be called back, so a taken message stays until its lease ends. */
const untaken = { state: 'queued', lease: { $exists: false } } as const

/** Withdraws the mail of a confirmation unless a sender has taken it. */
export async function withdrawConfirmation(
  { reactions }: Collections,
  session: ClientSession,
  id: number,
): Promise<void> {
  await reactions.deleteOne({ _id: confirmationId(id), ...untaken }, { session })
}

/** Drops the unsent reactions of subscribers that are no longer active. Taken ones stay with their sender. */
export async function dropSubscriberReactions(
  collections: Collections,
  session: ClientSession,
  subscriberIds: readonly number[],
): Promise<void> {
  await dropUnsent(collections, session, matchSubscribers(subscriberIds))
}

/** The same for many subscribers of some lists. Few lists have autoresponders, so these are looked up first. */
export async function dropReactionsInLists(
  collections: Collections,
  session: ClientSession,
  listIds: readonly number[],
  subscriberIds: readonly number[],
): Promise<void> {
  if (subscriberIds.length === 0) return
  const autoresponder = await collections.autoresponders.findOne(
    { mailing_list_id: { $in: [...listIds] } },
    { session, projection: { _id: 1 } },
  )
  if (autoresponder !== null) await dropSubscriberReactions(collections, session, subscriberIds)
}

/** The same for single reactions, by `_id`, whose condition was not met. */
export async function dropReactions(
  collections: Collections,
  session: ClientSession,
  keys: readonly string[],
): Promise<void> {
  await dropUnsent(collections, session, { $in: [...keys] })
}

async function dropUnsent(
  { reactions }: Collections,
  session: ClientSession,
  _id: Condition<string>,
): Promise<void> {
  await reactions.updateMany({ _id, ...untaken }, { $set: { state: 'dropped' } }, { session })
}

/** Removes the reactions of deleted subscribers, also those that a sender has taken. */
export async function removeSubscriberReactions(
  { reactions }: Collections,
  session: ClientSession,
  subscriberIds: readonly number[],
): Promise<void> {
  await reactions.deleteMany({ _id: matchSubscribers(subscriberIds) }, { session })
}

/** With `$in` the server scans the index once; with `$or` it would plan each range separately. */
function matchSubscribers(ids: readonly number[]) {
  const [first] = ids
  return first !== undefined && ids.length === 1
    ? reactionsOfSubscriber(first)
    : { $in: ids.map((id) => new RegExp(`^${id}:`)) }
}

const maxKnownDays = 10_000

/**
 * Records that autoresponders were triggered on the day of `at`, which is by the database's clock. Called after the
 * transaction of the reactions, because in it all such transactions would conflict. Each process writes once a day
 * for each autoresponder.
 */
export async function recordTriggered(
  { collections, local: { triggeredDays } }: Database,
  autoresponderIds: Iterable<number>,
  { zone, at }: { zone: string; at: Date },
): Promise<void> {
  const day = localToUtcMs(zone, Date.parse(`${formatInstant(at, zone).slice(0, 10)}T00:00:00Z`))
  if (triggeredDays.size > maxKnownDays) triggeredDays.clear()
  for (const id of new Set(autoresponderIds)) {
    if (triggeredDays.get(id) === day) continue
    await collections.autoresponders.updateOne(
      { _id: id, $or: [{ triggered_at: null }, { triggered_at: { $lt: new Date(day) } }] },
      { $set: { triggered_at: at } },
    )
    triggeredDays.set(id, day)
  }
}
