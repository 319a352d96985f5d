import type { ClientSession } from 'mongodb'
import type { Database } from '../runtime/database.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import { subscriberStatuses, type SubscriberStatus } from '../contract/schemas/subscriber.ts'

/**
 * Counts of a list's subscribers by status, and their sums. The counts are kept in stripes (a sharded counter): each
 * lane of an engine has a stripe of its own, and requests share some. A write to all shared stripes conflicts with
 * every open transaction of a request, which is then repeated.
 */

/** Subscribers by status, or the change of these numbers, which may be negative. */
export type StatusCounts = Record<SubscriberStatus, number>

export const noStatusCounts = (): StatusCounts => ({
  active: 0,
  bounced: 0,
  unsubscribed: 0,
  scomp: 0,
  deactivated: 0,
})

/**
 * Adds a move of `amount` subscribers between two statuses to `changes`, and returns it. Null means not on the list.
 */
export function addMove(
  changes: StatusCounts,
  from: SubscriberStatus | null,
  to: SubscriberStatus | null,
  amount = 1,
): StatusCounts {
  if (from !== null) changes[from] -= amount
  if (to !== null) changes[to] += amount
  return changes
}

/** Adds `more` to `counts`, and returns it. */
export function addCounts(counts: StatusCounts, more: StatusCounts): StatusCounts {
  for (const status of subscriberStatuses) counts[status] += more[status]
  return counts
}

interface ListChanges {
  organizationId: number
  listId: number
  changes: StatusCounts
}

/** Inside a request's transaction: applies changes to the counts of a list. Writes nothing where all are 0. */
export function changeCounts(
  database: Database,
  session: ClientSession,
  { organizationId, listId, changes }: ListChanges,
): Promise<void> {
  return changeCountsOfLists(database, session, organizationId, new Map([[listId, changes]]))
}

/**
 * The same for several lists of an organization. All use one stripe, as each further stripe could cause a conflict.
 */
export async function changeCountsOfLists(
  { collections, local }: Database,
  session: ClientSession,
  organizationId: number,
  changesByList: ReadonlyMap<number, StatusCounts>,
): Promise<void> {
  const moved = [...changesByList].filter(([, changes]) => hasChanges(changes))
  if (moved.length === 0) return
  const stripe = requestStripe(local.countStripes.next(requestStripeCount))
  await collections.subscriberCounts.bulkWrite(
    moved.map(([listId, changes]) => ({
      updateOne: {
        filter: { _id: stripeKey(listId, stripe) },
        update: buildMove({ organizationId, listId, changes }),
        upsert: true,
      },
    })),
    { session },
  )
}

/** Inside an engine's transaction: applies changes to the stripe that only this lane writes. */
export async function changeCountsOfLane(
  { subscriberCounts }: Collections,
  session: ClientSession,
  stripe: string,
  moved: ListChanges,
): Promise<void> {
  if (!hasChanges(moved.changes)) return
  await subscriberCounts.updateOne({ _id: stripeKey(moved.listId, stripe) }, buildMove(moved), {
    session,
    upsert: true,
  })
}

const hasChanges = (changes: StatusCounts): boolean =>
  subscriberStatuses.some((status) => changes[status] !== 0)

const buildMove = ({ organizationId, listId, changes }: ListChanges) => ({
  $inc: changes,
  $setOnInsert: { organization_id: organizationId, mailing_list_id: listId },
})

const stripeKey = (listId: number, stripe: string): string => `${listId}:${stripe}`

/** Stripes that requests share, round-robin, so that concurrent requests of one process seldom conflict. */
const requestStripeCount = 16
const requestStripe = (number: number): string => `a${number}`
const requestStripes = Array.from({ length: requestStripeCount }, (_, i) => requestStripe(i))

/** Sums of stripes, by status. */
const sums = Object.fromEntries(subscriberStatuses.map((status) => [status, { $sum: `$${status}` }]))
/**
 * All stripes are read in one snapshot. Reads at different times could give a sum that never was, where one stripe
 * got an addition and another one a removal in between. The default batch size would need a second batch for more
 * than a hundred rows.
 */
const inOneSnapshot = { readConcern: { level: 'snapshot' }, batchSize: 5_000 } as const

