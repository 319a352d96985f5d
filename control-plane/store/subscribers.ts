import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession, Filter } from 'mongodb'
import { clock } from '../../shared/runtime/clock.ts'
import { inTransaction, isMaxTimeExpired, type Database } from '../../shared/runtime/database.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument, SubscriberStatus } from '../../shared/contract/schemas/subscriber.ts'
import { withQuotaLock, takeQuota } from '../../shared/store/subscriber-quota.ts'
import { dropReactionsOf, removeReactionsOf } from '../../shared/store/reactions.ts'
import { withRequestedReactions, type RequestedReactions } from './requested-reactions.ts'
import { addMove, countMoves, noStatusCounts } from '../../shared/store/subscriber-counts.ts'

/**
 * Writes of single subscribers by requests. Each write is one transaction that also changes the list's counts. When an
 * import or another request writes the same subscriber concurrently, the later write conflicts and is retried on the
 * result of the earlier one.
 */

/**
 * `several`: more than one subscriber has the address. `busy`: imports reserved the remaining quota for longer than a
 * request waits. `list_changed`: the list has changed since the request was checked.
 */
export type SubscriberWrite = 'done' | 'missing' | 'several' | 'over_limit' | 'busy' | 'list_changed'

/** Names a subscriber by `_id`, by its public id, or by its email where that isn't the identity. */
export type SubscriberAddress = string | { listId: number; id: number } | { listId: number; emailKey: string }

export interface WriteOptions {
  /** The list's revision at which the request was checked; without it nothing is compared. */
  listRevision?: number
  /** On-subscription autoresponders, which answer if the subscriber is active after the write. */
  reactions?: RequestedReactions
  /**
   * Consumes, in the same transaction, what an addition depends on. If it resolves to false, the addition is `missing`.
   */
  claim?: (session: ClientSession) => Promise<boolean>
  /** Makes further writes in the transaction of a change. */
  alongside?: (session: ClientSession) => Promise<void>
}

/** Adds a subscriber. Throws a duplicate key error when its identity exists already. */
export function insertSubscriber(
  database: Database,
  organizationId: number,
  document: SubscriberDocument,
  options: WriteOptions = {},
): Promise<SubscriberWrite> {
  return withRequestedReactions(database, options.reactions, (queueRequested) =>
    waitForQuota(database, organizationId, async (session, hasQuotaLock) => {
      const { mailing_list_id: listId, status } = document
      const list = await readListState(database, session, listId)
      if (!isAtRevision(list, options)) return 'list_changed'
      if (options.claim !== undefined && !(await options.claim(session))) return 'missing'
      if (status === 'active') await takeQuotaOrThrow(database, session, { organizationId, hasQuotaLock })
      await database.collections.subscribers.insertOne(withImportEpoch(document, list), { session })
      await queueRequested(session, { organizationId, subscriber: document })
      const changes = addMove(noStatusCounts(), null, status)
      await countMoves(database, session, { organizationId, listId, changes })
      return 'done'
    }),
  )
}

export interface SubscriberChange {
  set: Partial<SubscriberDocument> & Record<string, unknown>
  unset: string[]
}

/** Converts a change to an update document; null when nothing changes. */
function toUpdate({ set, unset }: SubscriberChange): Record<string, unknown> | null {
  const update: Record<string, unknown> = {}
  if (Object.keys(set).length > 0) update['$set'] = set
  if (unset.length > 0) update['$unset'] = Object.fromEntries(unset.map((path) => [path, '']))
  return Object.keys(update).length === 0 ? null : update
}

/** Returns the subscriber with the change applied. */
export function changed(existing: SubscriberDocument, { set, unset }: SubscriberChange): SubscriberDocument {
  const entries = new Map<string, unknown>(Object.entries(existing))
  const values = new Map<string, unknown>(Object.entries(existing.custom_fields))
  const locate = (path: string): [Map<string, unknown>, string] =>
    path.startsWith(valuePath) ? [values, path.slice(valuePath.length)] : [entries, path]
  for (const [path, value] of Object.entries(set)) {
    const [target, key] = locate(path)
    target.set(key, value)
  }
  for (const path of unset) {
    const [target, key] = locate(path)
    target.delete(key)
  }
  entries.set('custom_fields', Object.fromEntries(values))
  return Object.fromEntries(entries) as unknown as SubscriberDocument
}

const valuePath = 'custom_fields.'

