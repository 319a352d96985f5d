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
  /** The field whose value tells subscribers apart; null: the email does. */
  primary_key_custom_field_id: id().nullable(),
  /**
   * Grows with every change of what imports and subscribers of this list are checked against: fields, primary key,
   * autoresponders. Two transactions that both raise it can't both commit.
   */
  revision: integer().min(0),
  /** Grows with every import that is created; a creation and a change of the list can't both commit. */
  import_creations: integer().min(0).optional(),
  /** Grows before each start of an import that deactivates absent subscribers; absent before the first one. */
  import_epoch: integer().min(0).optional(),
  created_at: instant(),
})
export type MailingListDocument = z.infer<typeof mailingListDocument>
