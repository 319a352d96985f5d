import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'
import { fieldValue } from './custom-field.ts'

export const subscriberStatuses = ['active', 'bounced', 'unsubscribed', 'scomp', 'deactivated'] as const
export type SubscriberStatus = (typeof subscriberStatuses)[number]

export const emailFormats = ['html', 'text', 'both'] as const
export type EmailFormat = (typeof emailFormats)[number]

/**
 * A subscriber. The identity is in `_id`, so that it is unique without a second unique index (a third of the
 * server's work per new row) and a chunk's rows lie side by side. What a list doesn't use isn't stored: no
 * `format` means `both`, no `confirmed` means false, no custom field means null.
 */
export const subscriberDocument = z.object({
  /** `<mailing_list_id>:<identity>`, see shared/values/identity.ts. */
  _id: z.string(),
  id: id(),
  mailing_list_id: id(),
  email: z.string(),
  /** Comparison form of the email; only on lists with an alternate primary key, where `_id` doesn't hold it. */
  email_key: z.string().optional(),
  status: z.enum(subscriberStatuses),
  created_at: instant(),
  subscribe_time: instant(),
  subscribe_ip: z.string().optional(),
  remove_time: instant().optional(),
  remove_ip: z.string().optional(),
  /** How many times it became active again; absent for never. Reactions from before don't come back with it. */
  reactivations: integer().optional(),
  /** How many requests queued reactions for it once it was there; absent for none. It is written so that they meet a deletion. */
  reaction_requests: integer().optional(),
  /** The list's `import_epoch` in the snapshot of the request's transaction that added it; absent where the list had none. */
  import_epoch: integer().optional(),
  format: z.enum(emailFormats).optional(),
  confirmed: z.boolean().optional(),
  confirm_time: instant().optional(),
  /** Values by the field's id: names come from users and may hold anything. */
  custom_fields: z.record(z.string(), fieldValue),
})
export type SubscriberDocument = z.infer<typeof subscriberDocument>

/** A subscriber who was deleted: what is told of his mails still counts, which of an id that never was it doesn't. */
export const deletedSubscriberDocument = z.object({
  /** His public id. */
  _id: id(),
  mailing_list_id: id(),
})
export type DeletedSubscriberDocument = z.infer<typeof deletedSubscriberDocument>

const statusCount = () => integer()

/**
 * One stripe of a list's subscriber counts. A writer adds to its own stripe inside the transaction that changes
 * the subscribers; the sum over a list's stripes is exact at every moment, and single stripes may be negative.
 */
export const subscriberCountDocument = z.object({
  /** `<mailing_list_id>:<stripe>` */
  _id: z.string(),
  organization_id: id(),
  mailing_list_id: id(),
  active: statusCount(),
  bounced: statusCount(),
  unsubscribed: statusCount(),
  scomp: statusCount(),
  deactivated: statusCount(),
  /** Of requests' stripes: raised when the organization's limit changes, so that requests under way begin anew. */
  limit_changes: integer().min(0).optional(),
  /** The same for changes of the list that need it to be empty, and for a new import epoch of the list. */
  list_changes: integer().min(0).optional(),
})
export type SubscriberCountDocument = z.infer<typeof subscriberCountDocument>
