import type { ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { isDuplicateKey, isMaxTimeExpired } from '../../shared/runtime/driver-errors.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { dropSubscriberReactions, recordTriggered } from '../../shared/store/reactions.ts'
import { addMove, changeCounts, noStatusCounts } from '../../shared/store/subscriber-counts.ts'
import {
  inQuotaTransaction,
  QuotaBusy,
  useQuota,
  type QuotaTransaction,
} from '../../shared/store/subscriber-quota.ts'
import { hasSpaceFor } from '../../shared/store/value-bytes.ts'
import { subscriberTransition } from '../../shared/values/subscriber-transition.ts'
import { queueRequested, type QueuedReactions, type RequestedReactions } from './requested-reactions.ts'
import { applyChange, applyValues, toUpdate, type SubscriberChange } from './subscriber-change.ts'
import { referenceFilter, type SubscriberReference } from './subscribers.ts'
import type { SubscriberWrites } from './subscribers-together.ts'

/**
 * Writes one subscriber for a request. The request hands in a plan, and the cheapest of three ways writes it:
 *
 *     a change of values that is alone    one guarded write
 *     additions and changes               in a transaction with others (subscribers-together.ts)
 *     everything else                     in a transaction of its own, with quota, reactions and counts
 *
 * A write that conflicts with a batch of an import runs again, on what the batch left. Where the list has changed since
 * the plan was made (optimistic lock), nothing is written, and the request plans again.
 */

export interface SubscriberPlan {
  organizationId: number
  listId: number
  /** The list's revision at which the request was checked; without it nothing is compared. */
  listRevision?: number
  /** Without it no subscriber is looked for: an addition meets a taken identity when it is inserted. */
  change?: PlannedChange
  /** Adds a subscriber where there is none to change. Without it the outcome is `missing`. Pure. */
  create?: () => { subscriber: SubscriberDocument; reactions?: RequestedReactions | undefined }
  /** Writes more in the same transaction, after the subscriber. An outcome that it resolves to undoes the write. */
  alongside?: (
    session: ClientSession,
    existing: SubscriberDocument | null,
  ) => Promise<FailedWrite | undefined>
}

interface PlannedChange {
  reference: SubscriberReference
  /** What to change of the subscriber as the write finds it. Pure: it may run several times. */
  decide: (existing: SubscriberDocument) => {
    change: SubscriberChange
    /** Autoresponders that react to the write if the subscriber is active after it. */
    reactions?: RequestedReactions | undefined
  }
  /** For a change that may be one guarded write: the subscriber, and the database's time before the fields were read. */
  inPlace?: { existing: SubscriberDocument; fieldsReadAt: Date } | undefined
}

/** An outcome that wrote nothing. */
export type FailedWrite =
  /** The reference names no subscriber, and the plan adds none. */
  | 'missing'
  /** The reference names more than one subscriber. */
  | 'several'
  /** Another subscriber of the list has the identity. */
  | 'identity_exists'
  /** Active subscribers fill the organization's limit. */
  | 'over_limit'
  /** Imports have reserved the rest of the limit, and gave none of it back while the request waited. */
  | 'busy'
  /** What the plan was made from has changed: the list, or whether the subscriber exists. */
  | 'outdated'

interface Written {
  outcome: 'done'
  /** Null for a new subscriber. */
  before: SubscriberDocument | null
  after: SubscriberDocument
}

export type WriteResult = Written | { outcome: FailedWrite }

interface Request<Found> {
  /** What the request names. */
  found: Found
  findAgain: () => Promise<Found>
  plan: (found: Found) => Promise<SubscriberPlan | FailedWrite>
}

export interface WriteDeps {
  subscriberWrites: SubscriberWrites
}

export const maxListReads = 20

/**
 * Plans and writes. Where the plan is outdated, what the request names is found and planned again. `outdated` as a result
 * means that the list is being changed all the time.
 */
export async function writeSubscriber<Found>(
  { subscriberWrites }: WriteDeps,
  { found: first, findAgain, plan: makePlan }: Request<Found>,
): Promise<(Written & { found: Found }) | { outcome: FailedWrite }> {
  let found = first
  for (let reads = 1; ; reads += 1) {
    const plan = await makePlan(found)
    if (typeof plan === 'string') return { outcome: plan }
    const result = await subscriberWrites.write(plan)
    if (result.outcome === 'done') return { ...result, found }
    if (result.outcome !== 'outdated' || reads === maxListReads) return result
    found = await findAgain()
  }
}

// ---- one guarded write ----

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
 * Changes a subscriber at a third of the cost of the transaction. It is for changes that move no count, no identity and
 * no reaction. Resolves to the subscriber after the write. Null when nothing was written: the change is of another kind,
 * the fields are too old, the values may not fit, or the subscriber has changed since `existing` was read.
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

// ---- a transaction of its own ----

/** A duplicate key error of what `alongside` writes is thrown. */
export async function writeAlone(database: Database, plan: SubscriberPlan): Promise<WriteResult> {
  try {
    const { queued, ...written } = await inQuotaTransaction(database, plan.organizationId, (transaction) =>
      writeInTransaction(transaction, plan),
    )
    // After the commit: which autoresponders have last been triggered.
    if (queued !== undefined) await recordTriggered(database, queued.autoresponderIds, queued.when)
    return written
  } catch (error) {
    if (error instanceof UndoWrite) return { outcome: error.outcome }
    if (error instanceof QuotaBusy) return { outcome: 'busy' }
    throw error
  }
}

async function writeInTransaction(
  transaction: QuotaTransaction,
  plan: SubscriberPlan,
): Promise<Written & { queued: QueuedReactions | undefined }> {
  const { database, session, organizationId } = transaction
  const { listId, change, alongside } = plan
  const existing = change === undefined ? null : await readSubscriber(transaction, change.reference)
  const list = await readListState(database, session, listId)
  if (!isAtRevision(list, plan)) throw new UndoWrite('outdated')

  const { after, reactions } =
    existing === null || change === undefined
      ? await addSubscriber(transaction, plan, list)
      : await changeSubscriber(transaction, change, existing)
  const queued = reactions && (await queueRequested(transaction, reactions, after))
  const undone = await alongside?.(session, existing)
  if (undone !== undefined) throw new UndoWrite(undone)
  const changes = addMove(noStatusCounts(), existing?.status ?? null, after.status)
  await changeCounts(database, session, { organizationId, listId, changes })
  return { outcome: 'done', before: existing, after, queued }
}

interface Effect {
  after: SubscriberDocument
  reactions?: RequestedReactions | undefined
}

async function addSubscriber(
  transaction: QuotaTransaction,
  { change, create }: SubscriberPlan,
  list: ListState | null,
): Promise<Effect> {
  if (create === undefined) throw new UndoWrite('missing')
  const { subscriber, reactions } = create()
  if (subscriberTransition(null, subscriber.status).needsQuota) await useQuotaOrUndo(transaction)
  await insertOrUndo(transaction, withImportEpoch(subscriber, list), change?.reference)
  return { after: subscriber, reactions }
}

async function changeSubscriber(
  transaction: QuotaTransaction,
  { decide }: PlannedChange,
  existing: SubscriberDocument,
): Promise<Effect> {
  const { database, session } = transaction
  const { subscribers } = database.collections
  const { change, reactions } = decide(existing)
  const { after, needsQuota, dropsReactions } = planEffect(existing, change)
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
  return { after, reactions }
}

/** What the subscriber is after a change, and what its new status needs. Counts a reactivation in the change. */
export function planEffect(existing: SubscriberDocument, change: SubscriberChange) {
  const { status: from, reactivations = 0 } = existing
  const { needsQuota, isReactivation, dropsReactions } = subscriberTransition(from, change.set.status ?? from)
  if (isReactivation) change.set.reactivations = reactivations + 1
  return { after: applyChange(existing, change), needsQuota, dropsReactions }
}

async function readSubscriber(
  { database: { collections }, session }: QuotaTransaction,
  reference: SubscriberReference,
): Promise<SubscriberDocument | null> {
  const [existing, another] = await collections.subscribers
    .find(referenceFilter(reference), { session })
    .limit(2)
    .toArray()
  if (another !== undefined) throw new UndoWrite('several')
  return existing ?? null
}

/** `reference`: what the transaction looked for before, and did not find. */
async function insertOrUndo(
  { database: { collections }, session }: QuotaTransaction,
  document: SubscriberDocument,
  reference?: SubscriberReference,
): Promise<void> {
  const { subscribers } = collections
  try {
    await subscribers.insertOne(document, { session })
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    // Another request may just have added the subscriber. By email, another subscriber may have the identity.
    const isAdded =
      typeof reference === 'string' ||
      (reference !== undefined && (await subscribers.findOne(referenceFilter(reference))) !== null)
    throw new UndoWrite(isAdded ? 'outdated' : 'identity_exists')
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

/** Thrown inside a transaction, which is rolled back by it. */
class UndoWrite extends Error {
  readonly outcome: FailedWrite

  constructor(outcome: FailedWrite) {
    super(`the write is undone: ${outcome}`)
    this.outcome = outcome
  }
}

// ---- the list ----

/** What a write of a subscriber depends on, in the snapshot of its transaction. */
export type ListState = Pick<MailingListDocument, '_id' | 'revision' | 'import_epoch'>

export const listStateProjection = { revision: 1, import_epoch: 1 } as const

const readListState = (
  { collections }: Database,
  session: ClientSession,
  listId: number,
): Promise<ListState | null> =>
  collections.mailingLists.findOne({ _id: listId }, { session, projection: listStateProjection })

export const isAtRevision = (list: ListState | null | undefined, { listRevision }: SubscriberPlan): boolean =>
  listRevision === undefined || list?.revision === listRevision

/**
 * Keeps an import that began before this transaction's snapshot from deactivating it
 * (engine/stages/finish/deactivation.ts).
 */
export const withImportEpoch = (
  document: SubscriberDocument,
  list: ListState | null | undefined,
): SubscriberDocument =>
  list?.import_epoch === undefined ? document : { ...document, import_epoch: list.import_epoch }
