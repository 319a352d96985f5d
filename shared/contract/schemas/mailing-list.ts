import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

export const mailingListDocument = z.object({
  _id: id(),
  organization_id: id(),
  name: z.string(),
  /** Comparison form of the name, unique in the organization. */
  name_key: z.string(),
  has_format: z.boolean(),
  has_confirmed: z.boolean(),
  is_remote_list: z.boolean(),
  /** The field whose value identifies subscribers; null when the email does. */
  primary_key_custom_field_id: id().nullable(),
  /**
   * Optimistic lock: raised by each change of the fields, the primary key or the autoresponders, which imports and
   * subscribers are checked against. Two such changes conflict.
   */
  revision: integer().min(0),
  /** Raised by each creation of an import, so that a creation conflicts with a change of the list. */
  import_creations: integer().min(0).optional(),
  /** Raised before the start of each import that deactivates absent subscribers; absent before the first one. */
  import_epoch: integer().min(0).optional(),
  created_at: instant(),
})
export type MailingListDocument = z.infer<typeof mailingListDocument>
