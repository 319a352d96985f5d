import type { Collection, Filter } from 'mongodb'
import {
  hasContent,
  type AutoresponderDocument,
  type ReactionDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type {
  ConfirmationFormDocument,
  PendingSubscriberDocument,
} from '../../../shared/contract/schemas/confirmation.ts'
import type { OutboxDocument } from '../../../shared/contract/schemas/outbox.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { stillConfirmable } from '../../store/pending-subscribers.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import { unsubscribeToken } from '../../api/signed-token.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { listWithContext, type SubscriberList } from '../subscribers/service.ts'
import { toView } from '../subscribers/view.ts'
import type { MessageView } from './schemas.ts'

/** What becomes of messages that were taken: read now, so texts, addresses and subscribers are today's. */
export interface Composed {
  toHandOut: MessageView[]
  /** Of an autoresponder that was paused meanwhile. */
  toGiveBack: OutboxDocument[]
  /** To somebody who isn't subscribed any more, or a confirmation that nobody waits for. */
  toDrop: OutboxDocument[]
}

export async function composeMessages(
  deps: ControlPlane,
  messages: readonly OutboxDocument[],
): Promise<Composed> {
  const sources = await readSources(deps, messages)
  const composed: Composed = { toHandOut: [], toGiveBack: [], toDrop: [] }
  for (const message of messages) {
    const view =
      message.kind === 'confirmation'
        ? confirmation(deps, message, sources)
        : reactionMail(deps, message, sources)
    if (view === 'give back') composed.toGiveBack.push(message)
    else if (view === 'drop') composed.toDrop.push(message)
    else composed.toHandOut.push(view)
  }
  return composed
}

interface Sources {
  lists: Map<number, SubscriberList>
  autoresponders: Map<number, AutoresponderDocument>
  reactions: Map<string, ReactionDocument>
  subscribers: Map<number, SubscriberDocument>
  pending: Map<string, PendingSubscriberDocument>
  forms: Map<number, ConfirmationFormDocument>
}

async function readSources(deps: ControlPlane, messages: readonly OutboxDocument[]): Promise<Sources> {
  const { collections } = deps.database
  const listIds = distinct(messages.map((message) => message.mailing_list_id))
  const [lists, autoresponders, reactions, subscribers, pending] = await Promise.all([
    // A list that became a Remote List meanwhile holds up nobody: what is due on it goes out.
    Promise.all(listIds.map((id) => listWithContext(deps.database, id))),
    byKey(collections.autoresponders, distinct(messages.map((message) => message.autoresponder_id))),
    byKey(collections.reactions, distinct(messages.map((message) => message.reaction))),
    Promise.all(
      listIds.map((listId) =>
        collections.subscribers
          .find({
            mailing_list_id: listId,
            id: {
              $in: distinct(
                messages
                  .filter((message) => message.mailing_list_id === listId)
                  .map((message) => message.subscriber_id),
              ),
            },
          })
          .toArray(),
      ),
    ),
    byKey(
      collections.pendingSubscribers,
      distinct(messages.map((message) => message.pending_subscriber)),
      stillConfirmable,
    ),
  ])
  const forms = await byKey(
    collections.confirmationForms,
    distinct([...pending.values()].map(({ confirmation_form_id: formId }) => formId)),
  )
  return {
    lists: new Map(lists.filter((context) => context !== null).map((context) => [context.list._id, context])),
    autoresponders,
    reactions,
    subscribers: new Map(subscribers.flat().map((subscriber) => [subscriber.id, subscriber])),
    pending,
    forms,
  }
}

async function byKey<T extends { _id: string | number }>(
  collection: Collection<T>,
  keys: T['_id'][],
  condition: object = {},
): Promise<Map<T['_id'], T>> {
  if (keys.length === 0) return new Map()
  const filter = { _id: { $in: keys }, ...condition } as unknown as Filter<T>
  const found = (await collection.find(filter).toArray()) as unknown as T[]
  return new Map(found.map((document) => [document._id, document]))
}

const distinct = <T>(values: readonly (T | null)[]): T[] => [
  ...new Set(values.filter((value): value is T => value !== null)),
]

function reactionMail(
  { keyHashSecret }: ControlPlane,
  message: OutboxDocument,
  sources: Sources,
): MessageView | 'give back' | 'drop' {
  const autoresponder = sources.autoresponders.get(message.autoresponder_id!)
  const reaction = sources.reactions.get(message.reaction!)
  const subscriber = sources.subscribers.get(message.subscriber_id!)
  if (autoresponder === undefined || reaction === undefined || subscriber === undefined) return 'drop'
  if (!hasContent(autoresponder)) return 'drop'
  // Acknowledged or dropped, by a process that ended before it removed the message.
  if (reaction.state !== 'due') return 'drop'
  // Who left and came back gets what comes from then on.
  if (subscriber.status !== 'active' || subscriber.reactivations !== reaction.reactivations) return 'drop'
  if (autoresponder.paused) return 'give back'
  const context = sources.lists.get(message.mailing_list_id)!
  return {
    ...common(message, context),
    to: subscriber.email,
    subscriber: toView(subscriber, context),
    from_name: autoresponder.from_name,
    from_email: autoresponder.from_email,
    reply_to: autoresponder.reply_to,
    subject: autoresponder.content_subject,
    format: autoresponder.content_format,
    html: autoresponder.content_html,
    text: autoresponder.content_text,
    fields: reaction.fields ?? {},
    raw_fields: reaction.raw_fields ?? {},
    unsubscribe_token: unsubscribeToken(keyHashSecret, {
      listId: message.mailing_list_id,
      subscriberId: subscriber.id,
      messageId: String(message._id),
    }),
    confirmation_url: null,
  }
}

function confirmation(deps: ControlPlane, message: OutboxDocument, sources: Sources): MessageView | 'drop' {
  const pending = sources.pending.get(message.pending_subscriber!)
  const form = pending === undefined ? undefined : sources.forms.get(pending.confirmation_form_id)
  // Its link leads nowhere any more, or a later mail went out in its stead.
  if (pending === undefined || form === undefined || pending.message_id !== message._id) return 'drop'
  return {
    ...common(message, sources.lists.get(message.mailing_list_id)!),
    to: pending.subscriber.email,
    subscriber: null,
    from_name: form.from_name,
    from_email: form.from_email,
    reply_to: null,
    subject: form.subject,
    format: 'both',
    html: form.html,
    text: form.text,
    fields: {},
    raw_fields: {},
    unsubscribe_token: null,
    confirmation_url: `${deps.publicUrl()}/confirm/${pending.token}`,
  }
}

const common = (message: OutboxDocument, { zone }: SubscriberList) => ({
  id: message._id,
  lease_token: message.lease_token!,
  kind: message.kind,
  organization_id: message.organization_id,
  mailing_list_id: message.mailing_list_id,
  autoresponder_id: message.autoresponder_id,
  due_at: formatInstant(message.due_at, zone),
})
