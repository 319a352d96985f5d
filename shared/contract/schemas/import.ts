import { z } from 'zod'
import { importStates, pausableStates } from '../import-state.ts'
import { delayOf } from './autoresponder.ts'
import { bytes, id, instant, integer } from './bson-schema.ts'
import { fieldDefinition, fieldValue } from './custom-field.ts'
import { emailFormats, subscriberStatuses } from './subscriber.ts'

/** What becomes of a record: the names of the logs and of the counts. A record has exactly one of them. */
export const rowResults = [
  'added',
  'updated',
  'failed',
  'skipped_overwrite',
  'skipped_active',
  'skipped_unsubscribed',
  'skipped_scomp',
  'skipped_bounced',
  'skipped_deactivated',
  'skipped_duplicate',
  'skipped_over_limit',
] as const
export type RowResult = (typeof rowResults)[number]

/** `deactivated` counts subscribers that are in no record, so it is outside of every sum. */
export const logKinds = [...rowResults, 'deactivated'] as const
export type LogKind = (typeof logKinds)[number]

const count = () => integer().min(0)
const countsByKind = z.object(
  Object.fromEntries(logKinds.map((kind) => [kind, count()])) as Record<LogKind, ReturnType<typeof count>>,
)
const importCounts = countsByKind.extend({
  /** Dates that were read month first although `date_format` is `dmy`; absent is 0. */
  month_first_dates: count().optional(),
  /** Bytes that failed rows take in the database, at the end those of the import's defaults too; absent is 0. */
  kept_bytes: count().optional(),
})
/** Beside the counts by kind. */
export const furtherCounts = ['month_first_dates', 'kept_bytes'] as const
export type ImportCounts = z.infer<typeof importCounts>

export const noCounts = (): ImportCounts =>
  Object.fromEntries(logKinds.map((kind) => [kind, 0])) as ImportCounts

export const recordsIn = (counts: ImportCounts): number =>
  rowResults.reduce((sum, result) => sum + counts[result], 0)

/** Columns with a meaning of their own; a custom field can't have one of these names. */
export const builtInColumns = [
  'email',
  'status',
  'email_format',
  'subscribe_time',
  'subscribe_ip',
  'remove_time',
  'remove_ip',
  'confirmed',
  'confirm_time',
] as const
export type BuiltInColumn = (typeof builtInColumns)[number]

export const sourceTypes = ['json', 'upload_directory', 'url'] as const
export type SourceType = (typeof sourceTypes)[number]

export const fileFormat = z.object({
  csv_has_headers: z.boolean(),
  character_set: z.enum(['utf-8', 'iso-8859-1']),
  csv_field_separator: z.enum([',', '\t', ';']),
  csv_field_enclosure: z.enum(['"', "'"]),
  date_format: z.enum(['mdy', 'dmy']),
})
export type FileFormat = z.infer<typeof fileFormat>

const autoresponderReference = z.object({ id: id(), name: z.string() })

/** What the creator of an import asked for, with the defaults filled in. */
export const importOptions = z.object({
  overwrite: z.boolean(),
  deactivate_subscribers_not_in_import: z.boolean(),
  autoresponders: z.object({
    subscription: z.object({ trigger: z.boolean(), also_trigger_on_updated_subscribers: z.boolean() }),
    api: z.object({
      trigger_new: autoresponderReference.nullable(),
      trigger_updated: autoresponderReference.nullable(),
    }),
  }),
  overwrite_what: z.object({
    custom_fields: z.boolean(),
    confirmed: z.boolean(),
    format: z.boolean(),
    status: z.boolean(),
  }),
  overwrite_when_status: z.object({
    active: z.boolean(),
    unsubscribed: z.boolean(),
    bounced: z.boolean(),
    deactivated: z.boolean(),
    scomp: z.boolean(),
  }),
  /** One entry a CSV column: a built-in column, a custom field's name, or null for a column that is ignored. */
  column_mapping: z.array(z.string().nullable()),
  default_custom_fields: z.record(z.string(), fieldValue),
  subscriber_defaults: z.object({
    status: z.enum(subscriberStatuses),
    confirmed: z.boolean().optional(),
    format: z.enum(emailFormats).optional(),
  }),
  file_format: fileFormat,
  dry_run: z.boolean(),
  blank_cells: z.enum(['keep', 'clear']),
})
export type ImportOptions = z.infer<typeof importOptions>

