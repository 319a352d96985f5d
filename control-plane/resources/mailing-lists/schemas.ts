import { z } from 'zod'
import { flag, nameText, positiveId } from '../../api/fields.ts'

/** Mailing lists in requests and replies. */

export const mailingListView = z
  .object({
    id: z.int(),
    organization_id: z.int(),
    name: z.string(),
    has_format: z.boolean(),
    has_confirmed: z.boolean(),
    is_remote_list: z.boolean(),
    primary_key_custom_field_id: z.int().nullable(),
  })
  .meta({ id: 'MailingList' })
export type MailingListView = z.infer<typeof mailingListView>

export const exampleMailingList = {
  id: 12,
  organization_id: 2,
  name: 'Newsletter',
  has_format: false,
  has_confirmed: false,
  is_remote_list: false,
  primary_key_custom_field_id: null,
}

const listFields = { name: nameText(255), has_format: flag(), has_confirmed: flag(), is_remote_list: flag() }
export const mailingListCreation = z.object({
  name: listFields.name,
  has_format: listFields.has_format.default(false),
  has_confirmed: listFields.has_confirmed.default(false),
  is_remote_list: listFields.is_remote_list.default(false),
  primary_key_custom_field_id: positiveId()
    .nullable()
    .default(null)
    .refine((id) => id === null, {
      error: 'names no custom field of the list, which has none yet: set it when the field is there',
    })
    .describe('set it later: a new list has no field'),
  organization_id: positiveId().optional().describe('for system admins; ignored from others'),
})
export type MailingListCreation = z.infer<typeof mailingListCreation>

export const mailingListChange = z
  .object({ ...listFields, primary_key_custom_field_id: positiveId().nullable() })
  .partial()
export type MailingListChange = z.infer<typeof mailingListChange>
