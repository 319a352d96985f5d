import type { ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { isDuplicateKey, isWriteConflict } from '../../shared/runtime/driver-errors.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { inQuotaTransaction, useQuota } from '../../shared/store/subscriber-quota.ts'
import {
  addMove,
  changeCountsOfLists,
  noStatusCounts,
  type StatusCounts,
} from '../../shared/store/subscriber-counts.ts'
import {
  isAtRevision,
  listStateProjection,
  withImportEpoch,
  writeAlone,
  type ListState,
  type SubscriberPlan,
  type WriteResult,
} from './write-subscriber.ts'
import { subscriberTransition } from '../../shared/values/subscriber-transition.ts'

/**
 * Group commit: creations of single subscribers of one organization that come at the same moment share one transaction,
 * whatever their lists. They share its cost and the wait for its commit, and each has the outcome that it would have
 * alone. A batch that meets a taken identity, rows locked by an import or an exhausted quota is rolled back. Each of
 * its creations then runs alone.
 */

interface Addition {
  plan: SubscriberPlan
  subscriber: SubscriberDocument
}

interface Waiting extends Addition {
  resolve: (result: Promise<WriteResult>) => void
  reject: (error: unknown) => void
}

const maxBatchSize = 64

/**
 * Creations that come while a batch of their organization is in flight make the next batch. One that is alone begins at
 * once, and sixteen at a time cost little more than two. They are grouped by organization and not by list: under a
 * subscriber limit its transactions run one by one anyway.
 */
export class SubscriberInsertions {
  readonly #database: Database
  /** By organization; an entry is there while a batch of it is in flight. */
  readonly #queues = new Map<number, Waiting[]>()

  constructor(database: Database) {
    this.#database = database
  }

  /** Adds a subscriber. The plan is an addition without reactions. */
  add(plan: SubscriberPlan, subscriber: SubscriberDocument): Promise<WriteResult> {
    return new Promise((resolve, reject) => {
      const waiting = { plan, subscriber, resolve, reject }
      const queue = this.#queues.get(plan.organizationId)
      if (queue === undefined) void this.#run(plan.organizationId, [waiting])
      else queue.push(waiting)
    })
  }

  async #run(organizationId: number, queue: Waiting[]): Promise<void> {
    this.#queues.set(organizationId, queue)
    while (queue.length > 0) {
      const batch = queue.splice(0, maxBatchSize)
      try {
        const results = await insertBatch(this.#database, organizationId, batch)
        for (const [i, result] of results.entries()) batch[i]?.resolve(result)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#queues.delete(organizationId)
  }
}

/** Resolves when the next batch may begin, to a promise of each addition's result, which may take longer. */
async function insertBatch(
  database: Database,
  organizationId: number,
  batch: readonly Addition[],
): Promise<Promise<WriteResult>[]> {
  try {
    const results = await insertInOneTransaction(database, organizationId, batch)
    return results.map((result) => Promise.resolve(result))
  } catch (error) {
    if (!(error instanceof BatchFailed)) throw error
    return batch.map(({ plan }) => writeAlone(database, plan))
  }
}

/** Rolls the batch's transaction back; its creations then run alone. */
class BatchFailed extends Error {}

const maxConflictRetries = 5

async function insertInOneTransaction(
  database: Database,
  organizationId: number,
  batch: readonly Addition[],
): Promise<WriteResult[]> {
  const { collections } = database
  let conflicts = 0
  return inQuotaTransaction(database, organizationId, async ({ session, hasQuotaLock }) => {
    try {
      const lists = await readListStates(database, session, batch)
      const fitting = batch.filter(({ plan }) => isAtRevision(lists.get(plan.listId), plan))
      if (fitting.length > 0) {
        const subscribers = fitting.map(({ plan, subscriber }) =>
          withImportEpoch(subscriber, lists.get(plan.listId)),
        )
        const amount = subscribers.filter(
          ({ status }) => subscriberTransition(null, status).needsQuota,
        ).length
        const quota = { amount, hasQuotaLock }
        if (amount > 0 && (await useQuota(collections, session, organizationId, quota)) !== 'ok')
          throw new BatchFailed()
        await collections.subscribers.insertMany(subscribers, { session })
        await changeCountsOfLists(database, session, organizationId, changesByList(subscribers))
      }
      return batch.map((addition) =>
        fitting.includes(addition)
          ? { outcome: 'done', before: null, after: addition.subscriber }
          : { outcome: 'outdated' },
      )
    } catch (error) {
      // Nothing is committed yet. A write conflict may be gone at the next try. A row that an import locks for longer
      // must not delay the others in the batch.
      if (isWriteConflict(error)) conflicts += 1
      if (isDuplicateKey(error) || conflicts > maxConflictRetries) throw new BatchFailed('', { cause: error })
      throw error
    }
  })
}

async function readListStates(
  { collections }: Database,
  session: ClientSession,
  batch: readonly Addition[],
): Promise<Map<number, ListState>> {
  const listIds = [...new Set(batch.map(({ plan }) => plan.listId))]
  const lists = await collections.mailingLists
    .find({ _id: { $in: listIds } }, { session, projection: listStateProjection })
    .toArray()
  return new Map(lists.map((list) => [list._id, list]))
}

function changesByList(documents: readonly SubscriberDocument[]): Map<number, StatusCounts> {
  const byList = new Map<number, StatusCounts>()
  for (const { mailing_list_id: listId, status } of documents)
    byList.set(listId, addMove(byList.get(listId) ?? noStatusCounts(), null, status))
  return byList
}
