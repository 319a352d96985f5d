import { z } from 'zod'
import { recordFromKeys } from '../../../shared/contract/record-from-keys.ts'
import { importStates } from '../../../shared/contract/import-state.ts'
import {
  characterSets,
  detectedCharacterSets,
  enclosures,
  escapes,
  maxSkipLines,
  logKinds,
  noCounts,
  separators,
  sourceTypes,
} from '../../../shared/contract/schemas/import.ts'
import { importOptions } from '../../../shared/contract/schemas/import-schema.ts'
import { emailFormats, subscriberStatuses } from '../../../shared/contract/schemas/subscriber.ts'
import {
  boundedText,
  fieldJson,
  flag,
  instantView,
  nameText,
  oneOf,
  someOf,
  oneOfAnyCase,
  positiveId,
  punctuation,
  timePattern,
} from '../../api/fields.ts'
import { actingParty } from '../../../shared/contract/schemas/audit-event.ts'
import { shownFields } from '../stored-fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'

/** The bodies, queries and replies of the import endpoints. */

/** In characters. Engines read these with each import, and an import keeps them for ever. */
const maxUrlLength = 8_192
const maxFilenameLength = 1_024

const autoresponderReference = z
  .object({ id: positiveId().optional(), name: z.string().optional() })
  .refine((reference) => reference.id !== undefined || reference.name !== undefined, {
    error: 'must have the key id or name',
  })

const characterSetOptions = [...characterSets, 'auto'] as const
const separatorOptions = [...separators, 'auto'] as const

export const characterSetOption = () => oneOfAnyCase(characterSetOptions)
export const separatorOption = () => punctuation(separatorOptions)

/** The API description shows a default that parsing leaves out, where it matters whether the request has the key. */
const shownDefault = (value: unknown) => ({
  override: ({ jsonSchema }: { jsonSchema: { default?: unknown } }) => {
    jsonSchema.default = value
  },
})

