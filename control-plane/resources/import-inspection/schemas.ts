import { z } from 'zod'
import {
  characterSets,
  enclosures,
  escapes,
  maxSkipLines,
  rowResults,
  separators,
} from '../../../shared/contract/schemas/import.ts'
import { fieldJson, flag, oneOf, punctuation } from '../../api/fields.ts'
import { characterSetOption, importCreation, separatorOption } from '../subscriber-imports/schemas.ts'

/** The body of a creation, in which the mapping and the format may be left out for detection. */
export const inspectionRequest = importCreation.extend({
  column_mapping: importCreation.shape.column_mapping
    .optional()
    .describe('one entry for each CSV column; by default the proposed mapping'),
  file_format: z
    .object({
      csv_has_headers: flag().optional(),
      character_set: characterSetOption().optional(),
      csv_field_separator: separatorOption().optional(),
      csv_field_enclosure: punctuation(enclosures).optional(),
      csv_field_escape: punctuation(escapes)
        .nullable()
        .optional()
        .describe('a backslash, or null for no escape; detected where the key is missing'),
      csv_skip_lines: z.int().min(0).max(maxSkipLines).optional(),
      date_format: oneOf(['mdy', 'dmy']).optional(),
    })
    .prefault({})
    .describe('the format of the file; missing keys are detected'),
})
export type InspectionRequest = z.infer<typeof inspectionRequest>

export const inspectionView = z
  .object({
    character_set: z
      .enum(characterSets)
      .describe(
        'as given, where the file can be read with it; otherwise as detected: utf-8, windows-1252, utf-16le or utf-16be',
      ),
    csv_field_separator: punctuation(separators).describe('as given, or else as detected'),
    csv_field_enclosure: punctuation(enclosures).describe('as given, or else as detected'),
    csv_field_escape: punctuation(escapes)
      .nullable()
      .describe('as given, or else as detected: a backslash or null'),
    csv_skip_lines: z
      .int()
      .min(0)
      .max(maxSkipLines)
      .describe('lines before the table, as given, or else before the line that reads as its header'),
    csv_has_headers: z.boolean().describe('whether the first line is a header, as given or else as detected'),
    date_format: z
      .enum(['mdy', 'dmy'])
      .nullable()
      .describe(
        'the order of day and month, as given or else as detected in the dates; null without evidence',
      ),
    column_mapping: z
      .array(z.string().nullable())
      .describe('the mapping of the records: the given or else the proposed one'),
    columns: z
      .array(
        z.object({
          header: z.string().nullable().describe('as typed; null when the file has no header'),
          samples: z.array(z.string()).describe('up to five different values of the first records'),
          proposed: z
            .string()
            .nullable()
            .describe('the proposed built-in column or custom field; null for none'),
          confidence: z.number().min(0).max(1).describe('confidence of the proposal, from 0 to 1'),
        }),
      )
      .describe("the file's columns"),
    import_error: z
      .string()
      .nullable()
      .describe(
        'the reason why the whole import would fail, which another setting mends; then there are no records',
      ),
    records: z
      .array(
        z.object({
          record: z.int().min(1).describe('its number, from 1'),
          result: z.enum(rowResults).describe('the result that an import would have'),
          error: z.string().nullable().describe('the reason when it would fail; otherwise null'),
          values: z
            .record(z.string(), fieldJson().nullable())
            .describe(
              'values by mapped column; as typed for failed records and duplicates; null for a blank cell',
            ),
        }),
      )
      .describe('the first 20 records, as an import would process them now'),
    warnings: z.array(z.string()),
  })
  .meta({ id: 'SubscriberImportInspection' })
export type InspectionView = z.infer<typeof inspectionView>

export const exampleInspection: InspectionView = {
  character_set: 'utf-8',
  csv_field_separator: ';',
  csv_field_enclosure: '"',
  csv_field_escape: null,
  csv_skip_lines: 0,
  csv_has_headers: true,
  date_format: 'dmy',
  column_mapping: ['email', 'First name', null],
  columns: [
    { header: 'E-Mail', samples: ['ann@example.com', 'bob@example'], proposed: 'email', confidence: 0.9 },
    { header: 'Vorname', samples: ['Ann', 'Bob'], proposed: 'First name', confidence: 0.8 },
    { header: 'Source', samples: ['fair'], proposed: null, confidence: 0 },
  ],
  import_error: null,
  records: [
    {
      record: 1,
      result: 'added',
      error: null,
      values: { email: 'ann@example.com', 'First name': 'Ann' },
    },
    {
      record: 2,
      result: 'failed',
      error: "email: 'bob@example' is not an email address",
      values: { email: 'bob@example', 'First name': 'Bob' },
    },
  ],
  warnings: [],
}

export const exampleInspectionRequest = {
  subscriber_import: { file_source: { type: 'upload_directory', filename: 'subscribers.csv' } },
}
