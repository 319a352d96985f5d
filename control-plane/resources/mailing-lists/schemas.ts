import { z } from 'zod'
import { importStates } from '../../../shared/contract/import-state.ts'
import { flag, instantView, nameText, oneOf, positiveId } from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { statusCountsView } from '../subscriber-counts/schemas.ts'

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

export const fullMailingListView = mailingListView
  .extend({
    counts: statusCountsView.describe('its subscribers by status'),
    last_import: z
      .object({
        id: z.int(),
        state: z.enum(importStates),
        created_at: instantView(),
        finished_at: instantView().nullable(),
      })
      .nullable()
      .describe('its newest import, dry runs aside; null for none'),
  })
  .meta({ id: 'FullMailingList' })

export const mailingListQuery = tokenPagingQuery({ perPage: 2000, max: 2000 }).safeExtend({
  search: z.string().optional().describe('only lists with this in their name, in any letter case'),
  view: oneOf(['full']).optional().describe('full: adds `counts` and `last_import` to each list'),
})
export type MailingListQuery = z.infer<typeof mailingListQuery>

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
