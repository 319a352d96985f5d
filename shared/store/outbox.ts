import type { ClientSession, Filter } from 'mongodb'
import type { ReactionDocument } from '../contract/schemas/autoresponder.ts'
import { leasedIndex, type Collections } from '../contract/schemas/collections.ts'
import { outboxQueue, type OutboxDocument } from '../contract/schemas/outbox.ts'
import { readBeginnings, readDue, readyMessages, type QueueBeginning } from './due-queues.ts'

/**
 * The outbox of messages for mail senders. The reaction dispatcher and requests for confirmation fill it. A sender
 * leases messages and acknowledges them; after the lease they go to the next sender. Each message is written with a
 * guard, so concurrent senders get different messages.
 */

const unleased = { state: 'ready', lease_token: null, leased_until: null } as const

/** The message of a due reaction. */
export const buildReactionMessage = (
  reaction: Pick<
    ReactionDocument,
    '_id' | 'id' | 'organization_id' | 'mailing_list_id' | 'autoresponder_id' | 'subscriber_id' | 'due_at'
  >,
): OutboxDocument => ({
  _id: reaction.id,
  organization_id: reaction.organization_id,
  mailing_list_id: reaction.mailing_list_id,
  kind: 'autoresponder',
  queue: outboxQueue.autoresponder(reaction.autoresponder_id),
  autoresponder_id: reaction.autoresponder_id,
  subscriber_id: reaction.subscriber_id,
  reaction: reaction._id,
  pending_subscriber: null,
  due_at: reaction.due_at,
  ...unleased,
})

interface Confirmation {
  /** From `ids.allocate('reaction')`. */
  id: number
  organizationId: number
  listId: number
  /** `_id` of the pending subscriber: form, address and link are read from it when the message is handed out. */
  pendingSubscriber: string
  /** When it was requested, by the database's clock. */
  dueAt: Date
}

/** Inside a request's transaction: queues the mail that asks for a confirmation. */
export async function putConfirmation(
  { outbox }: Collections,
  { id, organizationId, listId, pendingSubscriber, dueAt }: Confirmation,
  session: ClientSession,
): Promise<void> {
  const message: OutboxDocument = {
    _id: id,
    organization_id: organizationId,
    mailing_list_id: listId,
    kind: 'confirmation',
    queue: outboxQueue.confirmations(organizationId),
    autoresponder_id: null,
    subscriber_id: null,
    reaction: null,
    pending_subscriber: pendingSubscriber,
    due_at: dueAt,
    ...unleased,
  }
  await outbox.insertOne(message, { session })
}

/** The messages of one organization, or all. */
export type OutboxScope = { organizationId: number } | 'all'

const idOnly = { _id: 1 } as const
const maxReturned = 5_000

/**
 * Makes messages with an expired lease ready again. Their old token still acknowledges them until they are leased
 * again. A call for one organization reads no messages of others, of which there may be many.
 */
export async function returnExpired(collections: Collections, scope: OutboxScope): Promise<void> {
  const organizationIds =
    scope === 'all' ? await organizationsWithExpired(collections) : [scope.organizationId]
  for (const organizationId of organizationIds) await returnExpiredMessages(collections, organizationId)
}

async function organizationsWithExpired({ outbox }: Collections): Promise<number[]> {
  const found = await outbox
    .aggregate<{ _id: number }>(
      [
        { $match: { state: 'taken' } },
        { $sort: { organization_id: 1, leased_until: 1 } },
        { $group: { _id: '$organization_id', first: { $first: '$leased_until' } } },
        { $match: { $expr: { $lte: ['$first', '$$NOW'] } } },
      ],
      { hint: leasedIndex },
    )
    .toArray()
  return found.map(({ _id }) => _id)
}

async function returnExpiredMessages({ outbox }: Collections, organizationId: number): Promise<void> {
  const expired = await outbox
    .find(
      {
        state: 'taken',
        organization_id: organizationId,
        $expr: { $lte: ['$leased_until', '$$NOW'] },
      },
      { projection: idOnly, hint: leasedIndex },
    )
    .limit(maxReturned)
    .toArray()
  if (expired.length === 0) return
  await outbox.updateMany(
    {
      _id: { $in: expired.map(({ _id }) => _id) },
      state: 'taken',
      $expr: { $lte: ['$leased_until', '$$NOW'] },
    },
    { $set: { state: 'ready' } },
    { hint: { _id: 1 } },
  )
}

/** The queues from which messages can be leased, as their autoresponder isn't paused, and their first due times. */
export async function openQueues(collections: Collections, scope: OutboxScope): Promise<QueueBeginning[]> {
  const { autoresponders } = collections
  if (scope !== 'all') {
    const { organizationId } = scope
    const running = await autoresponders
      .find({ organization_id: organizationId, paused: false }, { projection: idOnly })
      .toArray()
    const queues = [
      outboxQueue.confirmations(organizationId),
      ...running.map(({ _id }) => outboxQueue.autoresponder(_id)),
    ]
    return readBeginnings(readyMessages(collections), queues)
  }
  const beginnings = await readBeginnings(readyMessages(collections))
  const paused = await autoresponders
    .find({ _id: { $in: beginnings.map(({ queue }) => queue) }, paused: true }, { projection: idOnly })
    .toArray()
  const closed = new Set(paused.map(({ _id }) => outboxQueue.autoresponder(_id)))
  return beginnings.filter(({ queue }) => !closed.has(queue))
}