const column = z.union([
  z.object({ kind: z.literal('built_in'), name: z.enum(builtInColumns) }),
  z.object({ kind: z.literal('field'), field_id: id() }),
  z.null(),
])
export type PlannedColumn = z.infer<typeof column>

/**
 * All that reading and writing a row depends on, fixed when the import leaves `scheduled`: what is changed on the
 * list later doesn't reach an import that runs.
 */
const importPlan = z.object({
  time_zone_name: z.string(),
  has_format: z.boolean(),
  has_confirmed: z.boolean(),
  identity: z.object({
    kind: z.enum(['email', 'text', 'number']),
    column: integer().min(0),
    field_id: id().nullable(),
  }),
  columns: z.array(column),
  fields: z.array(fieldDefinition),
  /** `default_custom_fields` by field id. */
  default_values: z.record(z.string(), fieldValue),
  /** Autoresponders that get a reaction for each subscriber that the import adds or updates. */
  reactions: z.object({
    /** On-subscription ones, which run for active subscribers only. */
    on_subscription: z.object({ added: z.array(id()), updated: z.array(id()) }),
    by_api: z.object({ added: z.array(id()), updated: z.array(id()) }),
    /** When those of each of them are due. */
    delays: z.array(delayOf.extend({ autoresponder_id: id() })),
  }),
  /** Active subscribers of the list at the start. */
  active_at_start: integer(),
  /** No subscriber was on the list at the start, so the first look for existing ones may be left out. */
  list_was_empty: z.boolean(),
  /** Subscriber ids from here on were handed out after the import began. */
  first_new_subscriber_id: id(),
})
export type ImportPlan = z.infer<typeof importPlan>

const uploadDocument = z.object({
  /** What keeps the file as it was (shared/storage/uploads/upload-store.ts); null when there was none of that name. */
  pin: z.object({ reference: z.string(), fingerprint: z.string(), is_settled: z.boolean() }).nullable(),
  /** Something else than our FTP server was writing it: since when it is waited for, and its last fingerprint. */
  waiting: z.object({ since: instant(), fingerprint: z.string() }).nullable(),
})
export type UploadDocument = z.infer<typeof uploadDocument>

const partitionSecondHalf = z.object({
  name: z.string(),
  /** How many are in the source before it. */
  records: integer().min(0),
  lines: integer().min(0),
})
export type PartitionSecondHalf = z.infer<typeof partitionSecondHalf>

