import type { FieldDefinition, FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type {
  DetectedCharacterSet,
  ImportOptions,
  LogKind,
  Separator,
} from '../../shared/contract/schemas/import.ts'
import type { EmailFormat, SubscriberStatus } from '../../shared/contract/schemas/subscriber.ts'
import type { SplitSet } from './character-set.ts'
import type { ExpectedWarning, Refusal } from './file-content.ts'

/**
 * The input of the model. It follows the specification's text alone and shares only the shapes of stored documents
 * with the product. It is slow and plain on purpose.
 */

/** A moment that the file or the table names, or `now`: some moment between an import's start and its end. */
export type Moment = Date | 'now'

export interface Subscriber {
  /** The identity in comparison form. */
  identity: string
  email: string
  status: SubscriberStatus
  subscribeTime: Moment
  subscribeIp: string | null
  removeTime: Moment | null
  removeIp: string | null
  format: EmailFormat
  confirmed: boolean
  confirmTime: Moment | null
  /** Values by field id; null where there is none. */
  values: Record<number, FieldValue | null>
}

/** Subscribers by identity. */
export type SubscriberTable = Map<string, Subscriber>

export interface ModelledList {
  hasFormat: boolean
  hasConfirmed: boolean
  fields: FieldDefinition[]
  /** The field that tells subscribers apart; null: the email does. */
  primaryKey: FieldDefinition | null
  /** The organization's zone, an IANA name. */
  timeZone: string
}

export interface ModelledImport {
  bytes: Uint8Array
  /** Sent as JSON text: UTF-8, whatever character set was named. */
  isInline: boolean
  /** What `inspect` proposes, where the separator is `auto`. */
  proposedSeparator?: Separator | undefined
  /** The options with the API's defaults; `default_custom_fields` as given. */
  options: ImportOptions
  list: ModelledList
  existing: SubscriberTable
  /** Active subscribers that the organization may still add; null is unlimited. */
  quota: number | null
}

/** An entry of `failure_summary`. The reason is the service's own text; one kind of fault has one reason. */
export interface ExpectedFault {
  column: number | null
  header: string | null
  field: string | null
  rows: number
  first_record: number
  example: string | null
}

export interface ExpectedLogFormat {
  set: SplitSet
  hasMark: boolean
  separator: Separator
  /** It begins with a line such as `sep=;`. */
  hasSeparatorLine: boolean
  /** The lines before the table, a character a byte of `set`. */
  skippedText: string
}

export interface ExpectedEnd {
  state: 'finished' | 'failed'
  /** Null where the import failed before its records were read. */
  numberOfRecords: number | null
  counts: Record<LogKind, number>
  /** Lines by kind, in order; a kind without any has no log. Null where a record that is too long may lack its email. */
  logs: Partial<Record<Exclude<LogKind, 'failed'>, (string | null)[]>>
  /** Cells of the failed log, the line and not the message at their end; the header, if any, first. */
  failedLog: string[][]
  failureSummary: ExpectedFault[]
  /** Null where there is none, because the import failed before a row was read. */
  logFormat: ExpectedLogFormat | null
  detectedSet: DetectedCharacterSet | null
  detectedSeparator: Separator | null
  warnings: ExpectedWarning[]
  /** Set where the import failed before a row was read. */
  refusal: Refusal | null
  table: SubscriberTable
  /** Set where the limit cuts rows off: then only how many rows are skipped is determined, within these bounds. */
  overLimit: { min: number; max: number } | null
}
