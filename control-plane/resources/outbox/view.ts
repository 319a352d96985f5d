import type {
  AutoresponderDocument,
  ReactionDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type {
  ConfirmationFormDocument,
  PendingSubscriberDocument,
} from '../../../shared/contract/schemas/confirmation.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import { unsubscribeToken } from '../../api/signed-token.ts'
import type { SubscriberList } from '../subscribers/service.ts'
import { toView as toSubscriberView } from '../subscribers/view.ts'
import type { MessageView } from './schemas.ts'

/** Messages as a mail sender gets them. */

export interface LeasedMessage {
  message: ReactionDocument
  list: SubscriberList
  leaseToken: string
}

interface ReactionSources {
  autoresponder: AutoresponderDocument
  subscriber: SubscriberDocument
}

/** `secret` signs the unsubscribe token. */
export const toReactionView = (
  leased: LeasedMessage,
  { autoresponder, subscriber }: ReactionSources,
  secret: Uint8Array,
): MessageView => ({
  ...commonFields(leased),
  kind: 'autoresponder',
  autoresponder_id: autoresponder._id,
  to: subscriber.email,
  subscriber: toSubscriberView(subscriber, leased.list),
  from_name: autoresponder.from_name,
  from_email: autoresponder.from_email,
  reply_to: autoresponder.reply_to,
  subject: autoresponder.content_subject,
  format: autoresponder.content_format,
  html: autoresponder.content_html,
  text: autoresponder.content_text,
  fields: leased.message.fields ?? {},
  raw_fields: leased.message.raw_fields ?? {},
  unsubscribe_token: unsubscribeToken(secret, {
    listId: leased.message.mailing_list_id,
    subscriberId: subscriber.id,
    messageId: String(leased.message.id),
  }),
  confirmation_url: null,
})

interface ConfirmationSources {
  pending: PendingSubscriberDocument
  form: ConfirmationFormDocument
}

/** `publicUrl` begins the link of the confirmation. */
export const toConfirmationView = (
  leased: LeasedMessage,
  { pending, form }: ConfirmationSources,
  publicUrl: string,
): MessageView => ({
  ...commonFields(leased),
  kind: 'confirmation',
  autoresponder_id: null,
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
  confirmation_url: `${publicUrl}/confirm/${pending.token}`,
})

const commonFields = ({ message, list, leaseToken }: LeasedMessage) => ({
  id: message.id,
  lease_token: leaseToken,
  organization_id: message.organization_id,
  mailing_list_id: message.mailing_list_id,
  due_at: formatInstant(message.due_at, list.zone),
})