export const importCreation = z.object({
  begins_at: z
    .string()
    .meta({ override: { anyOf: [{ const: 'now' }, { pattern: timePattern }] } })
    .optional()
    .describe("`now`, or ISO 8601 with `T`; without an offset it is the organization's local time"),
  overwrite: flag().default(false),
  deactivate_subscribers_not_in_import: flag().default(false),
  autoresponders: z
    .object({
      subscription: z
        .object({
          trigger: flag().default(false),
          also_trigger_on_updated_subscribers: flag().default(false),
        })
        .prefault({}),
      api: z
        .object({
          trigger_new: autoresponderReference.nullable().default(null),
          trigger_updated: autoresponderReference.nullable().default(null),
        })
        .prefault({}),
    })
    .prefault({}),
  overwrite_what: z
    .object({
      custom_fields: flag().default(true),
      confirmed: flag().default(false),
      format: flag().default(false),
      status: flag().default(false),
    })
    .prefault({}),
  overwrite_when_status: z
    .object({
      active: flag().default(true),
      unsubscribed: flag().default(false),
      bounced: flag().default(false),
      deactivated: flag().default(false),
      scomp: flag().default(false),
    })
    .prefault({}),
  column_mapping: z
    .array(z.string().nullable())
    .max(2_000)
    .describe(
      'one entry a CSV column: a built-in column, a custom field, or null for a column that is ignored; `consent`, in place of `status`, takes yes or no',
    ),
  default_custom_fields: z.record(z.string(), fieldJson()).default({}),
  subscriber_defaults: z
    .object({
      status: oneOf(subscriberStatuses).optional().meta(shownDefault('active')),
      confirmed: flag().optional().meta(shownDefault(false)),
      format: oneOf(emailFormats).optional().meta(shownDefault('both')),
    })
    .prefault({}),
  file_source: z.object({
    type: oneOfAnyCase(sourceTypes),
    content: z.string().optional().describe('of `json`: the CSV text; the rest of the body may have 1 MiB'),
    filename: boundedText({ max: maxFilenameLength })
      .optional()
      .describe('of `upload_directory`: a file in it; FOLDER/NAME is one in a folder of a partner'),
    url: boundedText({ max: maxUrlLength }).optional().describe('of `url`: http, https, ftp or ftps'),
    display_name: nameText(255)
      .optional()
      .describe("what replies, callbacks and the log show as the file's name"),
    delete_after: flag()
      .default(false)
      .describe(
        'of `upload_directory`: the file is deleted when the import has ended, unless a newer one has its name',
      ),
  }),
  file_format: z
    .object({
      csv_has_headers: flag().default(true),
      character_set: characterSetOption().prefault('utf-8'),
      csv_field_separator: separatorOption()
        .optional()
        // Parsing leaves it out, because a first line such as `sep=;` decides only then.
        .meta(shownDefault(','))
        .describe(
          'by default comma, or what a first line such as `sep=;` says; `auto`: what that line says, or else what `inspect` proposes',
        ),
      csv_field_enclosure: punctuation(enclosures)
        .default('"')
        // openapi-python-client can't read a default that is a quote, and would leave the endpoint out.
        .meta({
          override: ({ jsonSchema }: { jsonSchema: { default?: unknown } }) => delete jsonSchema.default,
        })
        .describe('what cells may be enclosed in; the double quote where none is given'),
      csv_field_escape: punctuation(escapes)
        .nullable()
        .default(null)
        .describe(
          'a backslash, as MySQL writes: in an enclosed cell the enclosure or a backslash behind it stands for itself, and a bare cell `\\N` is blank; null, the default, is no escape',
        ),
      csv_skip_lines: z.int().min(0).max(maxSkipLines).default(0),
      date_format: oneOf(['mdy', 'dmy']).default('mdy'),
    })
    .prefault({}),
  dry_run: flag().default(false),
  blank_cells: oneOf(['keep', 'clear']).default('keep'),
  apply_custom_field_defaults: flag().default(true),
  callback_url: boundedText({ max: maxUrlLength })
    .meta({ format: 'uri' })
    .optional()
    .describe('is sent the import when it has ended'),
})
export type ImportCreation = z.infer<typeof importCreation>

export const importListQuery = tokenPagingQuery({ perPage: 100, max: 500 }).safeExtend({
  scope: oneOf(['finished', 'active', 'recent', 'all'])
    .default('recent')
    .describe('active: those that have not ended; recent: these, and those that ended within 14 days'),
  state: someOf('only imports of the scope in these states', importStates),
  view: oneOf(['full'])
    .optional()
    .describe('full: each import as when it is read alone, and at most 100 on a page'),
  order: oneOf(['created'])
    .optional()
    .describe(
      'created: newest first by id; by default those that have not ended first, then the others by their end',
    ),
})
export type ImportListQuery = z.infer<typeof importListQuery>

const flagText = () => z.enum(['true', '1', 'false', '0']).optional()

export const importLogQuery = z.object({
  safe: flagText().describe(
    "`true` or `1`: cells of `failed` that a spreadsheet would run as a formula have a `'` before them; without it they are as typed, so that the file imports again",
  ),
  line: flagText().describe(
    '`true` or `1`: `failed` has a column `line` before the message: the line of the file on which the record begins, from 1',
  ),
})

const instant = instantView()
const count = z.int().min(0)

export const importListView = z
  .object({
    id: z.int(),
    mailing_list_id: z.int(),
    mailing_list_name: z.string(),
    created_at: instant,
    state: z.enum(importStates),
    begins_at: instant,
    finished_at: instant.nullable(),
    file_source: z.object({ type: z.enum(sourceTypes), filename: z.string(), url: z.string().nullable() }),
    stats: z.object({ number_of_records: count.nullable(), records_imported: count }),
  })
  .meta({ id: 'SubscriberImportSummary' })
export type ImportSummaryView = z.infer<typeof importListView>

