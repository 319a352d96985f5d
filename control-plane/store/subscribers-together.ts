import type { ClientSession } from 'mongodb'
import { isDuplicateKey, isWriteConflict, type Database } from '../../shared/runtime/database.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { withQuotaLock, takeQuota } from '../../shared/store/subscriber-quota.ts'
import {
  addMove,
  countMovesOfLists,
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

/**
 * Creations of single subscribers of one organization that come at the same moment, in one transaction, whatever lists
 * they are for: what the transaction costs, and the wait for its commit, is shared. Each one has the outcome that it
 * would have alone. A group that meets anything but plain success (an identity that is taken, rows that an import
 * holds, places that are short) is undone, and each of its writes goes its own way.
 */

interface Insertion {
  database: Database
  organizationId: number
  document: SubscriberDocument
  listRevision: number
}

const insertions = new WeakMap<Database, WriteCoalescer<number, Insertion, SubscriberWrite>>()

/** As `insertSubscriber`. */
export function insertTogether(
  database: Database,
  organizationId: number,
  document: SubscriberDocument,
  options: InsertOptions & { listRevision: number },
): Promise<SubscriberWrite> {
  if (options.reactions !== undefined) return insertSubscriber(database, organizationId, document, options)
  const { listRevision } = options
  // By organization and not by list: under a subscriber limit its transactions go one after the other anyway.
  return groupsOf(insertions, database, insertGroup).add(organizationId, {
    database,
    organizationId,
    document,
    listRevision,
  })
}

async function insertGroup(items: readonly Insertion[]): Promise<Promise<SubscriberWrite>[]> {
  const { database, organizationId } = items[0]!
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
        const amount = documents.filter(({ status }) => status === 'active').length
        await takeQuotaOfAll(database, session, organizationId, { amount, hasQuotaLock })
        await database.collections.subscribers.insertMany(documents, { session })
        await countMovesOfLists(database, session, organizationId, changesByList(documents))
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

async function takeQuotaOfAll(
  { collections }: Database,
  session: ClientSession,
  organizationId: number,
  { amount, hasQuotaLock }: { amount: number; hasQuotaLock: boolean },
): Promise<void> {
  if (
    amount > 0 &&
    (await takeQuota(collections, session, organizationId, { amount, hasQuotaLock })) !== 'taken'
  )
    throw new NotTogether()
}

/** Thrown by a group's attempt, which is undone then. */
class NotTogether extends Error {}

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
        // Before the commit: nothing of it is written, whatever the reason. Who wrote the same a moment ago is gone
        // the next time; a row that an import holds for longer is no matter of the others in the group.
        if (isWriteConflict(error)) conflicts += 1
        if (isDuplicateKey(error) || conflicts > maxConflictRetries)
          throw new NotTogether('', { cause: error })
        throw error
      }
    })
    return outcomes.map((outcome) => outcome())
  } catch (error) {
    if (error instanceof NotTogether) return alone()
    throw error
  }
}

const maxConflictRetries = 5

function groupsOf<Item>(
  known: WeakMap<Database, WriteCoalescer<number, Item, SubscriberWrite>>,
  database: Database,
  write: (items: readonly Item[]) => Promise<Promise<SubscriberWrite>[]>,
): WriteCoalescer<number, Item, SubscriberWrite> {
  let groups = known.get(database)
  if (groups === undefined) known.set(database, (groups = new WriteCoalescer(write)))
  return groups
}
