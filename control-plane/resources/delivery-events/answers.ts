import type { ClientSession } from 'mongodb'
import { nextIds, type Database } from '../../../shared/runtime/database.ts'
import { messageReactionId } from '../../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type {
  DeliveryEventDocument,
  DeliveryMessageDocument,
} from '../../../shared/contract/schemas/delivery.ts'
import { dropReactions, queueReactions } from '../../../shared/store/reactions.ts'
import { dueTime } from '../../../shared/values/due-time.ts'
import { earlier } from './message-state.ts'
import type { Person } from './people.ts'
import { asksAbout, type Sender, type Trigger } from './senders.ts'

/**
 * Which autoresponders answer the events of a call. Each answers a message once: its reaction's `_id` says so. Those
 * that wait for the absence of an open or a click are queued when the message is sent, and dropped by an open or click
 * that happened before they were due.
 */
export class Answers {
  readonly #queued = new Map<string, Answer>()
  /** When what they wait for didn't stay away, by the reaction's `_id`. */
  readonly #dropped = new Map<string, Date>()

  /** Notes what an event of a message to somebody active triggers. `clickedAt` is of the earliest click, of a link's. */
  note(event: DeliveryEventDocument, context: Context): void {
    const { sender, message, isFirstSent, clickedAt } = context
    for (const trigger of sender.triggers) {
      const answer = this.#answerOf(trigger, event, context)
      switch (trigger.trigger) {
        case 'autoresponder_send':
          if (isFirstSent) this.#queue(answer)
          break
        case 'autoresponder_open':
          if (event.type === 'opened') this.#queue(answer)
          break
        case 'autoresponder_click':
          if (event.type === 'clicked' && asksAbout(trigger, event.url!)) this.#queue(answer)
          break
        case 'autoresponder_nonopen':
          if (isFirstSent) this.#queueUnless(answer, message.opened_at)
          else if (event.type === 'opened') this.#drop(answer.key, event.occurred_at)
          break
        case 'autoresponder_nonclick':
          if (isFirstSent) this.#queueUnless(answer, clickedAt(trigger))
          else if (event.type === 'clicked' && asksAbout(trigger, event.url!))
            this.#drop(answer.key, event.occurred_at)
          break
        // Those answer nothing that becomes of another one's mail.
        case 'subscription':
        case 'api':
        case 'campaign_open':
        case 'campaign_click':
      }
    }
  }

  /** Nothing of this call answers who left in it. */
  forget(subscriberId: number): void {
    for (const [key, answer] of this.#queued)
      if (answer.subscriber.id === subscriberId) this.#queued.delete(key)
  }

  /** Resolves to the autoresponders of which reactions were queued, each with its organization's zone. */
  async write({ collections }: Database, session: ClientSession): Promise<Map<number, string>> {
    if (this.#dropped.size > 0) await this.#writeDropped(collections, session)
    if (this.#queued.size === 0) return new Map()
    const answers = [...this.#queued.values()]
    // Whoever is deleted or leaves at the same moment must meet this write, or would leave the reactions behind.
    await collections.subscribers.updateMany(
      { _id: { $in: [...new Set(answers.map(({ subscriber }) => subscriber._id))] } },
      { $inc: { reaction_requests: 1 } },
      { session },
    )
    const firstId = await nextIds(collections, 'reaction', answers.length)
    const queued = await queueReactions(
      collections,
      session,
      answers.map(({ trigger, sender, subscriber, messageId, causedAt }, i) => ({
        id: firstId + i,
        cause: { messageId },
        organizationId: sender.organizationId,
        subscriber,
        autoresponder: trigger,
        zone: sender.zone,
        causedAt,
      })),
    )
    const zones = new Map(answers.map(({ trigger, sender }) => [trigger._id, sender.zone]))
    return new Map(queued.map(({ autoresponder_id: id }) => [id, zones.get(id)!]))
  }

  async #writeDropped(collections: Collections, session: ClientSession): Promise<void> {
    const waiting = await collections.reactions
      .find(
        { _id: { $in: [...this.#dropped.keys()] }, state: { $in: ['queued', 'due'] } },
        { session, projection: { due_at: 1 } },
      )
      .toArray()
    const inTime = waiting.filter(({ _id, due_at: dueAt }) => this.#dropped.get(_id)! <= dueAt)
    if (inTime.length > 0)
      await dropReactions(
        collections,
        session,
        inTime.map(({ _id }) => _id),
      )
  }

  #answerOf(trigger: Trigger, event: DeliveryEventDocument, { sender, subscriber }: Context): Answer {
    // A sender whose clock is ahead holds nothing up.
    const causedAt = earlier(event.created_at, event.occurred_at)
    return {
      key: messageReactionId(subscriber.id, trigger._id, event.message_id),
      trigger,
      sender,
      subscriber,
      messageId: event.message_id,
      causedAt,
      dueAt: dueTime(trigger, causedAt, sender.zone),
    }
  }

  #queue(answer: Answer): void {
    this.#queued.set(answer.key, this.#queued.get(answer.key) ?? answer)
  }

  /** Unless what it waits for to stay away has come in time. */
  #queueUnless(answer: Answer, cameAt: Date | null): void {
    if (cameAt === null || cameAt > answer.dueAt) this.#queue(answer)
  }

  #drop(key: string, cameAt: Date): void {
    const answer = this.#queued.get(key)
    if (answer !== undefined) {
      if (cameAt <= answer.dueAt) this.#queued.delete(key)
    } else this.#dropped.set(key, earlier(this.#dropped.get(key), cameAt))
  }
}

interface Context {
  sender: Sender
  subscriber: Readonly<Person>
  /** With the event. */
  message: DeliveryMessageDocument
  /** The event is the message's first `sent`. */
  isFirstSent: boolean
  /** The earliest click of the message that a trigger asks about; null while there is none. */
  clickedAt: (trigger: Trigger) => Date | null
}

interface Answer {
  /** `_id` of its reaction. */
  key: string
  trigger: Trigger
  sender: Sender
  subscriber: Readonly<Person>
  messageId: string
  causedAt: Date
  dueAt: Date
}