/** A list's subscribers by status; the cost doesn't depend on how many they are. */
export async function readListCounts(
  { subscriberCounts }: Collections,
  listId: number,
): Promise<StatusCounts> {
  const [row] = await subscriberCounts
    .aggregate<StatusCounts>(
      [{ $match: { mailing_list_id: listId } }, { $group: { _id: null, ...sums } }],
      inOneSnapshot,
    )
    .toArray()
  return row === undefined ? noStatusCounts() : addCounts(noStatusCounts(), row)
}

/** The number of subscribers of a list in any status. */
export async function countSubscribers({ collections }: Database, listId: number): Promise<number> {
  const counts = await readListCounts(collections, listId)
  return subscriberStatuses.reduce((sum, status) => sum + counts[status], 0)
}

/** An organization's subscribers by list and status; a list that never had one is missing. */
export async function countsByList(
  { subscriberCounts }: Collections,
  organizationId: number,
): Promise<Map<number, StatusCounts>> {
  const rows = await subscriberCounts
    .aggregate<StatusCounts & { _id: number }>(
      [{ $match: { organization_id: organizationId } }, { $group: { _id: '$mailing_list_id', ...sums } }],
      inOneSnapshot,
    )
    .toArray()
  return new Map(rows.map((row) => [row._id, addCounts(noStatusCounts(), row)]))
}

/** The organization's active subscribers, over all its lists. */
export async function activeSubscribers(
  { subscriberCounts }: Collections,
  session: ClientSession | undefined,
  organizationId: number,
): Promise<number> {
  const [row] = await subscriberCounts
    .aggregate<{ active: number }>(
      [
        { $match: { organization_id: organizationId } },
        { $group: { _id: null, active: { $sum: '$active' } } },
      ],
      session === undefined ? inOneSnapshot : { session },
    )
    .toArray()
  return row?.active ?? 0
}

/**
 * Inside a transaction that needs a list to stay without subscribers until it commits. An addition of the first
 * subscriber writes one of these stripes too, so only one of the two transactions commits on what it read.
 */
export async function keepOutNewSubscribers(
  { collections }: Database,
  session: ClientSession,
  { organizationId, listId }: { organizationId: number; listId: number },
): Promise<void> {
  await collections.subscriberCounts.bulkWrite(buildTouches(organizationId, listId, 'list_changes'), {
    session,
  })
}

/**
 * Called after a change of the limit was committed: restarts open transactions that use the old limit, by a conflict
 * on their stripe. A list that isn't read here was created later, and its transactions use the new limit.
 */
export async function restartOpenWrites(
  { mailingLists, subscriberCounts }: Collections,
  organizationId: number,
): Promise<void> {
  const lists = mailingLists.find({ organization_id: organizationId }, { projection: { _id: 1 } })
  for await (const { _id: listId } of lists)
    await subscriberCounts.bulkWrite(buildTouches(organizationId, listId, 'limit_changes'), {
      ordered: false,
    })
}

/**
 * Begins a new import epoch of a list; undefined when there is no such list. Every subscriber whose addition commits
 * later has this epoch or a higher one. A transaction with the former epoch conflicts on its stripe and is repeated.
 */
export async function beginImportEpoch(
  { mailingLists, subscriberCounts }: Collections,
  { organizationId, listId }: { organizationId: number; listId: number },
): Promise<number | undefined> {
  const list = await mailingLists.findOneAndUpdate(
    { _id: listId },
    { $inc: { import_epoch: 1 } },
    { returnDocument: 'after', projection: { import_epoch: 1 } },
  )
  if (list === null) return undefined
  await subscriberCounts.bulkWrite(buildTouches(organizationId, listId, 'list_changes'), { ordered: false })
  return list.import_epoch
}

/**
 * Writes to all request stripes of a list. It creates missing ones, because a concurrent creation must conflict too.
 */
function buildTouches(organizationId: number, listId: number, counter: 'list_changes' | 'limit_changes') {
  return requestStripes.map((stripe) => ({
    updateOne: {
      filter: { _id: stripeKey(listId, stripe) },
      update: {
        $inc: { [counter]: 1 },
        $setOnInsert: { ...noStatusCounts(), organization_id: organizationId, mailing_list_id: listId },
      },
      upsert: true,
    },
  }))
}
