import { setTimeout as sleep } from 'node:timers/promises'
import type { AnyBulkWriteOperation, ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { isDuplicateKey, isWriteConflict } from '../../shared/runtime/driver-errors.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { dropReactionsInLists } from '../../shared/store/reactions.ts'
import { inQuotaTransaction, useQuota } from '../../shared/store/subscriber-quota.ts'
import {
  addMove,
  changeCountsOfLists,
  noStatusCounts,
  type StatusCounts,
} from '../../shared/store/subscriber-counts.ts'
import {
  changeInPlace,
  isAtRevision,
  listStateProjection,
  planEffect,
  withImportEpoch,
  writeAlone,
  type ListState,
  type SubscriberPlan,
  type WriteResult,
} from './write-subscriber.ts'
import { toUpdate } from './subscriber-change.ts'
import { subscriberTransition } from '../../shared/values/subscriber-transition.ts'

/**
 * Group commit: additions and changes of single subscribers of one organization that come at the same moment share one
 * transaction, whatever their lists. They share its cost and the wait for its commit, and each has the outcome that it
 * would have alone. A batch that meets a taken identity, rows locked by an import or an exhausted quota is rolled back,
 * and its halves are tried one after the other, so that only the write at fault runs alone.
 *
 * With a transaction each, 64 changes of status at once wrote the 16 stripes of the counts: three of four met a write
 * conflict, and the driver waits for up to half a second before each repetition. 128 connections changed fewer
 * subscribers than 16.
 */

interface Waiting {
  plan: SubscriberPlan
  resolve: (result: WriteResult | Promise<WriteResult>) => void
  reject: (error: unknown) => void
}

const maxBatchSize = 64
/** A write that is alone may wait for an import's batch. Those that come meanwhile wait for it no longer than this. */
const maxAloneMs = 100

/**
 * Writes that come while a batch of their organization is in flight make the next batch. One that is alone begins at
 * once, and sixteen at a time cost little more than two. They are grouped by organization and not by list: under a
 * subscriber limit its transactions run one by one anyway.
 */
export class SubscriberWrites {
  readonly #database: Database
  /** By organization; an entry is there while a batch of it is in flight. */
  readonly #queues = new Map<number, Waiting[]>()

  constructor(database: Database) {
    this.#database = database
  }

  write(plan: SubscriberPlan): Promise<WriteResult> {
    if (!mayShare(plan)) return writeAlone(this.#database, plan)
    return new Promise((resolve, reject) => {
      const waiting = { plan, resolve, reject }
      const queue = this.#queues.get(plan.organizationId)
      if (queue === undefined) void this.#run(plan.organizationId, [waiting])
      else queue.push(waiting)
    })
  }

  async #run(organizationId: number, queue: Waiting[]): Promise<void> {
    this.#queues.set(organizationId, queue)
    while (queue.length > 0) {
      const batch = queue.splice(0, maxBatchSize)
      const written = this.#write(organizationId, batch)
      await (batch.length > 1
        ? written
        : Promise.race([written, sleep(maxAloneMs, undefined, { ref: false })]))
    }
    this.#queues.delete(organizationId)
  }

  /** Resolves when the next batch may begin; the writes of a failed one may take longer. */
  async #write(organizationId: number, batch: readonly Waiting[], isRetry = false): Promise<void> {
    const [first] = batch
    if (first !== undefined && batch.length === 1) {
      const written = writeCheapest(this.#database, first.plan)
      first.resolve(written)
      if (!isRetry) await written.catch(() => undefined)
      return
    }
    try {
      const plans = batch.map(({ plan }) => plan)
      const results = await writeInOneTransaction(this.#database, organizationId, plans)
      for (const [i, { plan, resolve, reject }] of batch.entries()) {
        const result = results[i]!
        if (result === 'alone') resolve(writeCheapest(this.#database, plan))
        else if ('refusal' in result) reject(result.refusal)
        else resolve(result)
      }
    } catch (error) {
      if (error instanceof BatchFailed) {
        const half = Math.ceil(batch.length / 2)
        await this.#write(organizationId, batch.slice(0, half), true)
        await this.#write(organizationId, batch.slice(half), true)
      } else for (const { reject } of batch) reject(error)
    }
  }
}

/** Whether nothing but one subscriber is written: no reaction, and no record of the request. */
const mayShare = ({ change, create, alongside }: SubscriberPlan): boolean =>
  alongside === undefined &&
  (change === undefined ? create?.().reactions === undefined : change.inPlace !== undefined)

async function writeCheapest(database: Database, plan: SubscriberPlan): Promise<WriteResult> {
  const { change } = plan
  if (change?.inPlace !== undefined) {
    const { existing, fieldsReadAt } = change.inPlace
    const after = await changeInPlace(database, existing, change.decide(existing).change, fieldsReadAt)
    if (after !== null) return { outcome: 'done', before: existing, after }
  }
  return writeAlone(database, plan)
}

/** Rolls the batch's transaction back; its writes are then tried in smaller batches. */
class BatchFailed extends Error {}

const maxConflictRetries = 2

/** `alone`: the write needs a transaction of its own. */
type SharedResult = WriteResult | { refusal: unknown } | 'alone'

async function writeInOneTransaction(
  database: Database,
  organizationId: number,
  plans: readonly SubscriberPlan[],
): Promise<SharedResult[]> {
  const { collections } = database
  let conflicts = 0
  return inQuotaTransaction(database, organizationId, async ({ session, hasQuotaLock }) => {
    try {
      const lists = await readListStates(database, session, plans)
      const found = await readSubscribers(database, session, plans)
      const batch = new Batch()
      const results = plans.map((plan) => batch.plan(plan, lists.get(plan.listId), found))
      const { neededQuota: amount, operations, leavingIds, countsByList } = batch
      const quota = { amount, hasQuotaLock }
      if (amount > 0 && (await useQuota(collections, session, organizationId, quota)) !== 'ok')
        throw new BatchFailed()
      if (operations.length > 0) await collections.subscribers.bulkWrite(operations, { session })
      await dropReactionsInLists(collections, session, [...countsByList.keys()], leavingIds)
      await changeCountsOfLists(database, session, organizationId, countsByList)
      return results
    } catch (error) {
      // Nothing is committed yet. A write conflict may be gone at the next try. A row that an import locks for longer
      // must not delay the others in the batch.
      if (isWriteConflict(error)) conflicts += 1
      if (isDuplicateKey(error) || conflicts > maxConflictRetries) throw new BatchFailed('', { cause: error })
      throw error
    }
  })
}

/** What the transaction of several writes writes. */
class Batch {
  readonly operations: AnyBulkWriteOperation<SubscriberDocument>[] = []
  readonly countsByList = new Map<number, StatusCounts>()
  readonly leavingIds: number[] = []
  neededQuota = 0

  /** `found`: the subscribers to change, by `_id`. Each is removed when it is changed: a second change needs the result. */
  plan(
    { change, create, ...plan }: SubscriberPlan,
    list: ListState | undefined,
    found: Map<string, SubscriberDocument>,
  ): SharedResult {
    if (!isAtRevision(list, plan)) return { outcome: 'outdated' }
    if (change?.inPlace === undefined) {
      const after = withImportEpoch(create!().subscriber, list)
      this.operations.push({ insertOne: { document: after } })
      if (subscriberTransition(null, after.status).needsQuota) this.neededQuota += 1
      this.#move(null, after)
      return { outcome: 'done', before: null, after }
    }
    const { _id, id } = change.inPlace.existing
    const before = found.get(_id)
    found.delete(_id)
    if (before?.id !== id) return 'alone'
    try {
      const { change: decided } = change.decide(before)
      const { after, needsQuota, dropsReactions } = planEffect(before, decided)
      if (after._id !== _id) return 'alone'
      const update = toUpdate(decided)
      if (update !== null) this.operations.push({ updateOne: { filter: { _id }, update } })
      if (needsQuota) this.neededQuota += 1
      if (dropsReactions) this.leavingIds.push(id)
      this.#move(before, after)
      return { outcome: 'done', before, after }
    } catch (refusal) {
      return { refusal }
    }
  }

  #move(before: SubscriberDocument | null, { mailing_list_id: listId, status }: SubscriberDocument): void {
    const counts = this.countsByList.get(listId) ?? noStatusCounts()
    this.countsByList.set(listId, addMove(counts, before?.status ?? null, status))
  }
}

async function readListStates(
  { collections }: Database,
  session: ClientSession,
  plans: readonly SubscriberPlan[],
): Promise<Map<number, ListState>> {
  const listIds = [...new Set(plans.map(({ listId }) => listId))]
  const lists = await collections.mailingLists
    .find({ _id: { $in: listIds } }, { session, projection: listStateProjection })
    .toArray()
  return new Map(lists.map((list) => [list._id, list]))
}

async function readSubscribers(
  { collections }: Database,
  session: ClientSession,
  plans: readonly SubscriberPlan[],
): Promise<Map<string, SubscriberDocument>> {
  const keys = plans.flatMap(({ change }) => change?.inPlace?.existing._id ?? [])
  if (keys.length === 0) return new Map()
  const found = await collections.subscribers.find({ _id: { $in: keys } }, { session }).toArray()
  return new Map(found.map((subscriber) => [subscriber._id, subscriber]))
}
