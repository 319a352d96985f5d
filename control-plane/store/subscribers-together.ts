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
  insertSubscriber,
  type InsertOptions,
  listStateProjection,
  withImportEpoch,
  type ListState,
  type SubscriberWrite,
} from './subscribers.ts'
import { subscriberTransition } from '../../shared/values/subscriber-transition.ts'

/**
 * Group commit: creations of single subscribers of one organization that come at the same moment share one transaction,
 * whatever their lists. They share its cost and the wait for its commit, and each has the outcome that it would have
 * alone. A group that meets a taken identity, rows locked by an import or an exhausted quota is rolled back. Each of
 * its creations then runs alone.
 */

interface Insertion {
  document: SubscriberDocument
  listRevision: number
}

interface Waiting {
  item: Insertion
  resolve: (result: Promise<SubscriberWrite>) => void
  reject: (error: unknown) => void
}

const maxGroupSize = 64

/**
 * Creations that come while a group of their organization is in flight make the next group. One that is alone begins at
 * once, and sixteen at a time cost little more than two. They are grouped by organization and not by list: under a
 * subscriber limit its transactions run one by one anyway.
 */
export class SubscriberInsertions {
  readonly #database: Database
  /** By organization; an entry is there while a group of it is in flight. */
  readonly #queues = new Map<number, Waiting[]>()

  constructor(database: Database) {
    this.#database = database
  }

  add(organizationId: number, item: Insertion): Promise<SubscriberWrite> {
    return new Promise((resolve, reject) => {
      const waiting = { item, resolve, reject }
      const queue = this.#queues.get(organizationId)
      if (queue === undefined) void this.#run(organizationId, [waiting])
      else queue.push(waiting)
    })
  }

  async #run(organizationId: number, queue: Waiting[]): Promise<void> {
    this.#queues.set(organizationId, queue)
    while (queue.length > 0) {
      const group = queue.splice(0, maxGroupSize)
      try {
        const items = group.map(({ item }) => item)
        const results = await insertGroup(this.#database, organizationId, items)
        for (const [i, result] of results.entries()) group[i]?.resolve(result)
      } catch (error) {
        for (const { reject } of group) reject(error)
      }
    }
    this.#queues.delete(organizationId)
  }
}

/** Adds a subscriber, in a group with others unless it queues reactions. Its results are like `insertSubscriber`'s. */
export function insertTogether(
  { database, subscriberInsertions }: { database: Database; subscriberInsertions: SubscriberInsertions },
  organizationId: number,
  document: SubscriberDocument,
  options: Omit<InsertOptions, 'deletePending'> & { listRevision: number },
): Promise<SubscriberWrite> {
  if (options.reactions !== undefined) return insertSubscriber(database, organizationId, document, options)
  return subscriberInsertions.add(organizationId, { document, listRevision: options.listRevision })
}

/** Resolves when the next group may begin, to a promise of each item's result, which may take longer. */
async function insertGroup(
  database: Database,
  organizationId: number,
  items: readonly Insertion[],
): Promise<Promise<SubscriberWrite>[]> {
  try {
    const outcomes = await insertInOneTransaction(database, organizationId, items)
    return outcomes.map((outcome) => Promise.resolve(outcome))
  } catch (error) {
    if (!(error instanceof GroupFailed)) throw error
    return items.map(({ document, listRevision }) =>
      insertSubscriber(database, organizationId, document, { listRevision }),
    )
  }
}

/** Rolls the group's transaction back; its creations then run alone. */
class GroupFailed extends Error {}

const maxConflictRetries = 5

async function insertInOneTransaction(
  database: Database,
  organizationId: number,
  items: readonly Insertion[],
): Promise<SubscriberWrite[]> {
  const { collections } = database
  let conflicts = 0
  return inQuotaTransaction(database, organizationId, async ({ session, hasQuotaLock }) => {
    try {
      const lists = await readListStates(database, session, items)
      const fitting = items.filter(
        ({ document, listRevision }) => lists.get(document.mailing_list_id)?.revision === listRevision,
      )
      if (fitting.length > 0) {
        const documents = fitting.map(({ document }) =>
          withImportEpoch(document, lists.get(document.mailing_list_id)),
        )
        const amount = documents.filter(({ status }) => subscriberTransition(null, status).needsQuota).length
        const quota = { amount, hasQuotaLock }
        if (amount > 0 && (await useQuota(collections, session, organizationId, quota)) !== 'ok')
          throw new GroupFailed()
        await collections.subscribers.insertMany(documents, { session })
        await changeCountsOfLists(database, session, organizationId, changesByList(documents))
      }
      return items.map((item) => (fitting.includes(item) ? 'done' : 'list_changed'))
    } catch (error) {
      // Nothing is committed yet. A write conflict may be gone at the next try. A row that an import locks for longer
      // must not delay the others in the group.
      if (isWriteConflict(error)) conflicts += 1
      if (isDuplicateKey(error) || conflicts > maxConflictRetries) throw new GroupFailed('', { cause: error })
      throw error
    }
  })
}

async function readListStates(
  { collections }: Database,
  session: ClientSession,
  items: readonly Insertion[],
): Promise<Map<number, ListState>> {
  const listIds = [...new Set(items.map(({ document }) => document.mailing_list_id))]
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
