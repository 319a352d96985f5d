import type { ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { isDuplicateKey, isWriteConflict } from '../../shared/runtime/driver-errors.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { withQuotaLock, useQuota } from '../../shared/store/subscriber-quota.ts'
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
import { WriteCoalescer } from './write-coalescer.ts'
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

/** Grouped by organization and not by list: under a subscriber limit its transactions run one by one anyway. */
export type SubscriberInsertions = WriteCoalescer<number, Insertion, SubscriberWrite>

export const createSubscriberInsertions = (database: Database): SubscriberInsertions =>
  new WriteCoalescer((items, organizationId) => insertGroup(database, organizationId, items))

/** As `insertSubscriber`. */
export function insertTogether(
  { database, subscriberInsertions }: { database: Database; subscriberInsertions: SubscriberInsertions },
  organizationId: number,
  document: SubscriberDocument,
  options: Omit<InsertOptions, 'deletePending'> & { listRevision: number },
): Promise<SubscriberWrite> {
  if (options.reactions !== undefined) return insertSubscriber(database, organizationId, document, options)
  return subscriberInsertions.add(organizationId, { document, listRevision: options.listRevision })
}

async function insertGroup(
  database: Database,
  organizationId: number,
  items: readonly Insertion[],
): Promise<Promise<SubscriberWrite>[]> {
  return togetherOrAlone(
    database,
    organizationId,
    async (session, hasQuotaLock) => {
      const lists = await readListStates(database, session, items)
      const fitting = items.filter(
        ({ document, listRevision }) => lists.get(document.mailing_list_id)?.revision === listRevision,
      )
      if (fitting.length > 0) {
        const documents = fitting.map(({ document }) =>
          withImportEpoch(document, lists.get(document.mailing_list_id)),
        )
        const amount = documents.filter(({ status }) => subscriberTransition(null, status).needsQuota).length
        await useQuotaTogether(database, session, organizationId, { amount, hasQuotaLock })
        await database.collections.subscribers.insertMany(documents, { session })
        await changeCountsOfLists(database, session, organizationId, changesByList(documents))
      }
      return items.map((item) => () => Promise.resolve(fitting.includes(item) ? 'done' : 'list_changed'))
    },
    () =>
      items.map((item) =>
        insertSubscriber(database, organizationId, item.document, { listRevision: item.listRevision }),
      ),
  )
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

async function useQuotaTogether(
  { collections }: Database,
  session: ClientSession,
  organizationId: number,
  { amount, hasQuotaLock }: { amount: number; hasQuotaLock: boolean },
): Promise<void> {
  if (amount > 0 && (await useQuota(collections, session, organizationId, { amount, hasQuotaLock })) !== 'ok')
    throw new GroupFailed()
}

/** Rolls the group's transaction back; its creations then run alone. */
class GroupFailed extends Error {}

async function togetherOrAlone(
  database: Database,
  organizationId: number,
  attempt: (session: ClientSession, hasQuotaLock: boolean) => Promise<(() => Promise<SubscriberWrite>)[]>,
  alone: () => Promise<SubscriberWrite>[],
): Promise<Promise<SubscriberWrite>[]> {
  try {
    let conflicts = 0
    const outcomes = await withQuotaLock(database, organizationId, async (session, hasQuotaLock) => {
      try {
        return await attempt(session, hasQuotaLock)
      } catch (error) {
        // Nothing is committed yet. A write conflict may be gone at the next try. A row that an import locks for longer must not delay the others in the group.
        if (isWriteConflict(error)) conflicts += 1
        if (isDuplicateKey(error) || conflicts > maxConflictRetries)
          throw new GroupFailed('', { cause: error })
        throw error
      }
    })
    return outcomes.map((outcome) => outcome())
  } catch (error) {
    if (error instanceof GroupFailed) return alone()
    throw error
  }
}

const maxConflictRetries = 5
