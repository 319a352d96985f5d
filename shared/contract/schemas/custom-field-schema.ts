import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'
import { fieldTypes } from './custom-field.ts'

/** A stored value: `YYYY-MM-DD` for a date, `MM-DD` for a day of the year, names of options for selects. */
export const fieldValue = z.union([z.string(), integer(), z.boolean(), z.array(z.string())])

/** The settings of a field that the parsing of its values needs. The plan of an import has a copy. */
export const fieldDefinition = z.object({
  id: id(),
  name: z.string(),
  field_type: z.enum(fieldTypes),
  required: z.boolean(),
  /** Names of options in display order; empty for types without options. */
  options: z.array(z.string()),
  default: fieldValue.nullable(),
  /** Bounds of a text's length in code points; null is no bound. */
  minimum_length: integer().min(0).nullable(),
  maximum_length: integer().min(0).nullable(),
  /** Bounds of a number; null is no bound. */
  minimum_value: integer().nullable(),
  maximum_value: integer().nullable(),
})

export const customFieldDocument = fieldDefinition.omit({ id: true }).extend({
  _id: id(),
  mailing_list_id: id(),
  /** Comparison form of the name, unique in the list. */
  name_key: z.string(),
  created_at: instant(),
})
