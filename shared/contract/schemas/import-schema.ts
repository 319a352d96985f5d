import { z } from 'zod'
import { recordFromKeys } from '../record-from-keys.ts'
import { importStates, pausableStates, unfinishedStates } from '../import-state.ts'
import { actingParty } from './audit-event.ts'
import { delaySettings } from './autoresponder-schema.ts'
import { bytes, id, instant, integer } from './bson-schema.ts'
import { lease } from './lease.ts'
import { fieldDefinition, fieldValue } from './custom-field-schema.ts'
import { emailFormats, subscriberStatuses } from './subscriber.ts'
import {
  builtInColumns,
  characterSets,
  enclosures,
  escapes,
  logKinds,
  remarkKinds,
  separators,
  sourceTypes,
  subscriberDefaults,
} from './import.ts'

const count = () => integer().min(0)
const countsByKind = z.object(recordFromKeys(logKinds, count))

export const importCounts = countsByKind.extend({
  /** Absent is 0. */
  ...recordFromKeys(remarkKinds, () => count().optional()),
  /** Bytes of failed rows in the database, and after the end those of the import's default values too; absent is 0. */
  kept_bytes: count().optional(),
})

/** How many rows have a fault. A row counts once, under its first fault. */
export const faultCount = z.object({
  /** One of `faultKinds`; an engine of a later version may know others. */
  kind: z.string(),
  /** Index in the mapping; null where the whole record is at fault, or the field isn't mapped. */
  column: integer().min(0).nullable(),
  /** The required field without a value; null for other faults. */
  field_id: id().nullable(),
  rows: integer().min(1),
  /** The first of the rows, and its cell. The server compares the keys in this order. */
  first: z.object({ record: integer().min(1), example: z.string().nullable() }),
})

/** The requested format. `auto` is detected in the file's beginning; see `ContentFormat`. */
export const fileFormat = z.object({
  csv_has_headers: z.boolean(),
  character_set: z.enum([...characterSets, 'auto']),
  csv_field_separator: z.enum([...separators, 'auto']),
  csv_field_enclosure: z.enum(enclosures),
  csv_field_escape: z.enum(escapes).nullable(),
  /** Lines before the table. */
  csv_skip_lines: integer().min(0),
  date_format: z.enum(['mdy', 'dmy']),
})

const autoresponderReference = z.object({ id: id(), name: z.string() })

/** Options of a creation, with defaults filled in. */
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
  /** One entry per CSV column: a built-in column, the name of a custom field, or null to ignore the column. */
  column_mapping: z.array(z.string().nullable()),
  default_custom_fields: z.record(z.string(), fieldValue),
  subscriber_defaults: z.object({
    status: z.enum(subscriberStatuses),
    confirmed: z.boolean().optional(),
    format: z.enum(emailFormats).optional(),
  }),
  /** What of `subscriber_defaults` the request has: only that can change existing subscribers. */
  given_defaults: z.array(z.enum(subscriberDefaults)),
  file_format: fileFormat,
  /** The request had no separator, so that a first line such as `sep=;` decides. Absent: it had one. */
  default_separator: z.literal(true).optional(),
  dry_run: z.boolean(),
  blank_cells: z.enum(['keep', 'clear']),
  apply_custom_field_defaults: z.boolean(),
})

export const column = z.union([
  z.object({ kind: z.literal('built_in'), name: z.enum(builtInColumns) }),
  z.object({ kind: z.literal('field'), field_id: id() }),
  z.null(),
])

/**
 * Everything that parsing and writing a row depends on. It is fixed when the import leaves `scheduled`, so that later
 * changes of the list don't affect a running import.
 */
export const importPlan = z.object({
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
  /** `default_custom_fields` by id of the field. */
  default_values: z.record(z.string(), fieldValue),
  /** Autoresponders that get a reaction for each subscriber that the import adds or updates. */
  reactions: z.object({
    /** Autoresponders with the trigger `subscription`, which answer active subscribers only. */
    on_subscription: z.object({ added: z.array(id()), updated: z.array(id()) }),
    by_api: z.object({ added: z.array(id()), updated: z.array(id()) }),
    /** When the reactions of each autoresponder are due. */
    delays: z.array(delaySettings.extend({ autoresponder_id: id() })),
  }),
  /** Number of active subscribers of the list at the start; 0 where absent ones aren't deactivated. */
  active_at_start: integer(),
  /** Whether the organization had a limit when the plan was made. Chunks read it when they are claimed. */
  has_subscriber_limit: z.boolean(),
  /** The list had no subscribers at the start, so the first attempt of a batch needn't read existing ones. */
  list_was_empty: z.boolean(),
})

