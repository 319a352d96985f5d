import type { ClientSession } from 'mongodb'
import { type Database } from '../../../shared/runtime/database.ts'
import { messageReactionId } from '../../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { DeliveryMessageDocument } from '../../../shared/contract/schemas/delivery.ts'
import { dropReactions, queueReactions, type ReactionToQueue } from '../../../shared/store/reactions.ts'
import { dueTime } from '../../../shared/values/due-time.ts'
import { bumpReactionRequests } from '../../store/subscribers.ts'
import { earlier } from './message-state.ts'
import type { Recipient } from './recipients.ts'
import type { RecordedEvent } from './schemas.ts'
import { concernsUrl, type EventAutoresponder, type Answering } from './event-autoresponders.ts'

/**
 * The reactions of autoresponders to the events of a call. An autoresponder answers a message once, which the `_id` of
 * its reaction ensures. Autoresponders for a missing open or click queue their reaction when the message is sent. An
 * open or click before the due time drops it.
 */
export class Answers {
  readonly #queued = new Map<string, Answer>()
  /** By the reaction's `_id`: the time of the open or click that drops it. */
  readonly #dropped = new Map<string, Date>()

  /** Adds what an event triggers; its subscriber must be active. */
  add(event: RecordedEvent, context: AnswerContext): void {
    const { autoresponder, message, isFirstSent, clickedAt } = context
    for (const answering of autoresponder.answering) {
      const answer = makeAnswer(answering, event, context)
      switch (answering.trigger) {
        case 'autoresponder_send':
          if (isFirstSent) this.#queue(answer)
          break
        case 'autoresponder_open':
          if (event.type === 'opened') this.#queue(answer)
          break
        case 'autoresponder_click':
          if (event.type === 'clicked' && concernsUrl(answering, event.url)) this.#queue(answer)
          break
        case 'autoresponder_nonopen':
          if (isFirstSent) this.#queueUnless(answer, message.opened_at)
          else if (event.type === 'opened') this.#drop(answer.key, event.occurred_at)
          break
        case 'autoresponder_nonclick':
          if (isFirstSent) this.#queueUnless(answer, clickedAt(answering))
          else if (event.type === 'clicked' && concernsUrl(answering, event.url))
            this.#drop(answer.key, event.occurred_at)
          break
        // These triggers don't depend on messages of another autoresponder.
        case 'subscription':
        case 'api':
        case 'campaign_open':
        case 'campaign_click':
      }
    }
  }

  /** Removes this call's answers to a subscriber that one of its events has made inactive. */
  cancel(subscriberId: number): void {
    for (const [key, answer] of this.#queued)
      if (answer.subscriber.id === subscriberId) this.#queued.delete(key)
  }

  /** Resolves to the autoresponders of the queued reactions, with their organizations' time zones. */
  async write({ collections, ids }: Database, session: ClientSession): Promise<Map<number, string>> {
    if (this.#dropped.size > 0) await this.#writeDropped(collections, session)
    if (this.#queued.size === 0) return new Map()
    const answers = [...this.#queued.values()]
    await bumpReactionRequests(collections, session, [
      ...new Set(answers.map(({ subscriber }) => subscriber._id)),
    ])
    const firstId = await ids.allocate('reaction', answers.length)
    const reactions = await queueReactions(
      collections,
      session,
      answers.map((answer, i) => ({ ...answer, id: firstId + i })),
    )
    const triggered = new Set(reactions.map(({ autoresponder_id: id }) => id))
    return new Map(
      answers
        .filter(({ autoresponder }) => triggered.has(autoresponder._id))
        .map(({ autoresponder, zone }) => [autoresponder._id, zone]),
    )
  }

  async #writeDropped(collections: Collections, session: ClientSession): Promise<void> {
    const waiting = await collections.reactions
      .find(
        { _id: { $in: [...this.#dropped.keys()] }, state: 'queued' },
        { session, projection: { due_at: 1 } },
      )
      .toArray()
    const droppedInTime = waiting.filter(({ _id, due_at: dueAt }) => {
      const occurredAt = this.#dropped.get(_id)
      return occurredAt !== undefined && occurredAt <= dueAt
    })
    if (droppedInTime.length > 0)
      await dropReactions(
        collections,
        session,
        droppedInTime.map(({ _id }) => _id),
      )
  }

  #queue(answer: Answer): void {
    this.#queued.set(answer.key, this.#queued.get(answer.key) ?? answer)
  }

  /** Queues unless the open or click that must not occur has occurred before the due time. */
  #queueUnless(answer: Answer, occurredAt: Date | null): void {
    if (occurredAt === null || occurredAt > answer.dueAt) this.#queue(answer)
  }

  #drop(key: string, occurredAt: Date): void {
    const answer = this.#queued.get(key)
    if (answer !== undefined) {
      if (occurredAt <= answer.dueAt) this.#queued.delete(key)
    } else this.#dropped.set(key, earlier(this.#dropped.get(key), occurredAt))
  }
}

function makeAnswer(
  answering: Answering,
  event: RecordedEvent,
  { autoresponder, subscriber }: AnswerContext,
): Answer {
  // When the mail sender's clock is ahead, the time of the request counts, so that no reaction is late.
  const causedAt = earlier(event.created_at, event.occurred_at)
  const { organizationId, zone } = autoresponder
  return {
    key: messageReactionId(subscriber.id, answering._id, event.message_id),
    cause: { messageId: event.message_id },
    organizationId,
    subscriber,
    autoresponder: answering,
    zone,
    causedAt,
    dueAt: dueTime(answering, causedAt, zone),
  }
}

interface AnswerContext {
  autoresponder: EventAutoresponder
  subscriber: Readonly<Recipient>
  /** The state after the event. */
  message: DeliveryMessageDocument
  /** Whether the event is the message's first `sent`. */
  isFirstSent: boolean
  /** The message's earliest click that concerns that autoresponder; null without one. */
  clickedAt: (answering: Answering) => Date | null
}

interface Answer extends Omit<ReactionToQueue, 'id'> {
  /** The `_id` of its reaction. */
  key: string
  subscriber: Readonly<Recipient>
  dueAt: Date
}