const failure = z
  .object({
    column: z
      .int()
      .min(1)
      .nullable()
      .describe(
        'the faulty column, from 1; null where the whole record is at fault, or the field has no column',
      ),
    header: z.string().nullable().describe("the column's header as typed; null for none"),
    field: z
      .string()
      .nullable()
      .describe('the built-in column or custom field; null where the record is at fault'),
    reason: z.string().describe('what is wrong; it holds no value of a cell'),
    rows: z
      .int()
      .min(1)
      .describe('failed rows with this fault first, in the order of the checks and columns'),
    first_record: z.int().min(1).describe('number of the first of these records, from 1'),
    example: z
      .string()
      .max(60)
      .nullable()
      .describe(
        'the cell of that record as typed, cut to 60 characters; null for none, and once the logs are purged',
      ),
  })
  .meta({ id: 'FailureSummary' })

const party = z.object(shownFields(actingParty.shape)).nullable()
const referenceView = z.object({ id: z.int(), name: z.string() }).nullable()
const resultCounts = z.object(recordFromKeys(logKinds, () => count))

export const importView = z
  .object({
    ...importListView.shape,
    // The options as they are stored, but for those that are described below.
    ...importOptions.omit({ default_separator: true, given_defaults: true }).shape,
    error_message: z.string().nullable(),
    autoresponders: z.object({
      subscription: z.object({ trigger: z.boolean(), also_trigger_on_updated_subscribers: z.boolean() }),
      api: z.object({ trigger_new: referenceView, trigger_updated: referenceView }),
    }),
    default_custom_fields: z.record(z.string(), fieldJson()),
    file_format: z.object({
      csv_has_headers: z.boolean(),
      character_set: z.enum(characterSetOptions),
      csv_field_separator: separatorOption(),
      csv_field_enclosure: punctuation(enclosures),
      csv_field_escape: punctuation(escapes).nullable(),
      csv_skip_lines: z.int().min(0).max(maxSkipLines),
      date_format: z.enum(['mdy', 'dmy']),
    }),
    detected_character_set: z
      .enum(detectedCharacterSets)
      .nullable()
      .describe("what `auto` detected; null without `auto`, and before the file's beginning was read"),
    detected_csv_field_separator: punctuation(separators)
      .nullable()
      .describe("what `auto` or a first line such as `sep=;` decided; null where the request's one is used"),
    stats: importListView.shape.stats.extend({ subscribers: resultCounts }),
    apply_custom_field_defaults: z.boolean(),
    callback_url: z.string().nullable(),
    started_at: instant.nullable().describe('when it left `scheduled`; null before'),
    created_by: party.describe('who created it; null where that is not known'),
    cancelled_by: party.describe('who cancelled it; null unless it was'),
    headers: z
      .array(z.string())
      .nullable()
      .describe('the cells of the header line as read; null without one, and before it is read'),
    waiting_for_import_id: z.int().nullable(),
    download: z
      .object({
        attempt: z.int().min(1).describe('the attempt that runs, or the next one'),
        next_attempt_at: instant.nullable().describe('while the import waits for the next attempt'),
        bytes_received: count,
        bytes_expected: count.nullable().describe('as the server announced; null where it did not'),
      })
      .nullable()
      .describe('of `url`, from the first attempt on; bytes as received over the network'),
    warnings: z.array(z.string()),
    failure_summary: z
      .array(failure)
      .describe(
        'why rows failed: the 20 most frequent faults, then by their first record; each failed row counts once',
      ),
  })
  .meta({ id: 'SubscriberImport' })
export type ImportView = z.infer<typeof importView>

export const createdImportView = importView
  .extend({
    callback_secret: z
      .string()
      .optional()
      .describe('signs the callback; only in this reply, and only where there is a callback_url'),
  })
  .meta({ id: 'CreatedSubscriberImport' })
export type CreatedImportView = z.infer<typeof createdImportView>

