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
import { formatInstant } from '../../../shared/values/time-zone.ts'
import { unsubscribeToken } from '../../api/signed-token.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { stillConfirmable } from '../../store/pending-subscribers.ts'
import { listWithContext, type SubscriberList } from '../subscribers/service.ts'
import { toView } from '../subscribers/view.ts'
import type { MessageView } from './schemas.ts'

/** The messages of a lease by what happens to them now. */
interface Composed {
  toHandOut: MessageView[]
  /** Their autoresponder was paused meanwhile. */
  toGiveBack: OutboxDocument[]
  /** The recipient is no longer subscribed, or the confirmation is no longer needed. */
  toDrop: OutboxDocument[]
}

/** Reads texts, addresses and subscribers now, so that mails have their current state and not that of the queueing. */
export async function composeMessages(
  deps: ControlPlane,
  messages: readonly OutboxDocument[],
  leaseToken: string,
): Promise<Composed> {
  const sources = await readSources(deps, messages)
  const composed: Composed = { toHandOut: [], toGiveBack: [], toDrop: [] }
  for (const message of messages) {
    const list = sources.lists.get(message.mailing_list_id)
    const common = list && commonFields(message, list, leaseToken)
    const view =
      common === undefined
        ? 'drop'
        : message.kind === 'confirmation'
          ? confirmation(deps, message, sources, common)
          : reactionMail(deps, message, sources, common)
    if (view === 'give back') composed.toGiveBack.push(message)
    else if (view === 'drop') composed.toDrop.push(message)
    else composed.toHandOut.push(view)
  }
  return composed
}

interface Sources {
  lists: Map<number, SubscriberList>
  // A message without such a source has null for its id.
  autoresponders: Map<number | null, AutoresponderDocument>
  reactions: Map<string | null, ReactionDocument>
  subscribers: Map<number | null, SubscriberDocument>
  pending: Map<string | null, PendingSubscriberDocument>
  forms: Map<number, ConfirmationFormDocument>
}

async function readSources(deps: ControlPlane, messages: readonly OutboxDocument[]): Promise<Sources> {
  const { collections } = deps.database
  const listIds = distinct(messages.map((message) => message.mailing_list_id))
  const [lists, autoresponders, reactions, subscribers, pending] = await Promise.all([
    // A list that became a Remote List meanwhile blocks no other: its due messages are sent.
    Promise.all(listIds.map((id) => listWithContext(deps, id))),
    readById(distinct(messages.map((message) => message.autoresponder_id)), (ids) =>
      collections.autoresponders.find({ _id: { $in: ids } }).toArray(),
    ),
    readById(distinct(messages.map((message) => message.reaction)), (ids) =>
      collections.reactions.find({ _id: { $in: ids } }).toArray(),
    ),
    Promise.all(
      [...Map.groupBy(messages, (message) => message.mailing_list_id)].map(([listId, ofList]) => {
        const ids = distinct(ofList.map((message) => message.subscriber_id))
        return collections.subscribers.find({ mailing_list_id: listId, id: { $in: ids } }).toArray()
      }),
    ),
    readById(distinct(messages.map((message) => message.pending_subscriber)), (ids) =>
      collections.pendingSubscribers.find({ _id: { $in: ids }, ...stillConfirmable }).toArray(),
    ),
  ])
  const forms = await readById(
    distinct([...pending.values()].map(({ confirmation_form_id: formId }) => formId)),
    (ids) => collections.confirmationForms.find({ _id: { $in: ids } }).toArray(),
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

async function readById<Id, T extends { _id: Id }>(
  ids: Id[],
  read: (ids: Id[]) => Promise<T[]>,
): Promise<Map<Id, T>> {
  if (ids.length === 0) return new Map()
  return new Map((await read(ids)).map((document) => [document._id, document]))
}

const distinct = <T>(values: readonly (T | null)[]): T[] => [
  ...new Set(values.filter((value): value is T => value !== null)),
]

function reactionMail(
  { keyHashSecret }: ControlPlane,
  message: OutboxDocument,
  sources: Sources,
  common: CommonFields,
): MessageView | 'give back' | 'drop' {
  const autoresponder = sources.autoresponders.get(message.autoresponder_id)
  const reaction = sources.reactions.get(message.reaction)
  const subscriber = sources.subscribers.get(message.subscriber_id)
  if (autoresponder === undefined || reaction === undefined || subscriber === undefined) return 'drop'
  if (!hasContent(autoresponder)) return 'drop'
  // It was acknowledged or dropped by a process that ended before it removed the message.
  if (reaction.state !== 'due') return 'drop'
  // A subscriber that left and came back gets only reactions queued since.
  if (subscriber.status !== 'active' || subscriber.reactivations !== reaction.reactivations) return 'drop'
  if (autoresponder.paused) return 'give back'
  return {
    ...common.fields,
    to: subscriber.email,
    subscriber: toView(subscriber, common.list),
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

function confirmation(
  deps: ControlPlane,
  message: OutboxDocument,
  sources: Sources,
  common: CommonFields,
): MessageView | 'drop' {
  const pending = sources.pending.get(message.pending_subscriber)
  const form = pending === undefined ? undefined : sources.forms.get(pending.confirmation_form_id)
  // Its link has expired or was used, or a later mail has replaced it.
  if (pending === undefined || form === undefined || pending.message_id !== message._id) return 'drop'
  return {
    ...common.fields,
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

type CommonFields = ReturnType<typeof commonFields>

const commonFields = (message: OutboxDocument, list: SubscriberList, leaseToken: string) => ({
  list,
  fields: {
    id: message._id,
    lease_token: leaseToken,
    kind: message.kind,
    organization_id: message.organization_id,
    mailing_list_id: message.mailing_list_id,
    autoresponder_id: message.autoresponder_id,
    due_at: formatInstant(message.due_at, list.zone),
  },
})
