import type { z } from 'zod'
import type { customFieldDocument, fieldDefinition, fieldValue } from './custom-field-schema.ts'

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

export type FieldValue = z.infer<typeof fieldValue>

export type FieldDefinition = z.infer<typeof fieldDefinition>

export type CustomFieldDocument = z.infer<typeof customFieldDocument>

export function toFieldDefinition(document: CustomFieldDocument): FieldDefinition {
  const { _id, mailing_list_id: _list, name_key: _key, created_at: _at, ...rest } = document
  return { id: _id, ...rest }
}
