import { MongoServerError, type ClientSession } from 'mongodb'
import { inTransaction, type Database } from '../database.ts'
import { noStatusChanges, type SubscriberDocument, type SubscriberStatus } from '../schemas/subscriber.ts'
import { WriteGroups } from '../write-groups.ts'
import { takePlace } from './places.ts'
import {
  changed,
  changeSubscriber,
  countMoves,
  insertSubscriber,
  isAtRevision,
  updateOf,
  type SubscriberAddress,
  type SubscriberChange,
  type SubscriberWrite,
  type WriteOptions,
} from './subscribers.ts'

/**
 * Writes of single subscribers of one list that come at the same moment, in one transaction: what the transaction costs,
 * and the wait for its commit, is shared. Each write has the outcome that it would have alone. A group that meets
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
    async (session) => {
      const fitting = await atRevision(database, session, listId, items)
      if (fitting.length > 0) {
        const documents = fitting.map((item) => item.document)
        const changes = noStatusChanges()
        for (const { status } of documents) changes[status] += 1
        await takePlaces(database, session, organizationId, changes.active)
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

interface Change {
  database: Database
  organizationId: number
  listId: number
  address: { listId: number; id: number } | string
  change: (existing: SubscriberDocument) => SubscriberChange
  listRevision: number
}

const changes = new WeakMap<Database, WriteGroups<number, Change, SubscriberWrite>>()

/** As `changeSubscriber`. */
export function changeTogether(
  database: Database,
  { organizationId, listId }: { organizationId: number; listId: number },
  address: SubscriberAddress,
  change: (existing: SubscriberDocument) => SubscriberChange,
  options: WriteOptions & { listRevision: number },
): Promise<SubscriberWrite> {
  const { listRevision, reactions } = options
  if (reactions !== undefined || (typeof address !== 'string' && 'emailKey' in address))
    return changeSubscriber(database, organizationId, address, change, options)
  const item = { database, organizationId, listId, address, change, listRevision }
  return groupsOf(changes, database, changeGroup).add(listId, item)
}

async function changeGroup(items: readonly Change[]): Promise<Promise<SubscriberWrite>[]> {
  const { database, organizationId, listId } = items[0]!
  const alone = ({ address, change, listRevision }: Change) =>
    changeSubscriber(database, organizationId, address, change, { listRevision })
  return togetherOrAlone(
    database,
    async (session) => {
      const fitting = await atRevision(database, session, listId, items)
      const find = await findAll(database, session, listId, fitting)
      const moves = noStatusChanges()
      const written = new Map<string, Record<string, unknown> | null>()
      let becomeActive = 0
      const outcomes = items.map((item): (() => Promise<SubscriberWrite>) => {
        if (!fitting.includes(item)) return () => Promise.resolve('list_changed')
        const existing = find(item.address)
        if (existing === undefined) return () => Promise.resolve('missing')
        // The second change of the same one goes by what the first one leaves.
        if (written.has(existing._id)) return () => alone(item)
        const change = changeOrNull(item, existing)
        if (change === null) return () => alone(item)
        const { _id: key, status: to } = changed(existing, change)
        if (key !== existing._id) return () => alone(item)
        written.set(key, updateOf(change))
        move(moves, existing.status, to)
        if (to === 'active' && existing.status !== 'active') becomeActive += 1
        return () => Promise.resolve('done')
      })
      await takePlaces(database, session, organizationId, becomeActive)
      const updates = [...written].flatMap(([_id, update]) =>
        update === null ? [] : [{ updateOne: { filter: { _id }, update } }],
      )
      if (updates.length > 0) await database.collections.subscribers.bulkWrite(updates, { session })
      await countMoves(database, session, { organizationId, listId, changes: moves })
      return outcomes
    },
    () => items.map(alone),
  )
}

/** Null where it is refused: what is wrong with it is said when it goes alone. */
function changeOrNull({ change }: Change, existing: SubscriberDocument): SubscriberChange | null {
  try {
    return change(existing)
  } catch {
    return null
  }
}

function move(moves: Record<SubscriberStatus, number>, from: SubscriberStatus, to: SubscriberStatus): void {
  moves[from] -= 1
  moves[to] += 1
}

/** What the items' addresses lead to, by one read for each index. */
async function findAll(
  { collections }: Database,
  session: ClientSession,
  listId: number,
  items: readonly Change[],
): Promise<(address: Change['address']) => SubscriberDocument | undefined> {
  const keys = items.flatMap(({ address }) => (typeof address === 'string' ? [address] : []))
  const ids = items.flatMap(({ address }) => (typeof address === 'string' ? [] : [address.id]))
  const byKey = new Map<string, SubscriberDocument>()
  const byId = new Map<number, SubscriberDocument>()
  for (const filter of [
    ...(keys.length === 0 ? [] : [{ _id: { $in: keys } }]),
    ...(ids.length === 0 ? [] : [{ mailing_list_id: listId, id: { $in: ids } }]),
  ]) {
    for (const subscriber of await collections.subscribers.find(filter, { session }).toArray()) {
      byKey.set(subscriber._id, subscriber)
      byId.set(subscriber.id, subscriber)
    }
  }
  return (address) => (typeof address === 'string' ? byKey.get(address) : byId.get(address.id))
}

async function atRevision<Item extends { listRevision: number }>(
  database: Database,
  session: ClientSession,
  listId: number,
  items: readonly Item[],
): Promise<Item[]> {
  const { listRevision } = items[0]!
  // Nearly always all of them were checked against the same one.
  if (!(await isAtRevision(database, session, listId, { listRevision }))) throw new NotTogether()
  return items.filter((item) => item.listRevision === listRevision)
}

async function takePlaces(
  { collections }: Database,
  session: ClientSession,
  organizationId: number,
  amount: number,
): Promise<void> {
  if (amount > 0 && (await takePlace(collections, session, organizationId, amount)) !== 'taken')
    throw new NotTogether()
}

/** Thrown by a group's attempt, which is undone then. */
class NotTogether extends Error {}

async function togetherOrAlone(
  { client }: Database,
  attempt: (session: ClientSession) => Promise<(() => Promise<SubscriberWrite>)[]>,
  alone: () => Promise<SubscriberWrite>[],
): Promise<Promise<SubscriberWrite>[]> {
  try {
    const outcomes = await inTransaction(client, async (session) => {
      try {
        return await attempt(session)
      } catch (error) {
        // Before the commit: nothing of it is written, whatever the reason.
        if (error instanceof MongoServerError && (error.code === 11000 || error.code === 112))
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

function groupsOf<Item>(
  known: WeakMap<Database, WriteGroups<number, Item, SubscriberWrite>>,
  database: Database,
  write: (items: readonly Item[]) => Promise<Promise<SubscriberWrite>[]>,
): WriteGroups<number, Item, SubscriberWrite> {
  let groups = known.get(database)
  if (groups === undefined) known.set(database, (groups = new WriteGroups(write)))
  return groups
}