export const importDocument = z.object({
  _id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  created_at: instant(),
  begins_at: instant(),
  started_at: instant().nullable(),
  finished_at: instant().nullable(),
  state: z.enum(importStates),
  paused_from: z.enum(pausableStates).nullable(),
  /** Since when it is paused; null unless it is. */
  paused_at: instant().nullable(),
  /** Raised by each pause and by the cancel: chunks are claimed by who has read the last one. Absent is 0. */
  fence: integer().min(0).optional(),
  /** True while this import has its list for itself; absent otherwise (a partial unique index stands on it). */
  holds_list: z.literal(true).optional(),
  options: importOptions,
  /** Ids of the custom fields that the options name: a field may be renamed before the import begins. */
  field_ids: z.record(z.string(), id()),
  source: z.object({
    type: z.enum(sourceTypes),
    /** As shown: `data` for inline content. */
    filename: z.string(),
    /** Without its secrets where there is `sealed`, and after the end (shared/runtime/import-secrets.ts). */
    url: z.string().nullable(),
  }),
  /** Subscriber ids from here on were handed out after the import began; null before. */
  first_new_subscriber_id: id().nullable(),
  /**
   * The list's epoch that began just before this import did. Subscribers with this one or a later one were added after
   * that. Absent: it deactivates nobody, or hasn't begun.
   */
  import_epoch: integer().min(0).optional(),
  /** The folder in which an engine last found a file of it missing, and when; see engine/store/missing-files.ts. */
  missing: z.object({ folder: z.string(), at: instant() }).optional(),
  /** Times that a step broke off for a reason that nobody foresaw, or at a timeout, since the deactivation last got on. */
  step_failures: integer().min(0),
  /** Engines that died while they held its step since it last got on; absent is 0. */
  step_deaths: integer().min(0).optional(),
  /**
   * Nobody takes the import's step before that: it broke off, or its upload was still being written and is looked at
   * again. It may be past. Absent: no step has had to wait.
   */
  step_not_before: instant().optional(),
  /** Of a source that is a URL. */
  download: z.object({
    /** Tries that failed. One that an engine's death or a pause broke off is none: it is done again. */
    attempts: integer().min(0),
    /** No try begins before that: one failed. Null from the beginning of the next one on. */
    next_attempt_at: instant().nullable(),
    /** When the time for all tries is over; a pause moves it on. Null before the first one. */
    ends_at: instant().nullable(),
    bytes_received: integer().min(0),
    bytes_expected: integer().min(0).nullable(),
  }),
  /** Of an upload: the file as it was when the import began. */
  upload: uploadDocument.optional(),
  /** Name of the staged source, where it isn't that of inline content. */
  staged: z.string().optional(),
  plan: importPlan.nullable(),
  /** Cells of the header as typed, for the failed log; null where the file has none. */
  header: z.array(z.string()).nullable(),
  number_of_records: integer().min(0).nullable(),
  /** Name of the staged partition that the chunks' extents lie in. */
  partition: z.string().nullable(),
  /** The same of what came of the source's tail, where another thread split that (shared/csv/partition-file.ts). */
  partition_tail: partitionSecondHalf.optional(),
  /** The counts once nothing can change them any more; until then they are the sum over the chunks. */
  totals: importCounts.nullable(),
  error_message: z.string().nullable(),
  warnings: z.array(z.string()),
  /** Raised in each transaction that writes rows in a step, so that it and a pause or a cancel can't both commit. */
  step_writes: integer().min(0).optional(),
  /**
   * How far the search for subscribers that are absent from the file got, before any is deactivated: the chunk and the
   * `_id`, null for all of the chunks before, and how many were found. Absent: not begun, or begun a moment ago.
   */
  absent_search: z
    .object({ chunk: integer().min(0), to: z.string().nullable(), absent: integer().min(0) })
    .optional(),
  /** The engine that obtains, splits or finishes this import just now. Chunks have owners of their own. */
  step: z
    .object({
      engine_id: z.string(),
      token: z.string(),
      /** When something of it was last seen to move, or its claim. Absent: an engine of 0.1.0 holds it. */
      moved_at: instant().optional(),
    })
    .nullable(),
  /** The same holds for its URL; its secret is here only where it isn't sealed. */
  callback: z.object({ url: z.string(), secret: z.string().optional() }).nullable(),
  /** The URLs whole and the secret, encrypted. */
  sealed: bytes().optional(),
  /**
   * Whether it holds secrets, sealed or in the clear. False from the beginning where it has none, else when they were
   * dropped. Absent: an earlier version made it, and it may hold some.
   */
  has_secrets: z.boolean().optional(),
  /** When the logs were removed; null while they are there. */
  logs_purged_at: instant().nullable(),
  /** False while an engine still has something to do for it, be it only to clear up after its end. */
  settled: z.boolean(),
})
export type ImportDocument = z.infer<typeof importDocument>

/** How the staged bytes read. Inline content is text and staged as UTF-8, whatever `character_set` its import names. */
export function contentFormat({ source, options }: Pick<ImportDocument, 'source' | 'options'>): FileFormat {
  return source.type === 'json' ? { ...options.file_format, character_set: 'utf-8' } : options.file_format
}

const chunkStates = ['ready', 'running', 'done'] as const

