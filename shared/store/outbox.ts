import type { ClientSession } from 'mongodb'
import type { ReactionDocument } from '../schemas/autoresponder.ts'
import type { Collections } from '../schemas/collections.ts'
import { queueOf, type OutboxDocument } from '../schemas/outbox.ts'

/** What waits for a mail sender: put in by the dispatcher of reactions and by requests for confirmation. */

const unleased = { state: 'ready', lease_token: null, leased_until: null } as const

/** The message of a reaction that is due. */
export const messageOfReaction = (
  reaction: Pick<
    ReactionDocument,
    '_id' | 'id' | 'organization_id' | 'mailing_list_id' | 'autoresponder_id' | 'subscriber_id' | 'due_at'
  >,
): OutboxDocument => ({
  _id: reaction.id,
  organization_id: reaction.organization_id,
  mailing_list_id: reaction.mailing_list_id,
  kind: 'autoresponder',
  queue: queueOf.autoresponder(reaction.autoresponder_id),
  autoresponder_id: reaction.autoresponder_id,
  subscriber_id: reaction.subscriber_id,
  reaction: reaction._id,
  pending_subscriber: null,
  due_at: reaction.due_at,
  ...unleased,
})

export interface Confirmation {
  /** From `nextIds(collections, 'reaction')`. */
  id: number
  organizationId: number
  listId: number
  /** `_id` of the pending subscriber: form, address and link are read from it when the message is handed out. */
  pendingSubscriber: string
}

/** The mail that asks somebody to confirm. With a session it is there when the transaction commits. */
export async function putConfirmation(
  { outbox }: Collections,
  { id, organizationId, listId, pendingSubscriber }: Confirmation,
  session?: ClientSession,
): Promise<void> {
  const message: OutboxDocument = {
    _id: id,
    organization_id: organizationId,
    mailing_list_id: listId,
    kind: 'confirmation',
    queue: queueOf.confirmations(organizationId),
    autoresponder_id: null,
    subscriber_id: null,
    reaction: null,
    pending_subscriber: pendingSubscriber,
    due_at: new Date(),
    ...unleased,
  }
  await outbox.insertOne(message, session === undefined ? {} : { session })
}