/** What the beginning of the source said. It is stored once, so that every engine reads the staged bytes alike. */
export const sourceBeginning = z.object({
  /** The character set that the source was read in. */
  character_set: z.enum(characterSets),
  csv_field_separator: z.enum(separators),
  /** Where the table begins in the staged bytes: behind a byte order mark, a `sep=` line and `csv_skip_lines`. */
  start: integer().min(0),
  /** Lines before the table. */
  skipped_lines: integer().min(0),
  /** The lines of `csv_skip_lines`, for the failed log; absent where there are none. */
  skipped_text: z.string().optional(),
  /** Bytes of the source before it was converted to UTF-8; absent when it is staged as it is. */
  source_bytes: integer().min(0).optional(),
})

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
  /** Time of the pause; null unless it is paused. */
  paused_at: instant().nullable(),
  /** Absent in imports of earlier versions. */
  created_by: actingParty.optional(),
  /** Who cancelled it, and in which state; absent unless it was. */
  cancelled_by: actingParty.optional(),
  cancelled_from: z.enum(unfinishedStates).optional(),
  /** Fencing number, raised by each pause and by a cancel. A chunk can be claimed only with the latest one. */
  fence: integer().min(0),
  /** True while this import has the lock of its list, and absent otherwise, for a partial unique index. */
  holds_list: z.literal(true).optional(),
  options: importOptions,
  /** Ids of the custom fields in the options, because a field may be renamed before the import begins. */
  field_ids: z.record(z.string(), id()),
  source: z.object({
    type: z.enum(sourceTypes),
    /** `data` for inline content. */
    filename: z.string(),
    /** What replies, callbacks and the log show as the file's name. Absent: its filename. */
    display_name: z.string().optional(),
    /** The blob that the upload had at the creation, which is deleted with the import's end. Absent: it stays. */
    deleted_blob: z.string().optional(),
    /** Its secrets are left out when `sealed` is present, and after the end (shared/store/secrets.ts). */
    url: z.string().nullable(),
  }),
  /**
   * Inline content of at most 64 KiB, packed (shared/storage/staging/packed-content.ts), until its rows are written or it
   * is split. Absent: it is staged.
   */
  content: bytes().optional(),
  /** Subscriber ids from this one on were allocated after the import began. Null: as with `import_epoch`. */
  first_new_subscriber_id: id().nullable(),
  /**
   * The list's epoch that began just before this import. Subscribers with this epoch or a later one were added after
   * that. Absent: the import deactivates no subscribers, or hasn't begun.
   */
  import_epoch: integer().min(0).optional(),
  /** For sources that are URLs. */
  download: z.object({
    /** Failed attempts. An attempt that an engine's death or a pause broke off doesn't count and is made again. */
    attempts: integer().min(0),
    /** Earliest time of the next attempt after a failed one; null once that attempt begins. */
    next_attempt_at: instant().nullable(),
    /** Deadline of all attempts, which a pause postpones; null before the first attempt. */
    ends_at: instant().nullable(),
    bytes_received: integer().min(0),
    bytes_expected: integer().min(0).nullable(),
  }),
  /** Of an upload: the blob of the file as it was when the import began. Absent when there was none. */
  pinned: z.string().optional(),
  /** Name of the staged source. Absent until it is staged, and for inline content, whose name is made of the id. */
  staged: z.string().optional(),
  /** What the beginning of the source says; absent until it is read. */
  beginning: sourceBeginning.optional(),
  plan: importPlan.nullable(),
  /** No subscriber is deactivated for not being in the file, because records of it may have swallowed others. */
  keeps_absent: z.literal(true).optional(),
  /** Cells of the header as typed, for the failed log; null when the file has no header. */
  header: z.array(z.string()).nullable(),
  number_of_records: integer().min(0).nullable(),
  /** Name of the staged partition with the pieces of the chunks. */
  partition: z.string().nullable(),
  /** The final counts; until they are fixed, the counts are the sum over the chunks. */
  totals: importCounts.nullable(),
  /** The most frequent faults, stored with the totals; absent when there are none. */
  faults: z.array(faultCount).optional(),
  error_message: z.string().nullable(),
  warnings: z.array(z.string()),
  /**
   * Optimistic lock: each transaction of a step that writes rows raises it, so that it conflicts with a pause or a
   * cancel.
   */
  step_writes: integer().min(0),
  /**
   * Progress of the search for subscribers that are absent from the file, before any is deactivated. `to` is the last
   * `_id` in the chunk; null means only the chunks before it. Absent: no progress yet.
   */
  absent_search: z
    .object({ chunk: integer().min(0), to: z.string().nullable(), absent: integer().min(0) })
    .optional(),
  /** Lease of the current step: obtain, split or finish. Chunks have their own leases. */
  lease,
  /** Its URL follows the rule of `source.url`. `secret` is present only when it isn't sealed. */
  callback: z.object({ url: z.string(), secret: z.string().optional() }).nullable(),
  /** The complete URLs and the secret, encrypted. */
  sealed: bytes().optional(),
  /** Whether the import has secrets, sealed or in the clear; false once they are dropped. */
  has_secrets: z.boolean(),
  /** When the logs were purged; null before. */
  logs_purged_at: instant().nullable(),
  /** Whether the import has ended and is finalized. Until then engines have work to do for it. */
  finalized: z.boolean(),
})