/**
 * Changes a subscriber by what `change` returns for its current document. Another `_id` in `set` gives it another
 * identity; it keeps its public id, and with that its reactions. Throws a duplicate key error when that identity
 * exists.
 */
export function changeSubscriber(
  database: Database,
  organizationId: number,
  address: SubscriberAddress,
  change: (existing: SubscriberDocument) => SubscriberChange,
  options: WriteOptions = {},
): Promise<SubscriberWrite> {
  return withRequestedReactions(database, options.reactions, (queueRequested) =>
    waitForQuota(database, organizationId, async (session, hasQuotaLock) => {
      const { subscribers } = database.collections
      const found = await subscribers.find(filterOf(address), { session }).limit(2).toArray()
      const existing = found[0]
      if (existing === undefined) return 'missing'
      if (found.length > 1) return 'several'
      const { mailing_list_id: listId, status: from } = existing
      if (!isAtRevision(await readListState(database, session, listId), options)) return 'list_changed'
      const changes = change(existing)
      if (changes.set.status === 'active' && from !== 'active')
        changes.set.reactivations = (existing.reactivations ?? 0) + 1
      const subscriber = changed(existing, changes)
      const to = subscriber.status
      if (to === 'active' && from !== 'active')
        await takeQuotaOrThrow(database, session, { organizationId, hasQuotaLock })
      if (subscriber._id !== existing._id) {
        await subscribers.deleteOne({ _id: existing._id }, { session })
        await subscribers.insertOne(await withoutDeletedValues(database, session, subscriber), { session })
      } else {
        const update = {
          ...toUpdate(changes),
          // A concurrent deletion removes only the reactions that it reads, so it must conflict with this write.
          ...(options.reactions === undefined ? {} : { $inc: { reaction_requests: 1 } }),
        }
        if (Object.keys(update).length > 0)
          await subscribers.updateOne({ _id: existing._id }, update, { session })
      }
      if (from === 'active' && to !== 'active')
        await dropReactionsOf(database.collections, session, [subscriber.id])
      await queueRequested(session, { organizationId, subscriber })
      await options.alongside?.(session)
      const moved = addMove(noStatusCounts(), from, to)
      await countMoves(database, session, { organizationId, listId, changes: moved })
      return 'done'
    }),
  )
}

/**
 * Drops values of deleted fields. Their removal walks subscribers by `_id`, and may have passed the new one already.
 */
async function withoutDeletedValues(
  { collections }: Database,
  session: ClientSession,
  subscriber: SubscriberDocument,
): Promise<SubscriberDocument> {
  const deleted = await collections.deletedFields
    .find({ mailing_list_id: subscriber.mailing_list_id }, { session })
    .toArray()
  const ids = new Set(deleted.map(({ _id }) => String(_id)))
  const kept = Object.entries(subscriber.custom_fields).filter(([id]) => !ids.has(id))
  return { ...subscriber, custom_fields: Object.fromEntries(kept) }
}

/** A write in place that waits this long for an import's batch is retried as a transaction. */
const inPlaceMs = 5_000

/** Must be below 5 minutes, after which the values of a deleted field are removed for the last time. */
const maxFieldsAgeMs = 60_000

/**
 * Changes only values of a subscriber, by one conditional write at a third of a transaction's cost: no count, identity
 * or reaction depends on values. `fieldsReadAt` is the database's time before the fields were read. Resolves to the new
 * document. Resolves to null when the change is of another kind, the subscriber has changed meanwhile, or the fields
 * were read long ago.
 */
export async function changeInPlace(
  { collections }: Database,
  existing: SubscriberDocument,
  change: SubscriberChange,
  fieldsReadAt: Date,
): Promise<SubscriberDocument | null> {
  const { _id, id, status, confirmed } = existing
  const { set } = change
  const update = toUpdate(change)
  if (update === null || set._id !== undefined || (set.status ?? status) !== status) return null
  const asRead = { _id, id, status, confirmed: confirmed ?? { $exists: false } }
  const $expr = { $lt: ['$$NOW', new Date(fieldsReadAt.getTime() + maxFieldsAgeMs)] }
  try {
    return await collections.subscribers.findOneAndUpdate({ ...asRead, $expr }, update, {
      returnDocument: 'after',
      maxTimeMS: inPlaceMs,
    })
  } catch (error) {
    if (isMaxTimeExpired(error)) return null
    throw error
  }
}

