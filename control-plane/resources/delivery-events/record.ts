import { createHash } from 'node:crypto'
import type { AnyBulkWriteOperation, ClientSession } from 'mongodb'
import type { Database } from '../../../shared/runtime/database.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import {
  deliveryMessageKey,
  type DeliveryEventDocument,
  type DeliveryMessageDocument,
} from '../../../shared/contract/schemas/delivery.ts'
import { zoneOffsetMs } from '../../../shared/values/time-zone.ts'
import { Answers } from './answers.ts'
import { DayCounts, writeStats } from './counts.ts'
import { earlier, noteEvent, unknownMessage } from './message-state.ts'
import { People, statusAfter } from './people.ts'
import type { Sender } from './senders.ts'

/**
 * Events, in the order in which they came, in one transaction: they and all that follows from them are there together
 * or not at all. What a message was before is read in it, so calls that bring events of one message take turns.
 */

export interface ToldEvent {
  event: DeliveryEventDocument
  /** Null for a confirmation's, which count nowhere. */
  sender: Sender | null
  /** Its subscriber was made to leave by it already. */
  hasMoved?: boolean
}

export interface Recorded {
  accepted: number
  duplicates: number
  /** Of nobody who ever was on the list. */
  ignored: number
  /** Autoresponders of which reactions were queued, with their zones. */
  triggered: Map<number, string>
}

type MessageEvent = ToldEvent & { sender: Sender; key: string }

/**
 * In the caller's transaction. What was told before, or is of nobody who was ever on the list, changes nothing and is
 * counted. Throws MongoDB's errors, which end the transaction or begin it anew.
 */
export async function recordEvents(
  database: Database,
  session: ClientSession,
  told: readonly ToldEvent[],
): Promise<Recorded> {
  const { collections } = database
  const people = await readPeople(database, session, told)
  const known = told.filter(
    ({ event, sender }) => sender === null || people.isKnown(event.subscriber_id!, sender.listId),
  )
  const fresh = await withoutRepeated(collections, session, known)
  const ofMessages = fresh.flatMap(({ sender, ...rest }): MessageEvent[] =>
    sender === null ? [] : [{ ...rest, sender, key: messageKeyOf(rest.event) }],
  )
  const messages = await Messages.read(collections, session, ofMessages)
  const dayCounts = new DayCounts()
  const answers = new Answers()

  for (const { event, sender, key, hasMoved } of ofMessages) {
    const day = localDay(event.occurred_at, sender.zone)
    if (event.type === 'skipped') {
      dayCounts.count(sender.id, day, `skips_${event.reason!}`)
      continue
    }
    const subscriberId = event.subscriber_id!
    const status = statusAfter(event)
    const leaves = status !== null && people.leave(subscriberId, status)
    if (leaves) answers.forget(subscriberId)
    const message = messages.at(key)
    const isFirstSent = event.type === 'sent' && message.sent_day === null
    const isNewLink = event.type === 'clicked' && messages.noteClick(key, event)
    noteEvent(message, event, { day, isNewLink, moves: hasMoved ?? leaves })
    const subscriber = people.active(subscriberId)
    if (subscriber !== undefined)
      answers.note(event, {
        sender,
        subscriber,
        message,
        isFirstSent,
        clickedAt: (trigger) =>
          trigger.trigger_autoresponder_to_click_on_any_url === true
            ? message.clicked_at
            : messages.clickedAt(key, trigger.trigger_autoresponder_to_click_urls ?? []),
      })
  }
  for (const { autoresponderId, before, after } of messages.changed())
    dayCounts.replace(autoresponderId, before, after)

  if (fresh.length > 0)
    await collections.deliveryEvents.insertMany(
      fresh.map(({ event }) => event),
      { session, ordered: false },
    )
  await messages.write(collections, session)
  const lists = new Map(ofMessages.map(({ sender }) => [sender.listId, sender.organizationId]))
  await people.write(database, session, (listId) => lists.get(listId)!)
  const triggered = await answers.write(database, session)
  await writeStats(collections, session, dayCounts)
  return {
    accepted: fresh.length,
    duplicates: known.length - fresh.length,
    ignored: told.length - known.length,
    triggered,
  }
}

function readPeople(database: Database, session: ClientSession, told: readonly ToldEvent[]): Promise<People> {
  const wanted = new Map<number, Set<number>>()
  for (const { event, sender } of told) {
    if (sender === null) continue
    const ids = wanted.get(sender.listId) ?? new Set<number>()
    wanted.set(sender.listId, ids.add(event.subscriber_id!))
  }
  return People.read(database, session, wanted)
}

/** Those whose id wasn't told before, neither in an earlier call nor earlier in this one. */
async function withoutRepeated(
  { deliveryEvents }: Collections,
  session: ClientSession,
  told: readonly ToldEvent[],
): Promise<ToldEvent[]> {
  if (told.length === 0) return []
  const seen = await idsOf(
    deliveryEvents,
    session,
    told.map(({ event }) => event._id),
  )
  return told.filter(({ event }) => seen.size < seen.add(event._id).size)
}