/**
 * A chunk has the records of one range of identities and is the unit of leasing. The engine with its token writes its
 * batches one after the other. Each batch's transaction also updates `next_record` and `counts`, filtered by the token,
 * so that a batch commits once and only for the lease holder.
 */
export const chunkDocument = z.object({
  /** `<import>:<number>`, see chunkId. */
  _id: z.string(),
  import_id: id(),
  organization_id: id(),
  dry_run: z.boolean(),
  number: integer().min(0),
  state: z.enum(['ready', 'running', 'done']),
  /**
   * sorted: engines sort its records by identity. single_identity: all have the same identity. unidentified: none has
   * one.
   */
  kind: z.enum(['sorted', 'single_identity', 'unidentified']),
  /** The range of identities [from, to); null is open. */
  from: z.string().nullable(),
  to: z.string().nullable(),
  /** Pieces of its bytes in the partition: offset, length, offset, length, ... */
  pieces: z.array(integer().min(0)),
  crc32: integer().min(0),
  record_count: integer().min(0),
  /** Subscriber id for its first record; later records have the ids after it. */
  first_subscriber_id: id(),
  /** First reaction id; each record has as many as the plan has autoresponders. */
  first_reaction_id: id(),
  /** Quota under the organization's subscriber limit that is reserved for its next batches; 0 unless it is leased. */
  quota_reserved: integer().min(0),
  /** In a dry run: the quota that its rows would have used. */
  quota_used: integer().min(0),
  lease,
  /** The import's fencing number when it last revoked leases; claims with an older number find nothing. */
  fence: integer().min(0),
  /** Number of its records that are done; the next batch begins with this record. */
  next_record: integer().min(0),
  /** Subscribers of its range before this `_id` were checked for absence from the import. */
  deactivated_to: z.string().nullable(),
  counts: importCounts,
  /** Faults of the rows that are counted as failed; absent is none. */
  faults: z.array(faultCount).optional(),
})

/** The results of one batch, written in its transaction. In `_id` order the logs of an import are in identity order. */
export const outcomeDocument = z.object({
  /** `<import>:<chunk number>:<position of its first record in the chunk>`, or a deactivationId. */
  _id: z.string(),
  /** By log kind, except `failed`: email addresses, one per line, deflated. */
  logs: z.record(z.string(), bytes()),
})

/** A line of the `failed` log. `_id` order is file order. */
export const failureDocument = z.object({
  /** `<import>:<record number>` */
  _id: z.string(),
  /** The record's cells and the message as a CSV line, without its line end. */
  line: z.string(),
  /** Physical line of the file on which the record begins, from 1. */
  file_line: integer().min(1),
})