/** Removes up to `limit` subscribers with an address, lowest id first, and the reactions queued for them. */
export function removeSubscribers(
  database: Database,
  organizationId: number,
  address: SubscriberAddress,
  limit: number,
): Promise<{ ids: number[]; moreRemaining: boolean }> {
  const { collections } = database
  return inTransaction(database, async (session) => {
    const found = await collections.subscribers
      .find(filterOf(address), { session, projection: { id: 1, mailing_list_id: 1, status: 1 } })
      // By `_id` there is at most one subscriber, and a sort order would only make the server sort it.
      .sort(typeof address === 'string' ? {} : { id: 1 })
      .limit(limit + 1)
      .toArray()
    const removed = found.slice(0, limit)
    const [first] = removed
    if (first === undefined) return { ids: [], moreRemaining: false }
    await collections.subscribers.deleteMany({ _id: { $in: removed.map(({ _id }) => _id) } }, { session })
    await removeReactionsOf(
      collections,
      session,
      removed.map(({ id }) => id),
    )
    await collections.deletedSubscribers.insertMany(
      removed.map(({ id, mailing_list_id }) => ({ _id: id, mailing_list_id })),
      { session },
    )
    const changes = noStatusCounts()
    for (const { status } of removed) addMove(changes, status, null)
    const listId = first.mailing_list_id
    await countMoves(database, session, { organizationId, listId, changes })
    return { ids: removed.map(({ id }) => id), moreRemaining: found.length > limit }
  })
}

export function filterOf(address: SubscriberAddress): Filter<SubscriberDocument> {
  if (typeof address === 'string') return { _id: address }
  return 'id' in address
    ? { mailing_list_id: address.listId, id: address.id }
    : { mailing_list_id: address.listId, email_key: address.emailKey }
}

/** The fields of a list that a write of a subscriber depends on, read in the snapshot of its transaction. */
export type ListState = Pick<MailingListDocument, '_id' | 'revision' | 'import_epoch'>

export const listStateProjection = { revision: 1, import_epoch: 1 } as const

const readListState = (
  { collections }: Database,
  session: ClientSession,
  listId: number,
): Promise<ListState | null> =>
  collections.mailingLists.findOne({ _id: listId }, { session, projection: listStateProjection })

const isAtRevision = (list: ListState | null, { listRevision }: WriteOptions): boolean =>
  listRevision === undefined || list?.revision === listRevision

/** An import that began before this transaction's snapshot doesn't deactivate the subscriber (deactivation.ts). */
export const withImportEpoch = (
  document: SubscriberDocument,
  list: ListState | null | undefined,
): SubscriberDocument =>
  list?.import_epoch === undefined ? document : { ...document, import_epoch: list.import_epoch }

/** Gives active subscribers a status in which they have left their list. */
export async function markAsLeft(
  { subscribers }: Collections,
  session: ClientSession,
  { keys, status, removedAt }: { keys: string[]; status: SubscriberStatus; removedAt: Date },
): Promise<void> {
  await subscribers.updateMany(
    { _id: { $in: keys } },
    { $set: { status, remove_time: removedAt } },
    { session },
  )
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

class QuotaUnavailable extends Error {
  readonly isFull: boolean

  constructor(isFull: boolean) {
    super('no quota is left under the subscriber limit')
    this.isFull = isFull
  }
}

async function takeQuotaOrThrow(
  { collections }: Database,
  session: ClientSession,
  { organizationId, hasQuotaLock }: { organizationId: number; hasQuotaLock: boolean },
): Promise<void> {
  const outcome = await takeQuota(collections, session, organizationId, { hasQuotaLock })
  if (outcome !== 'taken') throw new QuotaUnavailable(outcome === 'full')
}

const quotaPauseMs = 50
const quotaTimeoutMs = 20_000

/**
 * Retries while imports reserve the remaining quota: a write is over the limit only when active subscribers fill it.
 */
async function waitForQuota(
  database: Database,
  organizationId: number,
  write: (session: ClientSession, hasQuotaLock: boolean) => Promise<SubscriberWrite>,
): Promise<SubscriberWrite> {
  const deadline = clock.monotonicMs() + quotaTimeoutMs
  for (;;) {
    try {
      return await withQuotaLock(database, organizationId, write)
    } catch (error) {
      if (!(error instanceof QuotaUnavailable)) throw error
      if (error.isFull) return 'over_limit'
      if (clock.monotonicMs() > deadline) return 'busy'
      await sleep(quotaPauseMs * (0.5 + Math.random()))
    }
  }
}