async function idsOf(
  collection: Collections['deliveryEvents'],
  session: ClientSession,
  ids: readonly string[],
): Promise<Set<string>> {
  const found = await collection
    .find({ _id: { $in: [...ids] } }, { session, projection: { _id: 1 }, batchSize: ids.length + 1 })
    .toArray()
  return new Set(found.map(({ _id }) => _id))
}

/** YYYYMMDD of an instant in a zone. */
export function localDay(instant: Date, zone: string): number {
  const local = new Date(instant.getTime() + zoneOffsetMs(zone, instant.getTime()))
  return (local.getUTCFullYear() * 100 + local.getUTCMonth() + 1) * 100 + local.getUTCDate()
}

const messageKeyOf = (event: DeliveryEventDocument): string =>
  deliveryMessageKey(event.autoresponder_id!, event.subscriber_id!, event.message_id)

const clickedLinkKey = (messageKey: string, url: string): string =>
  `${messageKey}:${createHash('sha256').update(url).digest('base64url')}`

/** The messages of a call: what is stored of them, and what they become. */
class Messages {
  /** As they were, by key; without those that nothing was told of before. */
  readonly #stored: ReadonlyMap<string, DeliveryMessageDocument>
  readonly #now = new Map<string, DeliveryMessageDocument>()
  readonly #autoresponders: ReadonlyMap<string, number>
  /** The earliest click of each link that is known, by clickedLinkKey. */
  readonly #clicks: Map<string, Date>
  readonly #newClicks = new Set<string>()
  readonly #earlierClicks = new Set<string>()

  private constructor(
    events: readonly MessageEvent[],
    stored: ReadonlyMap<string, DeliveryMessageDocument>,
    clicks: Map<string, Date>,
  ) {
    this.#autoresponders = new Map(events.map(({ key, sender }) => [key, sender.id]))
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
    const links = new Set(events.flatMap(linksOf))
    const clicked =
      links.size === 0
        ? []
        : await clickedLinks
            .find({ _id: { $in: [...links] } }, { session, batchSize: links.size + 1 })
            .toArray()
    return new Messages(
      events,
      new Map(stored.map((message) => [message._id, message])),
      new Map(clicked.map(({ _id, clicked_at: at }) => [_id, at])),
    )
  }

  at(key: string): DeliveryMessageDocument {
    let message = this.#now.get(key)
    if (message === undefined)
      this.#now.set(key, (message = { ...(this.#stored.get(key) ?? unknownMessage(key)) }))
    return message
  }

  /** Whether it is the first click on its link. */
  noteClick(key: string, { url, occurred_at: at }: DeliveryEventDocument): boolean {
    const link = clickedLinkKey(key, url!)
    const known = this.#clicks.get(link)
    this.#clicks.set(link, earlier(known, at))
    if (known === undefined) this.#newClicks.add(link)
    else if (at < known && !this.#newClicks.has(link)) this.#earlierClicks.add(link)
    return known === undefined
  }

  /** The earliest click on one of these links; null for none. */
  clickedAt(key: string, urls: readonly string[]): Date | null {
    const times = urls.flatMap((url) => this.#clicks.get(clickedLinkKey(key, url)) ?? [])
    return times.length === 0 ? null : times.reduce(earlier)
  }

  *changed(): Generator<{
    autoresponderId: number
    before: DeliveryMessageDocument
    after: DeliveryMessageDocument
  }> {
    for (const [key, after] of this.#now)
      yield {
        autoresponderId: this.#autoresponders.get(key)!,
        before: this.#stored.get(key) ?? unknownMessage(key),
        after,
      }
  }

  async write({ deliveryMessages, clickedLinks }: Collections, session: ClientSession): Promise<void> {
    const fresh: DeliveryMessageDocument[] = []
    const updates: AnyBulkWriteOperation<DeliveryMessageDocument>[] = []
    for (const [key, message] of this.#now) {
      if (this.#stored.has(key)) updates.push({ replaceOne: { filter: { _id: key }, replacement: message } })
      else fresh.push(message)
    }
    if (fresh.length > 0) await deliveryMessages.insertMany(fresh, { session, ordered: false })
    if (updates.length > 0) await deliveryMessages.bulkWrite(updates, { session, ordered: false })
    const at = (link: string) => this.#clicks.get(link)!
    if (this.#newClicks.size > 0)
      await clickedLinks.insertMany(
        [...this.#newClicks].map((link) => ({ _id: link, clicked_at: at(link) })),
        { session, ordered: false },
      )
    if (this.#earlierClicks.size > 0)
      await clickedLinks.bulkWrite(
        [...this.#earlierClicks].map((link) => ({
          updateOne: { filter: { _id: link }, update: { $set: { clicked_at: at(link) } } },
        })),
        { session, ordered: false },
      )
  }
}

/** The links whose clicks an event asks about: its own; when a message is sent, those that triggers wait for. */
function linksOf({ event, sender, key }: MessageEvent): string[] {
  if (event.type === 'clicked') return [clickedLinkKey(key, event.url!)]
  if (event.type !== 'sent') return []
  return sender.triggers
    .filter(({ trigger }) => trigger === 'autoresponder_nonclick')
    .flatMap((trigger) => trigger.trigger_autoresponder_to_click_urls ?? [])
    .map((url) => clickedLinkKey(key, url))
}
