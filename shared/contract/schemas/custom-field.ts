import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

export const fieldTypes = [
  'text',
  'text_multiline',
  'number',
  'date',
  'day_of_year',
  'select_single_dropdown',
  'select_single_radio',
  'select_multiple_checkboxes',
  'boolean',
] as const
export type FieldType = (typeof fieldTypes)[number]

/** What a subscriber holds for a field: `YYYY-MM-DD` for a date, `MM-DD` for a day of year, option names for selects. */
export const fieldValue = z.union([z.string(), integer(), z.boolean(), z.array(z.string())])
export type FieldValue = z.infer<typeof fieldValue>

/** What reading a value of the field needs to know; an import's plan keeps a copy of it. */
export const fieldDefinition = z.object({
  id: id(),
  name: z.string(),
  field_type: z.enum(fieldTypes),
  required: z.boolean(),
  /** Option names in display order; empty where the type has none. */
  options: z.array(z.string()),
  default: fieldValue.nullable(),
  /** Bounds of a text's length in code points; null where there is none. */
  minimum_length: integer().min(0).nullable(),
  maximum_length: integer().min(0).nullable(),
  /** Bounds of a number; null where there is none. */
  minimum_value: integer().nullable(),
  maximum_value: integer().nullable(),
})
export type FieldDefinition = z.infer<typeof fieldDefinition>

export const customFieldDocument = fieldDefinition.omit({ id: true }).extend({
  _id: id(),
  mailing_list_id: id(),
  /** Comparison form of the name, unique in the list. */
  name_key: z.string(),
  created_at: instant(),
})
export type CustomFieldDocument = z.infer<typeof customFieldDocument>

export function toFieldDefinition(document: CustomFieldDocument): FieldDefinition {
  const { _id, mailing_list_id: _list, name_key: _key, created_at: _at, ...rest } = document
  return { id: _id, ...rest }
}
