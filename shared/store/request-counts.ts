import type { ClientSession } from 'mongodb'
import type { Database } from '../database.ts'
import type { Collections } from '../schemas/collections.ts'
import { noStatusChanges, subscriberStatuses, type SubscriberStatus } from '../schemas/subscriber.ts'

/** The counts of a list's subscribers that requests keep, spread over stripes; and what makes requests take turns by them. */

/** Stripes that requests share, one after the other, so that those of one process that are under way seldom meet. */
const stripes = 16
let lastStripe = Math.floor(Math.random() * stripes)

const nextStripe = (): number => (lastStripe = (lastStripe + 1) % stripes)

const stripeKey = (listId: number, stripe: number): string => `${listId}:a${stripe}`

export type StatusChanges = Record<SubscriberStatus, number>

/**
 * Inside a request's transaction: moves a list's counts by `changes` (negative for who left a status); writes nothing
 * where all are 0.
 */
export function countMoves(
  database: Database,
  session: ClientSession,
  { organizationId, listId, changes }: { organizationId: number; listId: number; changes: StatusChanges },
): Promise<void> {
  return countMovesOfLists(database, session, organizationId, new Map([[listId, changes]]))
}

/** The same for several lists of an organization. One stripe of all of them, or each more would be one more to meet. */
export async function countMovesOfLists(
  { collections }: Database,
  session: ClientSession,
  organizationId: number,
  changesByList: ReadonlyMap<number, StatusChanges>,
): Promise<void> {
  const moved = [...changesByList].filter(([, changes]) =>
    subscriberStatuses.some((status) => changes[status] !== 0),
  )
  if (moved.length === 0) return
  const stripe = nextStripe()
  await collections.subscriberCounts.bulkWrite(
    moved.map(([listId, changes]) => ({
      updateOne: {
        filter: { _id: stripeKey(listId, stripe) },
        update: {
          $inc: changes,
          $setOnInsert: { organization_id: organizationId, mailing_list_id: listId },
        },
        upsert: true,
      },
    })),
    { session },
  )
}

/** How many subscribers a list has, whatever their status; the cost doesn't depend on how many that are. */
export async function countSubscribers({ collections }: Database, listId: number): Promise<number> {
  const found = await collections.subscriberCounts.find({ mailing_list_id: listId }).toArray()
  return found.reduce(
    (sum, stripe) => sum + subscriberStatuses.reduce((all, status) => all + stripe[status], 0),
    0,
  )
}

/**
 * Inside a transaction that needs a list without subscribers to stay one until it commits: whoever adds the first one
 * meanwhile writes one of these stripes too, so only one of the two commits on what it read.
 */
export async function keepOutNewSubscribers(
  { collections }: Database,
  session: ClientSession,
  { organizationId, listId }: { organizationId: number; listId: number },
): Promise<void> {
  await collections.subscriberCounts.bulkWrite(touches(organizationId, listId, 'list_changes'), { session })
}

/**
 * After a change of the limit was committed: whoever makes somebody active by the old one, and hasn't committed yet,
 * begins anew. A list that isn't among these was made later, and so are those who subscribe to it.
 */
export async function restartWritesUnderWay(
  { mailingLists, subscriberCounts }: Collections,
  organizationId: number,
): Promise<void> {
  const lists = mailingLists.find({ organization_id: organizationId }, { projection: { _id: 1 } })
  for await (const { _id: listId } of lists)
    await subscriberCounts.bulkWrite(touches(organizationId, listId, 'limit_changes'), { ordered: false })
}

/** Writes of all the stripes of a list. Those that aren't there are made, or nobody who makes one would meet them. */
function touches(organizationId: number, listId: number, counter: 'list_changes' | 'limit_changes') {
  return Array.from({ length: stripes }, (_, stripe) => ({
    updateOne: {
      filter: { _id: stripeKey(listId, stripe) },
      update: {
        $inc: { [counter]: 1 },
        $setOnInsert: { ...noStatusChanges(), organization_id: organizationId, mailing_list_id: listId },
      },
      upsert: true,
    },
  }))
}
