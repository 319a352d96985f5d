import type { ClientSession, Filter } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { inTransaction } from '../../shared/runtime/transactions.ts'
import { isDuplicateKey, isMaxTimeExpired } from '../../shared/runtime/driver-errors.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import {
  inQuotaTransaction,
  QuotaBusy,
  useQuota,
  type QuotaTransaction,
} from '../../shared/store/subscriber-quota.ts'
import {
  dropSubscriberReactions,
  recordTriggered,
  removeSubscriberReactions,
} from '../../shared/store/reactions.ts'
import { queueRequested, type QueuedReactions, type RequestedReactions } from './requested-reactions.ts'
import { addMove, changeCounts, noStatusCounts } from '../../shared/store/subscriber-counts.ts'
import { hasSpaceFor } from '../../shared/store/value-bytes.ts'
import { subscriberTransition } from '../../shared/values/subscriber-transition.ts'

/**
 * Writes of subscribers by requests. Each is one transaction that moves the list's counts too, except `changeInPlace`,
 * which changes values alone. `bumpReactionRequests` is a part of a caller's transaction. A write that
 * conflicts with a batch of an import runs again, on what the batch left.
 */

export type SubscriberWrite =
  | 'done'
  /** The reference names no subscriber, or the pending subscriber is gone. */
  | 'missing'
  /** The reference names more than one subscriber. */
  | 'several'
  /** Another subscriber of the list has the identity. */
  | 'identity_exists'
  /** Active subscribers fill the organization's limit. */
  | 'over_limit'
  /** Imports have reserved the rest of the limit, and gave none of it back while the request waited. */
  | 'busy'
  /** The list has another revision than the one that the request was checked against. */
  | 'list_changed'

/** An outcome that wrote nothing. */
export type FailedWrite = Exclude<SubscriberWrite, 'done'>

/** Which subscriber: by `_id`, by its public id, or by the email where that isn't the identity. */
export type SubscriberReference =
  string | { listId: number; id: number } | { listId: number; emailKey: string }

interface CheckedAgainst {
  /** The list's revision at which the request was checked; without it nothing is compared. */
  listRevision?: number
  /** On-subscription autoresponders that react to the write if the subscriber is active after it. */
  reactions?: RequestedReactions
}

export interface InsertOptions extends CheckedAgainst {
  /** Deletes, in the same transaction, the pending subscriber that is added. Where it is gone the outcome is `missing`. */
  deletePending?: (session: ClientSession) => Promise<boolean>
}

/** Adds a subscriber. */
export async function insertSubscriber(
  database: Database,
  organizationId: number,
  document: SubscriberDocument,
  options: InsertOptions = {},
): Promise<SubscriberWrite> {
  const result = await inQuotaTransaction(database, organizationId, (transaction) =>
    insertInTransaction(transaction, document, options),
  ).catch(undoneOutcome)
  if (result.outcome === 'done') await recordQueued(database, result.queued)
  return result.outcome
}

type InsertResult = { outcome: 'done'; queued: QueuedReactions | undefined } | { outcome: FailedWrite }

async function insertInTransaction(
  transaction: QuotaTransaction,
  document: SubscriberDocument,
  { reactions, deletePending, listRevision }: InsertOptions,
): Promise<InsertResult> {
  const { database, session, organizationId } = transaction
  const { mailing_list_id: listId, status } = document
  const list = await readListState(database, session, listId)
  if (!isAtRevision(list, listRevision)) return { outcome: 'list_changed' }
  if (deletePending !== undefined && !(await deletePending(session))) return { outcome: 'missing' }
  if (subscriberTransition(null, status).needsQuota) await useQuotaOrUndo(transaction)
  await insertOrUndo(transaction, withImportEpoch(document, list))
  const queued = reactions && (await queueRequested(transaction, reactions, document))
  const changes = addMove(noStatusCounts(), null, status)
  await changeCounts(database, session, { organizationId, listId, changes })
  return { outcome: 'done', queued }
}

/** What a write changes of a subscriber. */
export interface SubscriberChange {
  /** Another `_id` gives it another identity; it keeps its id, and with that its reactions. */
  set: Partial<Omit<SubscriberDocument, 'custom_fields'>>
  unset: ('subscribe_ip' | 'remove_time' | 'remove_ip' | 'confirm_time')[]
  /** Values of custom fields, by the field's id; null unsets. */
  values: ReadonlyMap<number, FieldValue | null>
}

