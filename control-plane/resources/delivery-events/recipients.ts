import type { ClientSession } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import type { DeliveryEventDocument } from '../../../shared/contract/schemas/delivery.ts'
import type { SubscriberDocument, SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'
import { dropReactionsOf } from '../../../shared/store/reactions.ts'
import { addMove, countMoves, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'

/** Whom a call's events are about, and what becomes of them by it. */
export class People {
  readonly #known = new Map<number, Person>()
  readonly #left: Person[] = []

  /** Inside a transaction: those with these ids on these lists, the deleted ones too. */
  static async read(
    { collections }: Database,
    session: ClientSession,
    wanted: ReadonlyMap<number, ReadonlySet<number>>,
  ): Promise<People> {
    const people = new People()
    const missing = new Set([...wanted.values()].flatMap((ids) => [...ids]))
    if (missing.size === 0) return people
    const found = collections.subscribers.find(
      { $or: [...wanted].map(([listId, ids]) => ({ mailing_list_id: listId, id: { $in: [...ids] } })) },
      {
        session,
        projection: { id: 1, mailing_list_id: 1, status: 1, reactivations: 1 },
        batchSize: missing.size + 1,
      },
    )
    for await (const subscriber of found) {
      people.#known.set(subscriber.id, { ...subscriber, isDeleted: false })
      missing.delete(subscriber.id)
    }
    if (missing.size === 0) return people
    const deleted = collections.deletedSubscribers.find({ _id: { $in: [...missing] } }, { session })
    for await (const { _id: id, mailing_list_id } of deleted)
      people.#known.set(id, { _id: '', id, mailing_list_id, status: 'deactivated', isDeleted: true })
    return people
  }

  /** Whether a subscriber is, or was, on a list. */
  isKnown(id: number, listId: number): boolean {
    return this.#known.get(id)?.mailing_list_id === listId
  }

  /** Undefined for who isn't active, or is deleted. */
  active(id: number): Readonly<Person> | undefined {
    const person = this.#known.get(id)
    return person?.status === 'active' ? person : undefined
  }

  /** Makes somebody who is active leave. Tells whether that was so. */
  leave(id: number, status: SubscriberStatus): boolean {
    const person = this.#known.get(id)
    if (person?.status !== 'active') return false
    person.status = status
    this.#left.push(person)
    return true
  }

  /** Writes who left, counts it, and drops what was queued for them. */
  async write(
    database: Database,
    session: ClientSession,
    organizationOf: (listId: number) => number,
  ): Promise<void> {
    if (this.#left.length === 0) return
    const { collections } = database
    const now = clock.now()
    for (const [status, people] of Map.groupBy(this.#left, (person) => person.status))
      await collections.subscribers.updateMany(
        { _id: { $in: people.map(({ _id }) => _id) } },
        { $set: { status, remove_time: now } },
        { session },
      )
    for (const [listId, people] of Map.groupBy(this.#left, (person) => person.mailing_list_id)) {
      const changes = noStatusCounts()
      for (const { status } of people) addMove(changes, 'active', status)
      await countMoves(database, session, { organizationId: organizationOf(listId), listId, changes })
    }
    await dropReactionsOf(
      collections,
      session,
      this.#left.map(({ id }) => id),
    )
  }
}

export type Person = Pick<
  SubscriberDocument,
  '_id' | 'id' | 'mailing_list_id' | 'status' | 'reactivations'
> & { isDeleted: boolean }

/** What an event makes of an active subscriber; null for nothing. */
export function statusAfter(event: DeliveryEventDocument): SubscriberStatus | null {
  if (event.type === 'unsubscribed') return 'unsubscribed'
  if (event.type === 'complained') return 'scomp'
  return event.type === 'bounced' && event.bounce_type === 'hard' ? 'bounced' : null
}
