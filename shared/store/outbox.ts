import type { Filter } from 'mongodb'
import {
  confirmationQueue,
  contentExpression,
  type AutoresponderDocument,
  type ReactionDocument,
} from '../contract/schemas/autoresponder.ts'
import { databaseTime, type Database } from '../runtime/database.ts'
import { leasedIndex, queuedIndex, type Collections } from '../contract/schemas/collections.ts'
import { queuedReactions, readBeginnings, readDue, type QueueBeginning } from './due-queues.ts'

/**
 * The outbox: the reactions that are due, as messages for mail senders. A sender leases messages and acknowledges them.
 * A lease moves `available_at` to its end, so no write is needed when it expires. Each write has a guard in its filter,
 * so concurrent senders get different messages.
 */

/** The messages of one organization, or all. */
export type OutboxScope = { organizationId: number } | 'all'

/** Queues with due messages of autoresponders that aren't paused; the earliest first. */
interface DueQueues {
  open: QueueBeginning[]
  /** Their autoresponders have no content, so these messages are dropped. */
  withoutContent: QueueBeginning[]
}

interface Running {
  _id: number
  hasContent: boolean
}

/** The queues with messages that are due at `now`. What waits in paused queues, or for a later time, isn't read. */
export async function readDueQueues(
  collections: Collections,
  scope: OutboxScope,
  now: Date,
): Promise<DueQueues> {
  const { autoresponders } = collections
  const queues = queuedReactions(collections)
  const findRunning = (filter: Filter<AutoresponderDocument>) =>
    autoresponders
      .find<Running>({ ...filter, paused: false }, { projection: { hasContent: contentExpression } })
      .map(({ _id, hasContent }) => [_id, hasContent] as const)
      .toArray()
  let beginnings: QueueBeginning[]
  let running: Map<number, boolean>
  if (scope === 'all') {
    beginnings = await readBeginnings(queues)
    running = new Map(await findRunning({ _id: { $in: beginnings.map(({ queue }) => queue) } }))
  } else {
    const { organizationId } = scope
    running = new Map(await findRunning({ organization_id: organizationId }))
    beginnings = await readBeginnings(queues, [confirmationQueue(organizationId), ...running.keys()])
  }
  const due = beginnings.filter(({ dueAt }) => dueAt <= now)
  return {
    open: due.filter(({ queue }) => queue < 0 || running.get(queue) === true),
    withoutContent: due.filter(({ queue }) => running.get(queue) === false),
  }
}

const keyOnly = { _id: 1 } as const
const byKey = { hint: keyOnly }

/** Bounds the time of one call: some 50 us a message. */
const maxDropped = 5_000

/** Drops the first due messages of autoresponders without content, and resolves to their number. */
export async function dropWithoutContent(
  collections: Collections,
  withoutContent: readonly QueueBeginning[],
  now: Date,
): Promise<number> {
  const bounds = { until: now, limit: maxDropped, projection: keyOnly }
  const found = await readDue(queuedReactions(collections), withoutContent, bounds)
  if (found.length === 0) return 0
  const { modifiedCount } = await collections.reactions.updateMany(
    { _id: { $in: found.map(({ _id }) => _id) }, ...isAvailable(now) },
    ended('dropped'),
    byKey,
  )
  return modifiedCount
}

/**
 * Drops all that is due of an autoresponder that isn't paused and has no content. Called before it gets content, so that
 * what was shown as dropped isn't sent.
 */
export async function dropAllWithoutContent(
  { db, collections }: Database,
  autoresponderId: number,
): Promise<void> {
  const now = await databaseTime(db)
  const found = await collections.autoresponders.findOne<Running>(
    { _id: autoresponderId, paused: false },
    { projection: { hasContent: contentExpression } },
  )
  if (found === null || found.hasContent) return
  let dropped: number
  do dropped = await dropWithoutContent(collections, [{ queue: autoresponderId, dueAt: now }], now)
  while (dropped > 0)
}

/** Drops the queued reactions of a deleted autoresponder that no sender has taken. */
export async function dropQueuedReactions(
  { reactions }: Collections,
  autoresponderId: number,
): Promise<void> {
  const queued = { state: 'queued', autoresponder_id: autoresponderId, lease: { $exists: false } } as const
  for (;;) {
    const found = await reactions
      .find(queued, { projection: keyOnly, hint: queuedIndex })
      .limit(maxDropped)
      .toArray()
    if (found.length === 0) return
    await reactions.updateMany({ _id: keysOf(found), ...queued }, ended('dropped'), byKey)
  }
}