/** The change as an update document; null when nothing changes. */
function toUpdate({ set, unset, values }: SubscriberChange): Record<string, unknown> | null {
  const $set: Record<string, unknown> = { ...set }
  const $unset: Record<string, ''> = {}
  for (const key of unset) $unset[key] = ''
  for (const [id, value] of values) {
    if (value === null) $unset[`custom_fields.${id}`] = ''
    else $set[`custom_fields.${id}`] = value
  }
  const hasSet = Object.keys($set).length > 0
  const hasUnset = Object.keys($unset).length > 0
  if (!hasSet && !hasUnset) return null
  return { ...(hasSet ? { $set } : {}), ...(hasUnset ? { $unset } : {}) }
}

/** What a subscriber is after a change. */
function applyChange(existing: SubscriberDocument, change: SubscriberChange): SubscriberDocument {
  const after = {
    ...existing,
    ...change.set,
    custom_fields: applyValues(existing.custom_fields, change.values),
  }
  for (const key of change.unset) Reflect.deleteProperty(after, key)
  return after
}

/** What custom fields hold after a change. */
export function applyValues(
  existing: SubscriberDocument['custom_fields'],
  values: SubscriberChange['values'],
): SubscriberDocument['custom_fields'] {
  const after = new Map(Object.entries(existing))
  for (const [id, value] of values) {
    if (value === null) after.delete(String(id))
    else after.set(String(id), value)
  }
  return Object.fromEntries(after)
}

export interface ChangeRequest extends CheckedAgainst {
  organizationId: number
  reference: SubscriberReference
  /** What to change of the subscriber as the transaction sees it. Pure: it may run several times. */
  decide: (existing: SubscriberDocument) => SubscriberChange
  /** Writes more in the same transaction. */
  alongside?: (session: ClientSession, existing: SubscriberDocument) => Promise<void>
}

type ChangeResult =
  { outcome: 'done'; before: SubscriberDocument; after: SubscriberDocument } | { outcome: FailedWrite }

/** Changes a subscriber. A duplicate key error of what `alongside` writes is thrown. */
export async function changeSubscriber(database: Database, request: ChangeRequest): Promise<ChangeResult> {
  const result = await inQuotaTransaction(database, request.organizationId, (transaction) =>
    changeInTransaction(transaction, request),
  ).catch(undoneOutcome)
  if (result.outcome === 'done') await recordQueued(database, result.queued)
  return result
}

async function changeInTransaction(
  transaction: QuotaTransaction,
  { reference, decide, listRevision, reactions, alongside }: ChangeRequest,
): Promise<(ChangeResult & { queued: QueuedReactions | undefined }) | { outcome: FailedWrite }> {
  const { database, session, organizationId } = transaction
  const { subscribers } = database.collections
  const [existing, another] = await subscribers
    .find(referenceFilter(reference), { session })
    .limit(2)
    .toArray()
  if (existing === undefined) return { outcome: 'missing' }
  if (another !== undefined) return { outcome: 'several' }
  const { mailing_list_id: listId, status: from } = existing
  if (!isAtRevision(await readListState(database, session, listId), listRevision))
    return { outcome: 'list_changed' }

  const change = decide(existing)
  const { needsQuota, isReactivation, dropsReactions } = subscriberTransition(from, change.set.status ?? from)
  if (isReactivation) change.set.reactivations = (existing.reactivations ?? 0) + 1
  const after = applyChange(existing, change)
  if (needsQuota) await useQuotaOrUndo(transaction)
  if (after._id !== existing._id) {
    await subscribers.deleteOne({ _id: existing._id }, { session })
    await insertOrUndo(transaction, await withoutDeletedValues(database, session, after))
  } else {
    const update = {
      ...toUpdate(change),
      // A deletion removes the reactions that its snapshot has. This write makes it conflict with a request that queues
      // more: without it a reaction stayed without a subscriber in 6 of 20 rounds.
      ...(reactions === undefined ? {} : { $inc: { reaction_requests: 1 } }),
    }
    if (Object.keys(update).length > 0)
      await subscribers.updateOne({ _id: existing._id }, update, { session })
  }
  if (dropsReactions) await dropSubscriberReactions(database.collections, session, [after.id])
  const queued = reactions && (await queueRequested(transaction, reactions, after))
  await alongside?.(session, existing)
  const moved = addMove(noStatusCounts(), from, after.status)
  await changeCounts(database, session, { organizationId, listId, changes: moved })
  return { outcome: 'done', before: existing, after, queued }
}

