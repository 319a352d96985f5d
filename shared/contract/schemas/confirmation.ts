import { z } from 'zod'
import { id, instant } from './bson-schema.ts'
import { subscriberDocument } from './subscriber-schema.ts'

/** Template of the mail that asks a person to confirm; `%%confirmation_url%%` is replaced by the link. */
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
 * A subscriber to add when the link in the confirmation mail is opened. It has the `_id` of the later subscriber, so
 * that a new request for the same identity replaces an earlier one. A TTL index removes it when it expires.
 */
export const pendingSubscriberDocument = z.object({
  _id: z.string(),
  mailing_list_id: id(),
  confirmation_form_id: id(),
  /** Random; the last part of the link. It stays the same when a new request comes too soon for a second mail. */
  token: z.string(),
  /** When a mail was last requested. */
  mailed_at: instant(),
  /** Id of the current mail in the outbox. Older mails with other ids are void and aren't handed out. */
  message_id: id(),
  expires_at: instant(),
  /** Without the fields that are known only when the link is opened: time, IP address, confirmation and id. */
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
