import { z } from 'zod'
import { recordFromKeys } from '../record-from-keys.ts'
import { id, instant, integer } from './bson-schema.ts'
import { fieldValue } from './custom-field-schema.ts'
import { emailFormats, subscriberStatuses } from './subscriber.ts'

/**
 * A subscriber. `_id` contains the identity, which makes it unique. A second unique index would cost a third of the
 * server's work per new row. Rows of a chunk are neighbours. Unused fields are absent: no `format` means `both`, no
 * `confirmed` means false, no custom field means null.
 */
export const subscriberDocument = z.object({
  /** `<mailing_list_id>:<identity>`, see shared/values/identity.ts. */
  _id: z.string(),
  id: id(),
  mailing_list_id: id(),
  email: z.string(),
  /** Comparison form of the email; only on lists with an alternate primary key, where `_id` doesn't contain it. */
  email_key: z.string().optional(),
  status: z.enum(subscriberStatuses),
  created_at: instant(),
  subscribe_time: instant(),
  subscribe_ip: z.string().optional(),
  remove_time: instant().optional(),
  remove_ip: z.string().optional(),
  /** Number of times that it became active again; absent is 0. Reactions from before a reactivation aren't sent. */
  reactivations: integer().optional(),
  /**
   * Number of requests that queued reactions for it after it was added; absent is 0. Writing it makes them conflict
   * with a deletion.
   */
  reaction_requests: integer().optional(),
  /**
   * The list's `import_epoch` in the snapshot of the transaction of the request that added it; absent when the list had
   * none.
   */
  import_epoch: integer().optional(),
  format: z.enum(emailFormats).optional(),
  confirmed: z.boolean().optional(),
  confirm_time: instant().optional(),
  /** Values by id of the field, because names are user input and may have any characters. */
  custom_fields: z.record(z.string(), fieldValue),
})

/** A deleted subscriber. Events of its mails still count; events of an id that never existed don't. */
export const deletedSubscriberDocument = z.object({
  /** Its public id. */
  _id: id(),
  mailing_list_id: id(),
})

/**
 * One stripe of a list's subscriber counts. A writer adds to its stripe in the transaction that changes subscribers.
 * The sum over the stripes of a list is always exact; a single stripe may be negative.
 */
export const subscriberCountDocument = z.object({
  /** `<mailing_list_id>:<stripe>` */
  _id: z.string(),
  organization_id: id(),
  mailing_list_id: id(),
  ...recordFromKeys(subscriberStatuses, () => integer()),
  /**
   * For stripes of requests: raised when the organization's limit changes, so that requests in flight conflict and
   * begin again.
   */
  limit_changes: integer().min(0).optional(),
  /** The same for changes of the list that need it to be empty, and for a new import epoch. */
  list_changes: integer().min(0).optional(),
})
