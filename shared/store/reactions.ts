import type { ClientSession } from 'mongodb'
import { clock } from '../runtime/clock.ts'
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
 * Reactions that requests and delivery events cause, and what ends them. Each function works inside the transaction in
 * which it happened. (An import's reactions are written by its batches: engine/writing.)
 */

/** An autoresponder that is to answer. */
export type Answering = Pick<AutoresponderDocument, '_id'> & Delay

export interface ReactionToQueue {
  /** From `nextIds(collections, 'reaction', n)`; one that isn't used is lost, which is fine. */
  id: number
  /** A request is a cause of its own; of one message each autoresponder's reaction is queued once. */
  cause: 'request' | { messageId: string }
  organizationId: number
  /** As the transaction sees it. */
  subscriber: Pick<SubscriberDocument, 'id' | 'mailing_list_id' | 'reactivations'>
  autoresponder: Answering
  /** IANA name of the organization's zone. */
  zone: string
  /** What the delay counts from, by the database's clock: who sends what is due goes by that one. */
  causedAt: Date
  /** Replacements for the mail's texts, keys as given. */
  fields?: Record<string, string>
  rawFields?: Record<string, string>
}

/** Queues them with their due times. Resolves to those that weren't there already. */
export async function queueReactions(
  { reactions }: Collections,
  session: ClientSession,
  toQueue: readonly ReactionToQueue[],
): Promise<ReactionDocument[]> {
  const now = clock.now()
  const documents = new Map(
    toQueue.map((reaction) => [keyOf(reaction), reactionDocumentOf(reaction, now)] as const),
  )
  const ofMessages = toQueue.filter(({ cause }) => cause !== 'request').map(keyOf)
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

function keyOf({ cause, subscriber, autoresponder, id }: ReactionToQueue): string {
  return cause === 'request'
    ? requestReactionId(subscriber.id, autoresponder._id, id)
    : messageReactionId(subscriber.id, autoresponder._id, cause.messageId)
}

function reactionDocumentOf(reaction: ReactionToQueue, now: Date): ReactionDocument {
  const { subscriber, autoresponder, fields, rawFields } = reaction
  return {
    _id: keyOf(reaction),
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

/** What waits for these subscribers, who are active no longer, won't be sent. What was handed out already is left to who has it. */
export async function dropReactionsOf(
  collections: Collections,
  session: ClientSession,
  subscriberIds: readonly number[],
): Promise<void> {
  const unsent = await collections.reactions
    .find<Unsent>(
      { _id: ofSubscribers(subscriberIds), state: { $in: ['queued', 'due'] } },
      { session, projection: unsentFields },
    )
    .toArray()
  await drop(collections, session, unsent)
}

/** The same for many subscribers of a list at once. Few lists have autoresponders, so that is asked first. */
export async function dropReactionsInList(
  collections: Collections,
  session: ClientSession,
  listId: number,
  subscriberIds: readonly number[],
): Promise<void> {
  if (subscriberIds.length === 0) return
  const any = await collections.autoresponders.findOne(
    { mailing_list_id: listId },
    { session, projection: { _id: 1 } },
  )
  if (any !== null) await dropReactionsOf(collections, session, subscriberIds)
}

/** The same of single reactions, by `_id`: what they waited for didn't come about. */
export async function dropReactions(
  collections: Collections,
  session: ClientSession,
  keys: readonly string[],
): Promise<void> {
  const unsent = await collections.reactions
    .find<Unsent>(
      { _id: { $in: [...keys] }, state: { $in: ['queued', 'due'] } },
      { session, projection: unsentFields },
    )
    .toArray()
  await drop(collections, session, unsent)
}

async function drop(
  { reactions, outbox }: Collections,
  session: ClientSession,
  unsent: readonly Unsent[],
): Promise<void> {
  if (unsent.length === 0) return
  const due = unsent.filter(({ state }) => state === 'due').map(({ id }) => id)
  let taken = new Set<number>()
  if (due.length > 0) {
    const inHand = await outbox
      .find({ _id: { $in: due }, state: 'taken' }, { session, projection: { _id: 1 } })
      .toArray()
    taken = new Set(inHand.map(({ _id }) => _id))
    await outbox.deleteMany({ _id: { $in: due }, state: 'ready' }, { session })
  }
  const dropped = unsent.filter(({ id }) => !taken.has(id)).map(({ _id }) => _id)
  if (dropped.length > 0)
    await reactions.updateMany({ _id: { $in: dropped } }, { $set: { state: 'dropped' } }, { session })
}

/** With deleted subscribers their reactions go, and messages that are in somebody's hand too. */
export async function removeReactionsOf(
  { reactions, outbox }: Collections,
  session: ClientSession,
  subscriberIds: readonly number[],
): Promise<void> {
  const filter = { _id: ofSubscribers(subscriberIds) }
  const found = await reactions.find<Unsent>(filter, { session, projection: unsentFields }).toArray()
  if (found.length === 0) return
  const due = found.filter(({ state }) => state === 'due').map(({ id }) => id)
  if (due.length > 0) await outbox.deleteMany({ _id: { $in: due } }, { session })
  await reactions.deleteMany({ _id: { $in: found.map(({ _id }) => _id) } }, { session })
}

/** The server makes one walk over the index out of them; with `$or` it would plan each range for itself. */
function ofSubscribers(ids: readonly number[]) {
  const [first] = ids
  return ids.length === 1 ? reactionsOfSubscriber(first!) : { $in: ids.map((id) => new RegExp(`^${id}:`)) }
}

/** By autoresponder, the beginning of the day for which this process has noted it. */
const noted = new WeakMap<Collections, Map<number, number>>()
const maxNoted = 10_000

/**
 * After reactions were committed: notes that their autoresponders were triggered on this day, that of `at`, by the
 * database's clock. One write an autoresponder, day and process, outside of the transactions, which would all meet on it.
 */
export async function noteTriggered(
  collections: Collections,
  autoresponderIds: Iterable<number>,
  { zone, at }: { zone: string; at: Date },
): Promise<void> {
  const day = localToUtcMs(zone, Date.parse(`${formatInstant(at, zone).slice(0, 10)}T00:00:00Z`))
  let known = noted.get(collections)
  if (known === undefined || known.size > maxNoted)
    noted.set(collections, (known = new Map<number, number>()))
  for (const id of new Set(autoresponderIds)) {
    if (known.get(id) === day) continue
    await collections.autoresponders.updateOne(
      { _id: id, $or: [{ triggered_at: null }, { triggered_at: { $lt: new Date(day) } }] },
      { $set: { triggered_at: at } },
    )
    known.set(id, day)
  }
}