/**
 * A chunk: the records of one range of identities, the unit of leasing. Whoever holds its token writes its batches
 * one after the other; each batch's transaction also moves `next_record` and `counts`, filtered by the token, so a
 * batch commits once and only for the holder.
 */
export const chunkDocument = z.object({
  /** `<import>:<number>`, see chunkId. */
  _id: z.string(),
  import_id: id(),
  organization_id: id(),
  dry_run: z.boolean(),
  number: integer().min(0),
  state: z.enum(chunkStates),
  /** How its records lie: to be sorted by identity, all of one identity in file order, or without any identity. */
  kind: z.enum(['sorted', 'single_identity', 'unidentified']),
  /** The range of identities [from, to); null is open. */
  from: z.string().nullable(),
  to: z.string().nullable(),
  /** Where its bytes lie in the partition: offset, length, offset, length, ... */
  extents: z.array(integer().min(0)),
  crc32: integer().min(0),
  record_count: integer().min(0),
  /** Its records' subscriber ids are this one and those after it. */
  first_subscriber_id: id(),
  /** Likewise, so many for each record as the plan has autoresponders. */
  first_reaction_id: id(),
  /** Places under the organization's subscriber limit that its next batches may fill; 0 unless it is held. */
  places_held: integer().min(0),
  /** Of a dry run: places that its rows would have taken. */
  places_used: integer().min(0),
  token: z.string().nullable(),
  engine_id: z.string().nullable(),
  /** The import's fence when that last took chunks away; claims by who has read an older one find nothing. Absent is 0. */
  fence: integer().min(0).optional(),
  /** Times that it was claimed since a batch of it last committed. */
  attempt: integer().min(0),
  /** Engines that died while they held it since a batch of it last committed; absent is 0. */
  deaths: integer().min(0).optional(),
  lease_until: instant().nullable(),
  /** Records of it that are done, in its order: its next batch begins there. */
  next_record: integer().min(0),
  /** Subscribers of its range before this `_id` were looked at for being absent from the import. */
  deactivated_to: z.string().nullable(),
  counts: importCounts,
})
export type ChunkDocument = z.infer<typeof chunkDocument>

/** `_id` of a chunk. Digits are padded, so that ids sort as numbers. */
export const chunkId = (importId: number, number: number): string =>
  `${importId}:${String(number).padStart(6, '0')}`

/**
 * What one batch did, written in its transaction. In `_id` order the logs of an import are in identity order.
 */
export const outcomeDocument = z.object({
  /** `<import>:<chunk number>:<its first record's position in the chunk>`, or a deactivationId */
  _id: z.string(),
  /** By log kind, `failed` excepted: email addresses, one a line, deflated. */
  logs: z.record(z.string(), bytes()),
})
export type OutcomeDocument = z.infer<typeof outcomeDocument>

export const outcomeId = (chunk: string, firstRecord: number): string =>
  `${chunk}:${String(firstRecord).padStart(10, '0')}`

/** `_id` of what the n-th deactivation in a chunk's range did; sorts after the chunk's batches. */
export const deactivationId = (chunk: string, n: number): string =>
  `${chunk}:deactivated:${String(n).padStart(8, '0')}`

/** Of the next one, by the last one's; undefined where there is none. */
export const nextDeactivationId = (chunk: string, last: string | undefined): string =>
  deactivationId(chunk, last === undefined ? 0 : Number(last.slice(last.lastIndexOf(':') + 1)) + 1)

/** A line of the `failed` log. In `_id` order they are in file order. */
export const failureDocument = z.object({
  /** `<import>:<record number>` */
  _id: z.string(),
  /** The record's cells and the message as a CSV line, without its end. */
  line: z.string(),
})
export type FailureDocument = z.infer<typeof failureDocument>

export const failureId = (importId: number, recordNumber: number): string =>
  `${importId}:${String(recordNumber).padStart(12, '0')}`

/** Days after its end for which an import's logs are kept. */
export const logDays = 7

/** The filter on `_id` for all chunks, outcomes or failures of an import: ";" follows ":". */
export const idsOfImport = (importId: number) => ({ $gte: `${importId}:`, $lt: `${importId};` })
