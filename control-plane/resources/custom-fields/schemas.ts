import { z } from 'zod'
import { fieldTypes } from '../../../shared/contract/schemas/custom-field.ts'
import { fieldDefinition } from '../../../shared/contract/schemas/custom-field-schema.ts'
import { fieldJson, flag, nameText, oneOf } from '../../api/fields.ts'
import { shownFields } from '../stored-fields.ts'

/** Custom fields in requests and replies. */

const value = fieldJson()

export const customFieldView = z
  .object({
    id: z.int(),
    mailing_list_id: z.int(),
    ...shownFields(fieldDefinition.omit({ id: true }).shape),
    options: z.array(z.string()),
    default: value.nullable(),
  })
  .meta({ id: 'CustomField' })
export type CustomFieldView = z.infer<typeof customFieldView>

export const exampleCustomField = {
  id: 31,
  mailing_list_id: 12,
  name: 'Plan',
  field_type: 'select_single_dropdown',
  required: false,
  options: ['Free', 'Team'],
  default: 'Free',
  minimum_length: null,
  maximum_length: null,
  minimum_value: null,
  maximum_value: null,
}

const length = z.int().min(0).max(65_535).nullable()
const bound = z.int().nullable()
const settings = {
  name: nameText(49),
  required: flag(),
  options: z.array(nameText(255)).max(1_000),
  default: value.nullable(),
  minimum_length: length,
  maximum_length: length,
  minimum_value: bound,
  maximum_value: bound,
}
export const customFieldCreation = z.object({
  ...settings,
  field_type: oneOf(fieldTypes),
  required: settings.required.default(false),
  options: settings.options.default([]),
  default: settings.default.default(null),
  minimum_length: length.default(null),
  maximum_length: length.default(null),
  minimum_value: bound.default(null),
  maximum_value: bound.default(null),
})
export type CustomFieldCreation = z.infer<typeof customFieldCreation>

export const customFieldChange = z.object({ ...settings, field_type: oneOf(fieldTypes) }).partial()
export type CustomFieldChange = z.infer<typeof customFieldChange>
