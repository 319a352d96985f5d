import { z } from 'zod'
import { positiveId } from '../../api/fields.ts'
import { exampleSubscriber, subscriberView } from '../subscribers/schemas.ts'

/** Requests and replies of the outbox. */

export const taking = z.object({
  limit: z.int().min(1).max(1000).default(100).describe('maximum of messages'),
  lease_seconds: z
    .int()
    .min(10)
    .max(3600)
    .default(300)
    .describe('messages that are not acknowledged by then are handed out again'),
})
export type Taking = z.infer<typeof taking>

export const acknowledging = z.object({
  messages: z
    .array(z.object({ id: positiveId(), lease_token: z.string().min(1).max(200) }))
    .describe('up to 1,000 mailed messages'),
})

const texts = z.record(z.string(), z.string())

export const messageView = z
  .object({
    id: z.int().describe('its id, which is that of the reaction'),
    lease_token: z.string().describe('needed to acknowledge it'),
    kind: z
      .enum(['autoresponder', 'confirmation'])
      .describe('a mail of an autoresponder, or one that asks to confirm a subscription'),
    organization_id: z.int(),
    mailing_list_id: z.int(),
    autoresponder_id: z.int().nullable(),
    to: z.string().describe('the address'),
    subscriber: subscriberView.nullable().describe('the recipient; null for a confirmation'),
    from_name: z.string().nullable(),
    from_email: z.string().nullable(),
    reply_to: z.string().nullable(),
    subject: z.string().nullable(),
    format: z.enum(['html', 'text', 'both']).describe('which of html and text are to be sent'),
    html: z.string().nullable().describe('as written; replacements are not inserted'),
    text: z.string().nullable().describe('as written; replacements are not inserted'),
    fields: texts.describe('replacements for the texts, from the call that triggered it; keys as given'),
    raw_fields: texts.describe('replacements that are inserted without escaping'),
    unsubscribe_token: z.string().nullable().describe('for POST /subscribers/unsubscribe'),
    confirmation_url: z.string().nullable().describe('the link of a confirmation'),
    due_at: z.string().describe("when it is due, in the organization's time zone"),
  })
  .meta({ id: 'OutboxMessage' })
export type MessageView = z.infer<typeof messageView>

export const acknowledgedView = z
  .object({
    acknowledged: z.int().describe('number of messages that are acknowledged now'),
    stale: z
      .array(z.int())
      .describe('ids whose lease has ended or whose token is wrong; nothing was changed for them'),
  })
  .meta({ id: 'OutboxAcknowledgement' })

export const exampleMessage: MessageView = {
  id: 77001,
  lease_token: 'b7mWq0tB0m7j1y6wXo2f5Q',
  kind: 'autoresponder',
  organization_id: 2,
  mailing_list_id: 12,
  autoresponder_id: 5,
  to: 'ann@example.com',
  subscriber: exampleSubscriber,
  from_name: 'Example Ltd',
  from_email: 'news@example.com',
  reply_to: null,
  subject: 'Welcome',
  format: 'both',
  html: '<p>Welcome, %%First name%%</p>',
  text: 'Welcome, %%First name%%',
  fields: {},
  raw_fields: {},
  unsubscribe_token: 'MTI6OTAwMTo1NQ.9bUqv0hG0q3mYx2c4rYvMw',
  confirmation_url: null,
  due_at: '2026-11-21T09:00:00+01:00',
}