/** One server-sent event. OpenAPI before 3.2 describes an event stream by the schema of each event. */
export const importEvent = z
  .object({
    event: z.literal('import').describe('always import'),
    id: z.string().describe('is sent as `Last-Event-ID` by a client that connects again'),
    retry: z
      .int()
      .optional()
      .describe('of the first event: milliseconds after which a client may connect again'),
    data: z
      .string()
      .meta({
        override: {
          contentMediaType: 'application/json',
          contentSchema: { $ref: '#/components/schemas/SubscriberImport' },
        },
      })
      .describe('the import, as JSON'),
  })
  .describe('one event; comments keep the connection open')

export const exampleImportSummary: ImportSummaryView = {
  id: 4711,
  mailing_list_id: 12,
  mailing_list_name: 'Newsletter',
  created_at: '2026-11-21T09:00:00+01:00',
  state: 'finished',
  begins_at: '2026-11-21T09:00:00+01:00',
  finished_at: '2026-11-21T09:00:07+01:00',
  file_source: { type: 'upload_directory', filename: 'subscribers.csv', url: null },
  stats: { number_of_records: 100_000, records_imported: 100_000 },
}

const exampleCreation = {
  subscriber_import: {
    begins_at: 'now',
    column_mapping: ['email', 'First name', null],
    default_custom_fields: { Plan: 'Free' },
    file_source: { type: 'upload_directory', filename: 'subscribers.csv' },
  },
}

/** One of each source. */
export const exampleCreations: Record<string, unknown> = {
  'a file of the upload directory': exampleCreation,
  'a file at a URL': {
    subscriber_import: {
      column_mapping: ['email', 'First name', null],
      file_source: { type: 'url', url: 'https://files.example.com/subscribers.csv' },
    },
  },
  'rows in the request': {
    subscriber_import: {
      column_mapping: ['email', 'First name'],
      file_source: { type: 'json', content: 'email,First name\nann@example.com,Ann\n' },
    },
  },
}

/** The options of the example, with the defaults of a creation. */
const exampleOptions = importCreation.parse(exampleCreation.subscriber_import)

export const exampleImport: ImportView = {
  ...exampleImportSummary,
  ...exampleOptions,
  begins_at: exampleImportSummary.begins_at,
  file_source: exampleImportSummary.file_source,
  error_message: null,
  autoresponders: {
    ...exampleOptions.autoresponders,
    api: { trigger_new: null, trigger_updated: null },
  },
  subscriber_defaults: { status: 'active' },
  file_format: { ...exampleOptions.file_format, csv_field_separator: ',' },
  detected_character_set: null,
  detected_csv_field_separator: null,
  stats: {
    number_of_records: 100_000,
    records_imported: 100_000,
    subscribers: { ...noCounts(), added: 98_000, failed: 1_000, skipped_duplicate: 1_000 },
  },
  callback_url: null,
  started_at: '2026-11-21T09:00:01+01:00',
  created_by: { by: 'api', api_key_id: 7, api_key_name: 'Nightly import', user_id: null, user_name: null },
  cancelled_by: null,
  headers: ['E-Mail', 'First name', 'Note'],
  waiting_for_import_id: null,
  download: null,
  warnings: [],
  failure_summary: [
    {
      column: 1,
      header: 'E-Mail',
      field: 'email',
      reason: 'not an email address',
      rows: 1_000,
      first_record: 17,
      example: 'bob@example',
    },
  ],
}

export const exampleImportEvent: z.infer<typeof importEvent> = {
  event: 'import',
  id: '7LkT8cDGwQ2nZgXv',
  retry: 3_000,
  data: JSON.stringify(exampleImport),
}

export const exampleFailedLog = [
  'Email,First name,error',
  `ann@example,Ann,email: 'ann@example' is not an email address`,
  `bob@example.com,"Bob, jr.",Plan: 'Gold' is not one of the field's options`,
  '',
].join('\n')