/** All messages in the outbox are due. */
const endOfTime = new Date(8.64e15)

export interface Lease {
  token: string
  seconds: number
}

/**
 * Leases the first messages of these queues, and resolves to them in order of `due_at`. They are fewer than `limit`
 * where concurrent calls leased some of them. Null when the queues are empty.
 */
export async function claimMessages(
  collections: Collections,
  beginnings: readonly QueueBeginning[],
  { limit, lease: { token, seconds } }: { limit: number; lease: Lease },
): Promise<OutboxDocument[] | null> {
  const { outbox } = collections
  const first = await readDue(readyMessages(collections), beginnings, {
    until: endOfTime,
    limit,
    projection: idOnly,
  })
  if (first.length === 0) return null
  const ids = first.map(({ _id }) => _id)
  await outbox.updateMany(
    { _id: { $in: ids }, state: 'ready' },
    [
      {
        $set: {
          state: 'taken',
          lease_token: token,
          leased_until: { $add: ['$$NOW', seconds * 1_000] },
          leased_at: '$$NOW',
        },
      },
    ],
    { hint: { _id: 1 } },
  )
  return outbox
    .find({ _id: { $in: ids }, state: 'taken', lease_token: token }, { hint: { _id: 1 } })
    .sort({ due_at: 1, _id: 1 })
    .toArray()
}

/** Gives leased messages back to the outbox, as if they hadn't been leased. */
export async function returnMessages(
  { outbox }: Collections,
  messages: readonly Pick<OutboxDocument, '_id'>[],
  { token }: Lease,
): Promise<void> {
  if (messages.length === 0) return
  await outbox.updateMany(
    { _id: { $in: messages.map(({ _id }) => _id) }, lease_token: token },
    { $set: unleased },
    { hint: { _id: 1 } },
  )
}

/** Removes leased messages that must not be sent, and drops their reactions. */
export async function dropMessages(
  collections: Collections,
  messages: readonly OutboxDocument[],
  { token }: Lease,
): Promise<void> {
  if (messages.length > 0) await removeAs('dropped', collections, messages, [token])
}

/**
 * Removes messages that are leased under these tokens, and sets the state of their reactions. This is no transaction:
 * a process that is killed within one would lock the messages until its lease expires. Reactions are written first. A
 * message that is left over has a reaction that isn't due, and is removed when it would be leased again.
 */
async function removeAs(
  state: 'sent' | 'dropped',
  { outbox, reactions }: Collections,
  messages: readonly OutboxDocument[],
  tokens: string[],
): Promise<{ removed: number }> {
  const keys = messages.map(({ reaction }) => reaction).filter((key) => key !== null)
  if (keys.length > 0)
    await reactions.updateMany(
      { _id: { $in: keys }, state: 'due' },
      { $set: { state } },
      { hint: { _id: 1 } },
    )
  const { deletedCount } = await outbox.deleteMany(
    { _id: { $in: messages.map(({ _id }) => _id) }, lease_token: { $in: tokens } },
    { hint: { _id: 1 } },
  )
  return { removed: deletedCount }
}

interface Acknowledgement {
  id: number
  leaseToken: string
}

/**
 * Removes messages that were mailed, and marks their reactions as sent. Resolves to the ids of those that were leased
 * under their tokens. The others have a new lease, are acknowledged already, or are gone.
 */
export async function acknowledgeMessages(
  collections: Collections,
  scope: OutboxScope,
  acknowledgements: readonly Acknowledgement[],
): Promise<Set<number>> {
  const { outbox } = collections
  const tokens = new Map<number, Set<string>>()
  for (const { id, leaseToken } of acknowledgements)
    tokens.set(id, (tokens.get(id) ?? new Set()).add(leaseToken))
  const filter: Filter<OutboxDocument> = {
    _id: { $in: [...tokens.keys()] },
    ...(scope === 'all' ? {} : { organization_id: scope.organizationId }),
  }
  const found = await outbox.find(filter, { hint: { _id: 1 } }).toArray()
  const leased = found.filter(
    ({ _id, lease_token: token }) => token !== null && tokens.get(_id)?.has(token) === true,
  )
  if (leased.length === 0) return new Set()
  const leasedTokens = new Set(leased.flatMap((message) => message.lease_token ?? []))
  const { removed } = await removeAs('sent', collections, leased, [...leasedTokens])
  const done = new Set(leased.map(({ _id }) => _id))
  if (removed < done.size) {
    // Some were leased again since they were read, as their lease had expired.
    const leasedAgain = await outbox
      .find({ _id: { $in: [...done] } }, { projection: idOnly, hint: { _id: 1 } })
      .toArray()
    for (const { _id } of leasedAgain) done.delete(_id)
  }
  return done
}
