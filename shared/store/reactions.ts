import type { ClientSession, Condition } from 'mongodb'
import { clock } from '../runtime/clock.ts'
import type { Database } from '../runtime/database.ts'
import {
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
  return {
    _id: reactionKey(reaction),
    id: reaction.id,
    organization_id: reaction.organizationId,
    mailing_list_id: subscriber.mailing_list_id,
    autoresponder_id: autoresponder._id,
    subscriber_id: subscriber.id,
    import_id: null,
    state: 'queued',
    due_at: dueTime(autoresponder, reaction.causedAt, reaction.zone),
    ...(subscriber.reactivations === undefined ? {} : { reactivations: subscriber.reactivations }),
    ...(fields === undefined ? {} : { fields }),
    ...(rawFields === undefined ? {} : { raw_fields: rawFields }),
    created_at: now,
  }
}

type Unsent = Pick<ReactionDocument, '_id' | 'id' | 'state'>
const unsentFields = { id: 1, state: 1 } as const

/** Drops the unsent reactions of subscribers that are no longer active. Leased messages stay with their sender. */
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
  { reactions, outbox }: Collections,
  session: ClientSession,
  _id: Condition<string>,
): Promise<void> {
  const unsent = await reactions
    .find<Unsent>({ _id, state: { $in: ['queued', 'due'] } }, { session, projection: unsentFields })
    .toArray()
  if (unsent.length === 0) return
  const due = unsent.filter(({ state }) => state === 'due').map(({ id }) => id)
  let leased = new Set<number>()
  if (due.length > 0) {
    const leasedMessages = await outbox
      .find({ _id: { $in: due }, state: 'taken' }, { session, projection: { _id: 1 } })
      .toArray()
    leased = new Set(leasedMessages.map(({ _id }) => _id))
    await outbox.deleteMany({ _id: { $in: due }, state: 'ready' }, { session })
  }
  const dropped = unsent.filter(({ id }) => !leased.has(id)).map(({ _id }) => _id)
  if (dropped.length > 0)
    await reactions.updateMany({ _id: { $in: dropped } }, { $set: { state: 'dropped' } }, { session })
}

/** Removes the reactions of deleted subscribers, with their messages, also those that a sender has leased. */
export async function removeSubscriberReactions(
  { reactions, outbox }: Collections,
  session: ClientSession,
  subscriberIds: readonly number[],
): Promise<void> {
  const filter = { _id: matchSubscribers(subscriberIds) }
  const found = await reactions.find<Unsent>(filter, { session, projection: unsentFields }).toArray()
  if (found.length === 0) return
  const due = found.filter(({ state }) => state === 'due').map(({ id }) => id)
  if (due.length > 0) await outbox.deleteMany({ _id: { $in: due } }, { session })
  await reactions.deleteMany({ _id: { $in: found.map(({ _id }) => _id) } }, { session })
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
