import { MongoServerError, type ClientSession } from 'mongodb'
import { isDuplicateKey, type Database } from '../database.ts'
import { noStatusChanges, type SubscriberDocument } from '../schemas/subscriber.ts'
import { WriteGroups } from '../write-groups.ts'
import { inTurnForPlaces, takePlace } from './places.ts'
import { countMoves } from './request-counts.ts'
import { insertSubscriber, isAtRevision, type SubscriberWrite, type WriteOptions } from './subscribers.ts'

/**
 * Creations of single subscribers of one list that come at the same moment, in one transaction: what the transaction
 * costs, and the wait for its commit, is shared. Each one has the outcome that it would have alone. A group that meets
 * anything but plain success (an identity that is taken, rows that an import holds, places that are short) is undone,
 * and each of its writes goes its own way.
 */

interface Insertion {
  database: Database
  organizationId: number
  document: SubscriberDocument
  listRevision: number
}

const insertions = new WeakMap<Database, WriteGroups<number, Insertion, SubscriberWrite>>()

/** As `insertSubscriber`. */
export function insertTogether(
  database: Database,
  organizationId: number,
  document: SubscriberDocument,
  options: WriteOptions & { listRevision: number },
): Promise<SubscriberWrite> {
  if (options.reactions !== undefined) return insertSubscriber(database, organizationId, document, options)
  const { listRevision } = options
  return groupsOf(insertions, database, insertGroup).add(document.mailing_list_id, {
    database,
    organizationId,
    document,
    listRevision,
  })
}

async function insertGroup(items: readonly Insertion[]): Promise<Promise<SubscriberWrite>[]> {
  const { database, organizationId, document } = items[0]!
  const listId = document.mailing_list_id
  return togetherOrAlone(
    database,
    organizationId,
    async (session, isInTurn) => {
      const fitting = await atRevision(database, session, listId, items)
      if (fitting.length > 0) {
        const documents = fitting.map((item) => item.document)
        const changes = noStatusChanges()
        for (const { status } of documents) changes[status] += 1
        await takePlaces(database, session, organizationId, { amount: changes.active, isInTurn })
        await database.collections.subscribers.insertMany(documents, { session })
        await countMoves(database, session, { organizationId, listId, changes })
      }
      return items.map((item) => () => Promise.resolve(fitting.includes(item) ? 'done' : 'list_changed'))
    },
    () =>
      items.map((item) =>
        insertSubscriber(database, organizationId, item.document, { listRevision: item.listRevision }),
      ),
  )
}

async function atRevision(
  database: Database,
  session: ClientSession,
  listId: number,
  items: readonly Insertion[],
): Promise<Insertion[]> {
  const { listRevision } = items[0]!
  // Nearly always all of them were checked against the same one.
  if (!(await isAtRevision(database, session, listId, { listRevision }))) throw new NotTogether()
  return items.filter((item) => item.listRevision === listRevision)
}

async function takePlaces(
  { collections }: Database,
  session: ClientSession,
  organizationId: number,
  { amount, isInTurn }: { amount: number; isInTurn: boolean },
): Promise<void> {
  if (amount > 0 && (await takePlace(collections, session, organizationId, { amount, isInTurn })) !== 'taken')
    throw new NotTogether()
}

/** Thrown by a group's attempt, which is undone then. */
class NotTogether extends Error {}

async function togetherOrAlone(
  database: Database,
  organizationId: number,
  attempt: (session: ClientSession, isInTurn: boolean) => Promise<(() => Promise<SubscriberWrite>)[]>,
  alone: () => Promise<SubscriberWrite>[],
): Promise<Promise<SubscriberWrite>[]> {
  try {
    let conflicts = 0
    const outcomes = await inTurnForPlaces(database, organizationId, async (session, isInTurn) => {
      try {
        return await attempt(session, isInTurn)
      } catch (error) {
        // Before the commit: nothing of it is written, whatever the reason. Who wrote the same a moment ago is gone
        // the next time; a row that an import holds for longer is no matter of the others in the group.
        if (isConflict(error)) conflicts += 1
        if (isDuplicateKey(error) || conflicts > mostConflicts) throw new NotTogether('', { cause: error })
        throw error
      }
    })
    return outcomes.map((outcome) => outcome())
  } catch (error) {
    if (error instanceof NotTogether) return alone()
    throw error
  }
}

const mostConflicts = 5

const isConflict = (error: unknown): boolean => error instanceof MongoServerError && error.code === 112

function groupsOf<Item>(
  known: WeakMap<Database, WriteGroups<number, Item, SubscriberWrite>>,
  database: Database,
  write: (items: readonly Item[]) => Promise<Promise<SubscriberWrite>[]>,
): WriteGroups<number, Item, SubscriberWrite> {
  let groups = known.get(database)
  if (groups === undefined) known.set(database, (groups = new WriteGroups(write)))
  return groups
}
