import { createHash } from 'node:crypto'
import type { ClientSession } from 'mongodb'
import type { Database } from '../../../shared/runtime/database.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import {
  deliveryMessageKey,
  type DeliveryMessageDocument,
} from '../../../shared/contract/schemas/delivery.ts'
import { zoneOffsetMs } from '../../../shared/values/time-zone.ts'
import {
  addToDays,
  insertDeliveryEvents,
  writeClickedLinks,
  writeDeliveryMessages,
} from '../../store/delivery.ts'
import { Answers } from './answers.ts'
import { DayCounts } from './counts.ts'
import { applyEvent, earlier, unknownMessage } from './message-state.ts'
import { Recipients, statusAfter } from './recipients.ts'
import type { RecordedEvent } from './schemas.ts'
import type { EventAutoresponder } from './event-autoresponders.ts'

/**
 * Records events with all their effects in one transaction, in the order in which they came. The state of a message is
 * read in the transaction, so concurrent calls with events of one message conflict and run one after the other.
 */

export interface ReportedEvent {
  event: RecordedEvent
  /** Null for a confirmation mail, whose events are stored and not counted. */
  recipient: { autoresponder: EventAutoresponder; subscriberId: number } | null
  /** Set when the event's effect on the subscriber's status was written before. */
  hasMoved?: boolean
}

export interface RecordResult {
  accepted: number
  duplicates: number
  /** Events of subscribers that never were on the list. */
  ignored: number
  /** Autoresponders with new reactions, and their time zones. */
  triggered: Map<number, string>
}

interface MessageEvent {
  event: RecordedEvent
  autoresponder: EventAutoresponder
  subscriberId: number
  key: string
  hasMoved?: boolean
}

/**
 * Runs in the caller's transaction. Repeated events, and events of unknown subscribers, change nothing and are counted
 * in the result. Errors of MongoDB pass through, and end the transaction or start it again.
 */
export async function recordEvents(
  database: Database,
  session: ClientSession,
  reported: readonly ReportedEvent[],
): Promise<RecordResult> {
  const { collections } = database
  const recipients = await Recipients.read(
    database,
    session,
    reported.flatMap(({ recipient }) => recipient ?? []),
  )
  const known = reported.filter(
    ({ recipient }) =>
      recipient === null || recipients.isKnown(recipient.subscriberId, recipient.autoresponder.listId),
  )
  const fresh = await withoutDuplicates(collections, session, known)
  const messageEvents = fresh.flatMap(({ recipient, ...rest }): MessageEvent[] => {
    if (recipient === null) return []
    const key = deliveryMessageKey(recipient.autoresponder.id, recipient.subscriberId, rest.event.message_id)
    return [{ ...rest, ...recipient, key }]
  })
  const messages = await Messages.read(collections, session, messageEvents)
  const dayCounts = new DayCounts()
  const answers = new Answers()

  for (const messageEvent of messageEvents) {
    const { event, autoresponder, subscriberId, hasMoved } = messageEvent
    const day = localDay(event.occurred_at, autoresponder.zone)
    if (event.type === 'skipped') {
      dayCounts.count(autoresponder.id, day, `skips_${event.reason}`)
      continue
    }
    const status = statusAfter(event)
    const leaves = status !== null && recipients.markLeft(subscriberId, status, autoresponder.organizationId)
    if (leaves) answers.cancel(subscriberId)
    const message = messages.get(messageEvent)
    const isFirstSent = event.type === 'sent' && message.sent_day === null
    const isNewLink = event.type === 'clicked' && messages.addClick(messageEvent, event)
    applyEvent(message, event, { day, isNewLink, moves: hasMoved ?? leaves })
    const subscriber = recipients.findActive(subscriberId)
    if (subscriber !== undefined)
      answers.add(event, {
        autoresponder,
        subscriber,
        message,
        isFirstSent,
        clickedAt: (answering) =>
          answering.trigger_autoresponder_to_click_on_any_url === true
            ? message.clicked_at
            : messages.earliestClick(messageEvent, answering.trigger_autoresponder_to_click_urls ?? []),
      })
  }
  for (const { autoresponderId, before, after } of messages.states())
    dayCounts.replace(autoresponderId, before, after)

  await insertDeliveryEvents(
    collections,
    fresh.map(({ event }) => event),
    session,
  )
  await messages.write(collections, session)
  await recipients.write(database, session)
  const triggered = await answers.write(database, session)
  await addToDays(database, session, dayCounts)
  return {
    accepted: fresh.length,
    duplicates: known.length - fresh.length,
    ignored: reported.length - known.length,
    triggered,
  }
}

/** The events whose id is new: neither stored nor earlier in this call. */
async function withoutDuplicates(
  { deliveryEvents }: Collections,
  session: ClientSession,
  reported: readonly ReportedEvent[],
): Promise<ReportedEvent[]> {
  if (reported.length === 0) return []
  const stored = await deliveryEvents
    .find(
      { _id: { $in: reported.map(({ event }) => event._id) } },
      { session, projection: { _id: 1 }, batchSize: reported.length + 1 },
    )
    .toArray()
  const ids = new Set(stored.map(({ _id }) => _id))
  return reported.filter(({ event }) => ids.size < ids.add(event._id).size)
}

