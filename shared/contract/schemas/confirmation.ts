import { z } from 'zod'
import { id, instant } from './bson-schema.ts'
import { subscriberDocument } from './subscriber.ts'

/** What the mail looks like that asks somebody to confirm; `%%confirmation_url%%` stands for the link. */
export const confirmationFormDocument = z.object({
  _id: id(),
  mailing_list_id: id(),
  name: z.string(),
  from_name: z.string().nullable(),
  from_email: z.string().nullable(),
  subject: z.string(),
  html: z.string(),
  text: z.string(),
  created_at: instant(),
})
export type ConfirmationFormDocument = z.infer<typeof confirmationFormDocument>

/**
 * Somebody who is to be added when he follows the link in his mail. `_id` is what the subscriber's will be, so that a
 * new request for the same identity replaces the one before. Removed by a TTL index when it has expired.
 */
export const pendingSubscriberDocument = z.object({
  _id: z.string(),
  mailing_list_id: id(),
  confirmation_form_id: id(),
  /** Random; the end of the link. Kept when a new request comes so soon that no second mail is sent. */
  token: z.string(),
  /** When the mail was last asked for. */
  mailed_at: instant(),
  /** That mail's id in the outbox. A mail with another one asks for nothing any more, and isn't handed out. */
  message_id: id(),
  expires_at: instant(),
  /** Without what the visit decides: time, ip, confirmation and id. */
  subscriber: subscriberDocument.pick({
    email: true,
    email_key: true,
    status: true,
    format: true,
    custom_fields: true,
  }),
  autoresponders: z.object({
    skip_autoresponders: z.boolean(),
    autoresponder_filter: z.string().nullable(),
    autoresponder_exclude_reacted: z.boolean(),
  }),
})
export type PendingSubscriberDocument = z.infer<typeof pendingSubscriberDocument>
