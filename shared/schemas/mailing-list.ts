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
   * Grows with whatever must take turns on this list: creating an import, deleting a field, changing the primary
   * key. Two transactions that both raise it can't both commit.
   */
  revision: integer().min(0),
  created_at: instant(),
})
export type MailingListDocument = z.infer<typeof mailingListDocument>
