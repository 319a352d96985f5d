import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { inTransaction, type Database } from '../database.ts'
import { reactionsOfSubscriber } from '../schemas/autoresponder.ts'
import { noStatusChanges, type SubscriberDocument, type SubscriberStatus } from '../schemas/subscriber.ts'
import { takePlace } from './places.ts'

/**
 * Single subscribers, written by requests. Each write is one transaction that also moves the list's counts, and takes
 * turns with imports: whoever comes second on the same subscriber does it again on what the first one left.
 */

/** `busy`: imports held the places that are free for longer than a request waits. */
export type SubscriberWrite = 'done' | 'missing' | 'over_limit' | 'busy'

/** Adds a subscriber. Throws a duplicate key error when its identity is there already. */
export function insertSubscriber(
  database: Database,
  organizationId: number,
  document: SubscriberDocument,
): Promise<SubscriberWrite> {
  return waitingForPlaces(database, async (session) => {
    const { mailing_list_id: listId, status } = document
    if (status === 'active') await takePlaceOrThrow(database, session, organizationId)
    await database.collections.subscribers.insertOne(document, { session })
    await count(database, session, { organizationId, listId, from: null, to: status })
    return 'done'
  })
}

export interface SubscriberChange {
  set: Partial<SubscriberDocument> & Record<string, unknown>
  unset: string[]
}

/** As an update document; null when nothing changes. */
export function updateOf({ set, unset }: SubscriberChange): Record<string, unknown> | null {
  const update: Record<string, unknown> = {}
  if (Object.keys(set).length > 0) update['$set'] = set
  if (unset.length > 0) update['$unset'] = Object.fromEntries(unset.map((path) => [path, '']))
  return Object.keys(update).length === 0 ? null : update
}

/** Changes a subscriber as `change` says of what is there at that moment. */
export function changeSubscriber(
  database: Database,
  organizationId: number,
  key: string,
  change: (existing: SubscriberDocument) => SubscriberChange,
): Promise<SubscriberWrite> {
  return waitingForPlaces(database, async (session) => {
    const { subscribers } = database.collections
    const existing = await subscribers.findOne({ _id: key }, { session })
    if (existing === null) return 'missing'
    const changed = change(existing)
    const { mailing_list_id: listId, status: from } = existing
    const to = changed.set.status ?? from
    if (to === 'active' && from !== 'active') await takePlaceOrThrow(database, session, organizationId)
    const update = updateOf(changed)
    if (update !== null) await subscribers.updateOne({ _id: key }, update, { session })
    await count(database, session, { organizationId, listId, from, to })
    return 'done'
  })
}

/** Removes a subscriber and the reactions that were queued for it. */
export function removeSubscriber(
  database: Database,
  organizationId: number,
  key: string,
): Promise<SubscriberWrite> {
  const { client, collections } = database
  return inTransaction(client, async (session) => {
    const removed = await collections.subscribers.findOneAndDelete({ _id: key }, { session })
    if (removed === null) return 'missing'
    await collections.reactions.deleteMany({ _id: reactionsOfSubscriber(removed.id) }, { session })
    const { mailing_list_id: listId, status: from } = removed
    await count(database, session, { organizationId, listId, from, to: null })
    return 'done'
  })
}

/** Stripes that requests share; a random one, so that two at the same moment seldom meet. */
const stripes = 16

async function count(
  { collections }: Database,
  session: ClientSession,
  move: {
    organizationId: number
    listId: number
    from: SubscriberStatus | null
    to: SubscriberStatus | null
  },
): Promise<void> {
  const { organizationId, listId, from, to } = move
  if (from === to) return
  const changes = noStatusChanges()
  if (from !== null) changes[from] -= 1
  if (to !== null) changes[to] += 1
  await collections.subscriberCounts.updateOne(
    { _id: `${listId}:a${Math.floor(Math.random() * stripes)}` },
    { $inc: changes, $setOnInsert: { organization_id: organizationId, mailing_list_id: listId } },
    { session, upsert: true },
  )
}

class NoPlace extends Error {
  readonly isFull: boolean

  constructor(isFull: boolean) {
    super('no place is free under the subscriber limit')
    this.isFull = isFull
  }
}

async function takePlaceOrThrow(
  { collections }: Database,
  session: ClientSession,
  organizationId: number,
): Promise<void> {
  const place = await takePlace(collections, session, organizationId)
  if (place !== 'taken') throw new NoPlace(place === 'full')
}

const pauseMs = 50
const patienceMs = 20_000

/** Places that imports hold may come back in a moment: a write is over the limit when active subscribers fill it. */
async function waitingForPlaces(
  { client }: Database,
  write: (session: ClientSession) => Promise<SubscriberWrite>,
): Promise<SubscriberWrite> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    try {
      return await inTransaction(client, write)
    } catch (error) {
      if (!(error instanceof NoPlace)) throw error
      if (error.isFull) return 'over_limit'
      if (performance.now() > deadline) return 'busy'
      await sleep(pauseMs * (0.5 + Math.random()))
    }
  }
}