const isAvailable = (now: Date): Filter<ReactionDocument> => ({
  state: 'queued',
  available_at: { $lte: now },
})
const ended = (state: 'sent' | 'dropped') => ({ $set: { state }, $unset: { lease: '' } }) as const

export interface Lease {
  token: string
  seconds: number
}

/**
 * Leases the first messages of these queues that are due at `now`. They are fewer than `limit` where concurrent calls
 * leased some of them. Null when none is due.
 */
export async function claimMessages(
  collections: Collections,
  open: readonly QueueBeginning[],
  { now, limit, lease: { token, seconds } }: { now: Date; limit: number; lease: Lease },
): Promise<ReactionDocument[] | null> {
  const { reactions } = collections
  const first = await readDue(queuedReactions(collections), open, { until: now, limit, projection: keyOnly })
  if (first.length === 0) return null
  const keys = { $in: first.map(({ _id }) => _id) }
  await reactions.updateMany(
    { _id: keys, ...isAvailable(now) },
    [
      {
        $set: {
          available_at: { $add: ['$$NOW', seconds * 1_000] },
          lease: { token, began_at: '$$NOW' },
        },
      },
    ],
    byKey,
  )
  return reactions.find({ _id: keys, 'lease.token': token }, byKey).sort({ due_at: 1, id: 1 }).toArray()
}

type Message = Pick<ReactionDocument, '_id' | 'pending_subscriber'>
const keysOf = (messages: readonly Pick<ReactionDocument, '_id'>[]) => ({
  $in: messages.map(({ _id }) => _id),
})

/** Gives leased messages back, as if they hadn't been leased. */
export async function returnMessages(
  { reactions }: Collections,
  messages: readonly Message[],
  { token }: Lease,
): Promise<void> {
  if (messages.length === 0) return
  await reactions.updateMany(
    { _id: keysOf(messages), 'lease.token': token },
    [{ $set: { available_at: '$due_at' } }, { $unset: 'lease' }],
    byKey,
  )
}

/** Drops leased messages that must not be sent. */
export async function dropMessages(
  collections: Collections,
  messages: readonly Message[],
  { token }: Lease,
): Promise<void> {
  await endMessages('dropped', collections, messages, [token])
}

/** Ends messages that are leased under these tokens. Nothing shows confirmations, so they are deleted. */
async function endMessages(
  state: 'sent' | 'dropped',
  { reactions }: Collections,
  messages: readonly Message[],
  tokens: string[],
): Promise<void> {
  const { confirmations = [], others = [] } = Object.groupBy(messages, ({ pending_subscriber: pending }) =>
    pending === undefined ? 'others' : 'confirmations',
  )
  const leased = { 'lease.token': { $in: tokens } }
  if (others.length > 0) await reactions.updateMany({ _id: keysOf(others), ...leased }, ended(state), byKey)
  if (confirmations.length > 0) await reactions.deleteMany({ _id: keysOf(confirmations), ...leased }, byKey)
}

interface Acknowledgement {
  id: number
  leaseToken: string
}

/**
 * Marks messages as sent. Resolves to the ids of those that were leased under their tokens. The others have a new lease,
 * are acknowledged already, or are gone.
 */
export async function acknowledgeMessages(
  collections: Collections,
  scope: OutboxScope,
  acknowledgements: readonly Acknowledgement[],
): Promise<Set<number>> {
  const { reactions } = collections
  const tokens = [...new Set(acknowledgements.map(({ leaseToken }) => leaseToken))]
  const acknowledged = new Set(acknowledgements.map(({ id, leaseToken }) => `${id} ${leaseToken}`))
  const found = await reactions
    .find(
      {
        'lease.token': { $in: tokens },
        id: { $in: acknowledgements.map(({ id }) => id) },
        ...(scope === 'all' ? {} : { organization_id: scope.organizationId }),
      },
      { hint: leasedIndex, projection: { id: 1, lease: 1, pending_subscriber: 1 } },
    )
    .toArray()
  const leased = found.filter(({ id, lease }) => acknowledged.has(`${id} ${lease?.token}`))
  if (leased.length === 0) return new Set()
  await endMessages('sent', collections, leased, tokens)
  // Some were leased again since they were read, as their lease had expired.
  const leasedAgain = await reactions
    .find({ _id: keysOf(leased), lease: { $exists: true } }, { projection: { id: 1 }, ...byKey })
    .toArray()
  const done = new Set(leased.map(({ id }) => id))
  for (const { id } of leasedAgain) done.delete(id)
  return done
}