/** YYYYMMDD of an instant in a zone. */
export function localDay(instant: Date, zone: string): number {
  const local = new Date(instant.getTime() + zoneOffsetMs(zone, instant.getTime()))
  return (local.getUTCFullYear() * 100 + local.getUTCMonth() + 1) * 100 + local.getUTCDate()
}

const clickedLinkKey = (messageKey: string, url: string): string =>
  `${messageKey}:${createHash('sha256').update(url).digest('base64url')}`

interface MessageState {
  autoresponderId: number
  isStored: boolean
  before: DeliveryMessageDocument
  after: DeliveryMessageDocument
}

interface Click {
  at: Date
  change: 'none' | 'new' | 'earlier'
}

/** The messages of a call: their stored states, and the states after its events. */
class Messages {
  readonly #stored: ReadonlyMap<string, DeliveryMessageDocument>
  readonly #states = new Map<string, MessageState>()
  /** The earliest click of each link, by clickedLinkKey. */
  readonly #clicks: Map<string, Click>

  private constructor(stored: ReadonlyMap<string, DeliveryMessageDocument>, clicks: Map<string, Click>) {
    this.#stored = stored
    this.#clicks = clicks
  }

  static async read(
    { deliveryMessages, clickedLinks }: Collections,
    session: ClientSession,
    events: readonly MessageEvent[],
  ): Promise<Messages> {
    const keys = new Set(events.map(({ key }) => key))
    const stored =
      keys.size === 0
        ? []
        : await deliveryMessages
            .find({ _id: { $in: [...keys] } }, { session, batchSize: keys.size + 1 })
            .toArray()
    const links = new Set(events.flatMap(neededLinks))
    const clicked =
      links.size === 0
        ? []
        : await clickedLinks
            .find({ _id: { $in: [...links] } }, { session, batchSize: links.size + 1 })
            .toArray()
    return new Messages(
      new Map(stored.map((message) => [message._id, message])),
      new Map(clicked.map(({ _id, clicked_at: at }) => [_id, { at, change: 'none' }])),
    )
  }

  /** The state so far, which the caller changes in place. */
  get({ key, autoresponder }: MessageEvent): DeliveryMessageDocument {
    const known = this.#states.get(key)
    if (known !== undefined) return known.after
    const stored = this.#stored.get(key)
    const before = stored ?? unknownMessage(key)
    const after = { ...before }
    this.#states.set(key, {
      autoresponderId: autoresponder.id,
      isStored: stored !== undefined,
      before,
      after,
    })
    return after
  }

  /** Returns whether it is the first click on its link. */
  addClick({ key }: MessageEvent, { url, occurred_at: at }: { url: string; occurred_at: Date }): boolean {
    const link = clickedLinkKey(key, url)
    const known = this.#clicks.get(link)
    if (known === undefined) this.#clicks.set(link, { at, change: 'new' })
    else if (at < known.at)
      this.#clicks.set(link, { at, change: known.change === 'none' ? 'earlier' : known.change })
    return known === undefined
  }

  /** The earliest click on one of these links; null without a click. */
  earliestClick({ key }: MessageEvent, urls: readonly string[]): Date | null {
    const times = urls.flatMap((url) => this.#clicks.get(clickedLinkKey(key, url))?.at ?? [])
    return times.length === 0 ? null : times.reduce(earlier)
  }

  states(): Iterable<MessageState> {
    return this.#states.values()
  }

  async write(collections: Collections, session: ClientSession): Promise<void> {
    const states = [...this.#states.values()]
    await writeDeliveryMessages(
      collections,
      {
        added: states.filter(({ isStored }) => !isStored).map(({ after }) => after),
        changed: states.filter(({ isStored }) => isStored).map(({ after }) => after),
      },
      session,
    )
    const clicks = (wanted: 'new' | 'earlier') =>
      [...this.#clicks].flatMap(([link, { at, change }]) =>
        change === wanted ? [{ _id: link, clicked_at: at }] : [],
      )
    await writeClickedLinks(collections, { added: clicks('new'), earlier: clicks('earlier') }, session)
  }
}

/** The links whose clicks must be known for an event: a click's own, and for `sent` those that answering autoresponders name. */
function neededLinks({ event, autoresponder, key }: MessageEvent): string[] {
  if (event.type === 'clicked') return [clickedLinkKey(key, event.url)]
  if (event.type !== 'sent') return []
  return autoresponder.answering
    .filter(({ trigger }) => trigger === 'autoresponder_nonclick')
    .flatMap((answering) => answering.trigger_autoresponder_to_click_urls ?? [])
    .map((url) => clickedLinkKey(key, url))
}
