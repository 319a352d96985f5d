import {
  hasContent,
  type AutoresponderDocument,
  type ReactionDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type {
  ConfirmationFormDocument,
  PendingSubscriberDocument,
} from '../../../shared/contract/schemas/confirmation.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { stillConfirmable } from '../../store/pending-subscribers.ts'
import { listWithContext, type SubscriberList } from '../subscribers/service.ts'
import type { MessageView } from './schemas.ts'
import { toConfirmationView, toReactionView, type LeasedMessage } from './view.ts'

/** The messages of a lease by what happens to them now. */
interface Composed {
  toHandOut: { message: ReactionDocument; view: MessageView }[]
  /** Their autoresponder was paused meanwhile. */
  toGiveBack: ReactionDocument[]
  /** The recipient is no longer subscribed, or the confirmation is no longer needed. */
  toDrop: ReactionDocument[]
}

/** Reads texts, addresses and subscribers now, so that mails have their current state and not that of the queueing. */
export async function composeMessages(
  deps: ControlPlane,
  messages: readonly ReactionDocument[],
  leaseToken: string,
): Promise<Composed> {
  const sources = await readSources(deps, messages)
  const composed: Composed = { toHandOut: [], toGiveBack: [], toDrop: [] }
  for (const message of messages) {
    const list = sources.lists.get(message.mailing_list_id)
    const leased = list && { message, list, leaseToken }
    const view =
      leased === undefined
        ? 'drop'
        : message.pending_subscriber !== undefined
          ? confirmation(deps, leased, sources)
          : reactionMail(deps, leased, sources)
    if (view === 'give back') composed.toGiveBack.push(message)
    else if (view === 'drop') composed.toDrop.push(message)
    else composed.toHandOut.push({ message, view })
  }
  return composed
}

interface Sources {
  lists: Map<number, SubscriberList>
  autoresponders: Map<number, AutoresponderDocument>
  // A message without such a source has none of their ids.
  subscribers: Map<number | null, SubscriberDocument>
  pending: Map<string | undefined, PendingSubscriberDocument>
  forms: Map<number, ConfirmationFormDocument>
}

async function readSources(deps: ControlPlane, messages: readonly ReactionDocument[]): Promise<Sources> {
  const { collections } = deps.database
  const listIds = distinct(messages.map((message) => message.mailing_list_id))
  const [lists, autoresponders, subscribers, pending] = await Promise.all([
    // A list that became a Remote List meanwhile blocks no other: its due messages are sent.
    Promise.all(listIds.map((id) => listWithContext(deps, id))),
    readById(distinct(messages.map((message) => message.autoresponder_id)), (ids) =>
      collections.autoresponders.find({ _id: { $in: ids } }).toArray(),
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

const distinct = <T>(values: readonly (T | null | undefined)[]): T[] => [
  ...new Set(values.filter((value): value is T => value !== null && value !== undefined)),
]

function reactionMail(
  { keyHashSecret }: ControlPlane,
  leased: LeasedMessage,
  sources: Sources,
): MessageView | 'give back' | 'drop' {
  const { message } = leased
  const autoresponder = sources.autoresponders.get(message.autoresponder_id)
  const subscriber = sources.subscribers.get(message.subscriber_id)
  if (autoresponder === undefined || subscriber === undefined) return 'drop'
  if (!hasContent(autoresponder)) return 'drop'
  // A subscriber that left and came back gets only reactions queued since.
  if (subscriber.status !== 'active' || subscriber.reactivations !== message.reactivations) return 'drop'
  if (autoresponder.paused) return 'give back'
  return toReactionView(leased, { autoresponder, subscriber }, keyHashSecret)
}

function confirmation(deps: ControlPlane, leased: LeasedMessage, sources: Sources): MessageView | 'drop' {
  const { message } = leased
  const pending = sources.pending.get(message.pending_subscriber)
  const form = pending === undefined ? undefined : sources.forms.get(pending.confirmation_form_id)
  // Its link has expired or was used, or a later mail has replaced it.
  if (pending === undefined || form === undefined || pending.message_id !== message.id) return 'drop'
  return toConfirmationView(leased, { pending, form }, deps.publicUrl())
}
