import type { ClientSession } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import type { SubscriberDocument, SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'
import { leaveLists } from '../../../shared/store/leaving-subscribers.ts'
import { addMove, changeCounts, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import type { EventAutoresponder } from './event-autoresponders.ts'
import type { RecordedEvent } from './schemas.ts'

/** The subscribers of a call's events, and the changes of their statuses. */
export class Recipients {
  readonly #known = new Map<number, Recipient>()
  /** The subscribers that left in this call, by list. */
  readonly #left = new Map<number, { organizationId: number; recipients: Recipient[] }>()

  /** Reads the subscribers of these mails in the transaction, deleted ones included. */
  static async read(
    { collections }: Database,
    session: ClientSession,
    wanted: readonly { autoresponder: EventAutoresponder; subscriberId: number }[],
  ): Promise<Recipients> {
    const recipients = new Recipients()
    const missing = new Set(wanted.map(({ subscriberId }) => subscriberId))
    if (missing.size === 0) return recipients
    const byList = [...Map.groupBy(wanted, ({ autoresponder }) => autoresponder.listId)]
    const found = collections.subscribers.find(
      {
        $or: byList.map(([listId, ofList]) => ({
          mailing_list_id: listId,
          id: { $in: [...new Set(ofList.map(({ subscriberId }) => subscriberId))] },
        })),
      },
      {
        session,
        projection: { id: 1, mailing_list_id: 1, status: 1, reactivations: 1 },
        batchSize: missing.size + 1,
      },
    )
    for await (const subscriber of found) {
      recipients.#known.set(subscriber.id, subscriber)
      missing.delete(subscriber.id)
    }
    if (missing.size === 0) return recipients
    const deleted = collections.deletedSubscribers.find({ _id: { $in: [...missing] } }, { session })
    for await (const { _id: id, mailing_list_id } of deleted)
      recipients.#known.set(id, { _id: '', id, mailing_list_id, status: 'deactivated' })
    return recipients
  }

  /** Whether a subscriber is or was on a list. */
  isKnown(id: number, listId: number): boolean {
    return this.#known.get(id)?.mailing_list_id === listId
  }

  /** Undefined when the subscriber isn't active, or is deleted. */
  findActive(id: number): Readonly<Recipient> | undefined {
    const recipient = this.#known.get(id)
    return recipient?.status === 'active' ? recipient : undefined
  }

  /** Gives an active subscriber its new status. False when the subscriber isn't active. */
  markLeft(id: number, status: SubscriberStatus, organizationId: number): boolean {
    const recipient = this.#known.get(id)
    if (recipient?.status !== 'active') return false
    recipient.status = status
    const left = this.#left.get(recipient.mailing_list_id) ?? { organizationId, recipients: [] }
    left.recipients.push(recipient)
    this.#left.set(recipient.mailing_list_id, left)
    return true
  }

  /** Writes the new statuses and their counts, and drops the queued reactions of these subscribers. */
  async write(database: Database, session: ClientSession): Promise<void> {
    if (this.#left.size === 0) return
    const { collections } = database
    const allLeft = [...this.#left.values()].flatMap(({ recipients }) => recipients)
    await leaveLists(collections, session, {
      byStatus: Map.groupBy(allLeft, (recipient) => recipient.status),
      listIds: [...this.#left.keys()],
      leftAt: clock.now(),
    })
    for (const [listId, { organizationId, recipients }] of this.#left) {
      const changes = noStatusCounts()
      for (const { status } of recipients) addMove(changes, 'active', status)
      await changeCounts(database, session, { organizationId, listId, changes })
    }
  }
}

export type Recipient = Pick<
  SubscriberDocument,
  '_id' | 'id' | 'mailing_list_id' | 'status' | 'reactivations'
>

/** The status of an active subscriber after an event; null when it stays active. */
export function statusAfter(event: RecordedEvent): SubscriberStatus | null {
  if (event.type === 'unsubscribed') return 'unsubscribed'
  if (event.type === 'complained') return 'scomp'
  return event.type === 'bounced' && event.bounce_type === 'hard' ? 'bounced' : null
}