/**
 * The job that removes a deleted field's values goes through `_id`s in order. It may have passed the new one, so the
 * values are removed here.
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

/**
 * Longest wait for a batch of an import that has written the subscriber. After it the write is tried as a transaction.
 */
const inPlaceMs = 5_000

/**
 * The values of a deleted field are removed until 5 minutes after its deletion. A write that used fields read longer ago
 * could store such a value again; a minute leaves it time to wait.
 */
const maxFieldsAgeMs = 60_000

/**
 * Changes a subscriber by one guarded write, at a third of the cost of the transaction. It is for changes that move no
 * count, no identity and no reaction. `fieldsReadAt` is the database's time before the list's fields were read.
 * Resolves to the subscriber after the write. Null when nothing was written: the change is of another kind, the fields
 * are too old, the values may not fit, or the subscriber has changed since `existing` was read.
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
  const areFieldsFresh = { $lt: ['$$NOW', new Date(fieldsReadAt.getTime() + maxFieldsAgeMs)] }
  // Concurrent changes of other values could exceed the limit together.
  const written = applyValues({}, change.values)
  const $expr =
    Object.keys(written).length === 0 ? areFieldsFresh : { $and: [areFieldsFresh, hasSpaceFor(written)] }
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

export function referenceFilter(reference: SubscriberReference): Filter<SubscriberDocument> {
  if (typeof reference === 'string') return { _id: reference }
  return 'id' in reference
    ? { mailing_list_id: reference.listId, id: reference.id }
    : { mailing_list_id: reference.listId, email_key: reference.emailKey }
}

/** What a write of a subscriber depends on, in the snapshot of its transaction. */
export type ListState = Pick<MailingListDocument, '_id' | 'revision' | 'import_epoch'>

export const listStateProjection = { revision: 1, import_epoch: 1 } as const

const readListState = (
  { collections }: Database,
  session: ClientSession,
  listId: number,
): Promise<ListState | null> =>
  collections.mailingLists.findOne({ _id: listId }, { session, projection: listStateProjection })

const isAtRevision = (list: ListState | null, revision: number | undefined): boolean =>
  revision === undefined || list?.revision === revision

/**
 * Keeps an import that began before this transaction's snapshot from deactivating it
 * (engine/stages/finish/deactivation.ts).
 */
export const withImportEpoch = (
  document: SubscriberDocument,
  list: ListState | null | undefined,
): SubscriberDocument =>
  list?.import_epoch === undefined ? document : { ...document, import_epoch: list.import_epoch }

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

type UndoneWrite = Extract<FailedWrite, 'identity_exists' | 'over_limit' | 'busy'>

/** Thrown inside a transaction, which is rolled back by it. */
class UndoWrite extends Error {
  readonly outcome: UndoneWrite

  constructor(outcome: UndoneWrite) {
    super(`the write is undone: ${outcome}`)
    this.outcome = outcome
  }
}

async function useQuotaOrUndo({
  database: { collections },
  session,
  organizationId,
  hasQuotaLock,
}: QuotaTransaction): Promise<void> {
  const outcome = await useQuota(collections, session, organizationId, { hasQuotaLock })
  if (outcome === 'full') throw new UndoWrite('over_limit')
  if (outcome === 'busy') throw new QuotaBusy()
}

async function insertOrUndo(
  { database: { collections }, session }: QuotaTransaction,
  document: SubscriberDocument,
): Promise<void> {
  try {
    await collections.subscribers.insertOne(document, { session })
  } catch (error) {
    throw isDuplicateKey(error) ? new UndoWrite('identity_exists') : error
  }
}

/** The outcome of a write that was rolled back by `UndoWrite` or for want of quota. Throws every other error. */
function undoneOutcome(error: unknown): { outcome: UndoneWrite } {
  if (error instanceof UndoWrite) return { outcome: error.outcome }
  if (error instanceof QuotaBusy) return { outcome: 'busy' }
  throw error
}

/** After the commit: which autoresponders have last been triggered. */
async function recordQueued(database: Database, queued: QueuedReactions | undefined): Promise<void> {
  if (queued !== undefined) await recordTriggered(database, queued.autoresponderIds, queued.when)
}
