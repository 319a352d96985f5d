import type { z } from 'zod'
import { recordFromKeys } from '../record-from-keys.ts'
import type {
  chunkDocument,
  column,
  faultCount,
  fileFormat,
  importCounts,
  importDocument,
  importOptions,
  importPlan,
  sourceBeginning,
} from './import-schema.ts'

/** Results of a record, which also name the logs and the counts. Each record has exactly one. */
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

/** `deactivated` counts subscribers that are in no record, so it isn't part of any sum of records. */
export const logKinds = [...rowResults, 'deactivated'] as const
export type LogKind = (typeof logKinds)[number]

/**
 * What good rows have that the import warns of: dates with the month first although `date_format` is `dmy`, marks for no
 * date, emails from which invisible characters were removed, and emails with `|`, `{` or `}` before the @.
 */
export const remarkKinds = [
  'month_first_dates',
  'no_dates',
  'invisible_characters',
  'unusual_addresses',
] as const
export type RemarkKind = (typeof remarkKinds)[number]

/** The counts that are no kinds of log. */
export const furtherCounts = [...remarkKinds, 'kept_bytes'] as const
export type ImportCounts = z.infer<typeof importCounts>

export const noCounts = (): ImportCounts => recordFromKeys(logKinds, () => 0)

export const recordsIn = (counts: ImportCounts): number =>
  rowResults.reduce((sum, result) => sum + counts[result], 0)

/** What can be wrong with a failed row. The sentences are in shared/csv/row-fault.ts. */
export const faultKinds = [
  // of a cell
  'blank',
  'wrong_value',
  'day_first',
  'mailto',
  'angle_bracket',
  'separator',
  'not_clearable',
  // of a record
  'encoding',
  'nul',
  'too_long',
  'unterminated',
  'surplus_cells',
  // of a subscriber
  'no_value',
  'too_large',
] as const
export type FaultKind = (typeof faultKinds)[number]

export type FaultCount = z.infer<typeof faultCount>
export type RowFault = Pick<FaultCount, 'column' | 'field_id'> & { kind: FaultKind }

/** Faults that an import shows. */
export const maxFaults = 20

/** Reserved column names, which custom fields can't have. */
export const builtInColumns = [
  'email',
  'status',
  'consent',
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

/** The character sets of files, as replies show their names (shared/csv/character-set.ts). */
export const characterSets = [
  'utf-8',
  'iso-8859-1',
  'windows-1252',
  'windows-1250',
  'windows-1251',
  'iso-8859-2',
  'iso-8859-15',
  'utf-16le',
  'utf-16be',
  'utf-16',
  'shift_jis',
  'gbk',
  'big5',
  'euc-kr',
] as const
export type CharacterSet = (typeof characterSets)[number]

/** Those that `auto` detects. */
export const detectedCharacterSets = ['utf-8', 'windows-1252', 'utf-16le', 'utf-16be'] as const
export type DetectedCharacterSet = (typeof detectedCharacterSets)[number]

export const separators = [',', '\t', ';', '|'] as const
export type Separator = (typeof separators)[number]
export const enclosures = ['"', "'"] as const
export const escapes = ['\\'] as const
export const maxSkipLines = 100
export type Escape = (typeof escapes)[number]

export type FileFormat = z.infer<typeof fileFormat>

/** The format in which a file is read, without `auto`. */
export interface ContentFormat extends Pick<
  FileFormat,
  'csv_has_headers' | 'csv_field_enclosure' | 'date_format'
> {
  /** Sets of several bytes a character are staged as UTF-8, and still named here. */
  character_set: CharacterSet
  csv_field_separator: Separator
  csv_field_escape: Escape | null
  /** `auto` was requested and detected this character set. */
  isDetected?: boolean
}

/** The keys of `subscriber_defaults`, which are also those of `overwrite_what`. */
export const subscriberDefaults = ['status', 'confirmed', 'format'] as const

export type ImportOptions = z.infer<typeof importOptions>

export type PlannedColumn = z.infer<typeof column>

export type ImportPlan = z.infer<typeof importPlan>

export type SourceBeginning = z.infer<typeof sourceBeginning>

export type ImportDocument = z.infer<typeof importDocument>

type ImportWithBeginning = Pick<ImportDocument, 'source' | 'options' | 'beginning'>

/** The format of the staged bytes, as far as it is known before the beginning is read. */
export function contentFormat({ source, options, beginning }: ImportWithBeginning): ContentFormat {
  const { character_set: characterSet, csv_field_separator: separator, ...others } = options.file_format
  const isDetected = characterSet === 'auto'
  return {
    ...others,
    character_set:
      beginning?.character_set ?? (isDetected || source.type === 'json' ? 'utf-8' : characterSet),
    csv_field_separator: beginning?.csv_field_separator ?? (separator === 'auto' ? ',' : separator),
    isDetected,
  }
}

/** The character set that `auto` detected; null when it wasn't requested, or the beginning isn't read yet. */
export const detectedCharacterSet = ({
  options,
  beginning,
}: ImportWithBeginning): DetectedCharacterSet | null =>
  options.file_format.character_set === 'auto'
    ? (detectedCharacterSets.find((set) => set === beginning?.character_set) ?? null)
    : null

export const shownFilename = ({ display_name, filename }: ImportDocument['source']): string =>
  display_name ?? filename

/** Whether a first line such as `sep=;` decided the separator. */
export const isSeparatorFromLine = ({ options, beginning }: Pick<ImportDocument, 'options' | 'beginning'>) =>
  beginning !== undefined &&
  beginning.skipped_lines > options.file_format.csv_skip_lines &&
  (options.default_separator === true || options.file_format.csv_field_separator === 'auto')

/** The separator that `auto` or such a line decided; null when neither did, or the beginning isn't read yet. */
export const detectedSeparator = (
  document: Pick<ImportDocument, 'options' | 'beginning'>,
): Separator | null =>
  document.options.file_format.csv_field_separator === 'auto' || isSeparatorFromLine(document)
    ? (document.beginning?.csv_field_separator ?? null)
    : null

export type ChunkDocument = z.infer<typeof chunkDocument>

/** `_id` of a chunk. Digits are padded, so that ids sort as numbers. */
export const chunkId = (importId: number, number: number): string =>
  `${importId}:${String(number).padStart(6, '0')}`

export const outcomeId = (chunk: string, firstRecord: number): string =>
  `${chunk}:${String(firstRecord).padStart(10, '0')}`

/** `_id` of the results of the n-th deactivation in a chunk's range. It sorts after the chunk's batches. */
export const deactivationId = (chunk: string, n: number): string =>
  `${chunk}:deactivated:${String(n).padStart(8, '0')}`

/** `last` is the `_id` of the last deactivation, or undefined before the first one. */
export const nextDeactivationId = (chunk: string, last: string | undefined): string =>
  deactivationId(chunk, last === undefined ? 0 : Number(last.slice(last.lastIndexOf(':') + 1)) + 1)

export const failureId = (importId: number, recordNumber: number): string =>
  `${importId}:${String(recordNumber).padStart(12, '0')}`

/** Days for which logs are kept after the end of their import. */
export const logDays = 7

/** Matches the `_id` of all chunks, outcomes or failures of an import, as a range: ";" is the character after ":". */
export const idsOfImport = (importId: number) => ({ $gte: `${importId}:`, $lt: `${importId};` })
