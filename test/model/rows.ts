import type { FieldDefinition, FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type { ImportOptions } from '../../shared/contract/schemas/import.ts'
import { emailFormats } from '../../shared/contract/schemas/subscriber.ts'
import type { EmailFormat, SubscriberStatus } from '../../shared/contract/schemas/subscriber.ts'
import { isNoValue, readBoolean, readFieldCell } from './cells.ts'
import { decode, isValid, type SplitSet } from './character-set.ts'
import { comparisonForm } from './comparison-form.ts'
import { isNoDate, readMoment } from './dates.ts'
import { emailKey, readEmail } from './email-address.ts'
import { canonicalIp } from './ip-address.ts'
import type { RawRecord } from './records.ts'
import type { ModelledList } from './subscriber-table.ts'

/** Reads the cells of a record (decisions 2.4 to 2.7). */

export interface Row {
  /** The number of the record, from 0. */
  number: number
  /** The cells as typed; bytes that are no text are U+FFFD. */
  cells: string[]
  /** The email cell, trimmed. */
  typedEmail: string
  /** Null where it isn't valid: the row fails, and counts for no identity. */
  identity: string | null
  hasInvalidBytes: boolean
  isTooLong: boolean
  /** The line on which the record begins, from 1. */
  line: number
  /** What is wrong with it, whatever becomes of the row; null for nothing. */
  fault: Fault | null
  /** The values of the cells; null where one of them, or the whole record, isn't valid. */
  content: RowContent | null
}

/** "Under the first fault in the order of 2.7, then by column" (beyond 1). */
export interface Fault {
  /** Index in the mapping; "null where the whole record is at fault". */
  column: number | null
  kind: string
  field: string | null
  /** The cell as typed. */
  example: string | null
}

/** The values of a row; blank and unmapped cells are left out. */
export interface RowContent {
  email: string
  status?: SubscriberStatus
  format?: EmailFormat
  subscribeTime?: Date
  subscribeIp?: string
  removeTime?: Date
  removeIp?: string
  confirmed?: boolean
  confirmTime?: Date
  /** Values by field id. */
  values: Record<number, FieldValue>
  /** Ids of mapped custom fields whose cell is blank. */
  blankFields: number[]
}

interface RowContext {
  options: ImportOptions
  list: ModelledList
  characterSet: SplitSet
}

export function readRow(record: RawRecord, number: number, around: RowContext): Row {
  const { options, characterSet } = around
  const cells = record.cells.map((cell) => decode(cell, characterSet))
  const hasInvalidBytes = !isValid(record.bytes, characterSet)
  const { line, isTooLong } = record
  const row = {
    number,
    cells,
    line,
    isTooLong,
    hasInvalidBytes,
    typedEmail: '',
    identity: null,
    content: null,
  }
  // "An unterminated record has none."
  if (record.isUnterminated) return { ...row, fault: recordFault('unterminated') }
  const mapping = options.column_mapping
  const isWhole =
    !record.isTooLong &&
    !hasInvalidBytes &&
    !record.bytes.includes('\0') &&
    cells.slice(mapping.length).every((cell) => textOf(cell) === '')
  const identity = readIdentity(record, around)
  return {
    ...row,
    typedEmail: (cells[mapping.indexOf('email')] ?? '').trim(),
    identity,
    fault: faultOf(record, cells, identity, around),
    content: isWhole ? readContent(cells, around) : null,
  }
}

/** "Trimmed as JavaScript's `trim` does; a cell `="text"` (a spreadsheet's protected text) is its text" (2.5). */
export function textOf(cell: string): string {
  const text = cell.trim()
  const inside = text.length > 2 && text.startsWith('="') && text.endsWith('"') ? text.slice(2, -1) : null
  return inside === null || inside.replaceAll('""', '').includes('"')
    ? text
    : inside.replaceAll('""', '"').trim()
}

/** "Short records are padded with blanks." */
const cellOf = (cells: string[], mapping: (string | null)[], column: string): string =>
  textOf(cells[mapping.indexOf(column)] ?? '')

const identityBytes = 64 * 1024

/**
 * "It is read at its place even in a record that has bad bytes in another cell, and in one that is too long where it
 * ends within the record's first 64 KiB" (2.7).
 */
function readIdentity(record: RawRecord, { options, list, characterSet }: RowContext): string | null {
  const key = list.primaryKey
  const column = options.column_mapping.indexOf(key === null ? 'email' : key.name)
  const raw = record.cells[column] ?? ''
  if (record.isTooLong && record.typedCells.slice(0, column + 1).join(',').length > identityBytes) return null
  if (!isValid(raw, characterSet) || raw.includes('\0')) return null
  const text = textOf(decode(raw, characterSet))
  if (text === '') return null
  if (key === null) return emailKey(text)
  const value = readFieldCell(text, key, options.file_format.date_format)
  return value === null ? null : identityOf(value)
}

/** "Text without case as emails are, numbers by value" (2.6). */
export const identityOf = (value: FieldValue): string =>
  typeof value === 'string' ? comparisonForm(value) : String(value)

class InvalidCell extends Error {}

function readContent(cells: string[], around: RowContext): RowContent | null {
  try {
    return contentOf(cells, around)
  } catch (error) {
    if (error instanceof InvalidCell) return null
    throw error
  }
}

function contentOf(cells: string[], { options, list }: RowContext): RowContent {
  const mapping = options.column_mapping
  const order = options.file_format.date_format
  const read = <T>(column: string, reader: (text: string) => T | null): T | undefined => {
    const text = cellOf(cells, mapping, column)
    return text === '' ? undefined : valid(reader(text))
  }
  const moment = (column: string) => {
    const text = cellOf(cells, mapping, column)
    return isNoDate(text) ? undefined : read(column, () => readMoment(text, order, list.timeZone))
  }
  const email = valid(read('email', (text) => readEmail(text)?.stored ?? null) ?? null)
  return {
    email,
    ...ifPresent('status', read('status', readStatus)),
    ...ifPresent('status', read('consent', readConsent)),
    ...ifPresent('format', read('email_format', nameIn(emailFormats))),
    ...ifPresent('subscribeTime', moment('subscribe_time')),
    ...ifPresent('subscribeIp', read('subscribe_ip', canonicalIp)),
    ...ifPresent('removeTime', moment('remove_time')),
    ...ifPresent('removeIp', read('remove_ip', canonicalIp)),
    ...ifPresent('confirmed', read('confirmed', readBoolean)),
    ...ifPresent('confirmTime', moment('confirm_time')),
    ...fieldsOf(cells, mapping, list.fields, order),
  }
}

function fieldsOf(
  cells: string[],
  mapping: (string | null)[],
  fields: FieldDefinition[],
  order: 'mdy' | 'dmy',
): Pick<RowContent, 'values' | 'blankFields'> {
  const values: Record<number, FieldValue> = {}
  const blankFields: number[] = []
  for (const field of fields.filter((field) => mapping.includes(field.name))) {
    const text = cellOf(cells, mapping, field.name)
    const value = text === '' ? [] : valid(readFieldCell(text, field, order))
    if (isNoValue(value)) blankFields.push(field.id)
    else values[field.id] = value
  }
  return { values, blankFields }
}

function valid<T>(value: T | null): T {
  if (value === null) throw new InvalidCell()
  return value
}

/** Which status each name of a system stands for: "without case; blanks, `_` and `-` alike" (2.5). */
const statusNames: [SubscriberStatus, RegExp][] = [
  ['active', /^(active|subscribed|confirmed|opted in|opt in)$/],
  [
    'unsubscribed',
    /^(unsubscribed|opted out|opt out|not subscribed|non subscribed|never subscribed|suppressed)$/,
  ],
  ['bounced', /^(bounced|cleaned|hard bounce|hard bounced)$/],
  ['scomp', /^(scomp|spam|spam complaint|complained)$/],
  ['deactivated', /^(deactivated|inactive|disabled|archived)$/],
]
const spaced = (text: string): string =>
  text
    .toLowerCase()
    .split(/[\s_-]+/)
    .join(' ')
const readStatus = (text: string): SubscriberStatus | null =>
  statusNames.find(([, names]) => names.test(spaced(text)))?.[0] ?? null

/** "A boolean cell, or `subscribed`/`not subscribed`; yes is `active`, no is `unsubscribed`" (2.1). */
function readConsent(text: string): SubscriberStatus | null {
  const name = spaced(text)
  const isYes = name === 'subscribed' ? true : name === 'not subscribed' ? false : readBoolean(text)
  if (isYes === null) return null
  return isYes ? 'active' : 'unsubscribed'
}

/** "Format unknown (without case)." */
const nameIn =
  <T extends string>(names: readonly T[]) =>
  (text: string): T | null =>
    names.find((name) => name === text.toLowerCase()) ?? null

const ifPresent = <K extends string, T>(key: K, value: T | undefined): Partial<Record<K, T>> =>
  value === undefined ? {} : ({ [key]: value } as Record<K, T>)

const recordFault = (kind: string): Fault => ({ column: null, kind, field: null, example: null })

/**
 * The fault of a record that isn't unterminated. Of one that is too long only the beginning is kept, so that none of its
 * cells is at fault.
 */
function faultOf(
  record: RawRecord,
  cells: string[],
  identity: string | null,
  around: RowContext,
): Fault | null {
  const { options, list, characterSet } = around
  const mapping = options.column_mapping
  if (record.isTooLong) return recordFault('too long')
  const isEncoded = isValid(record.bytes, characterSet)
  const isSound = isEncoded && !record.bytes.includes('\0')
  const key = mapping.indexOf(list.primaryKey?.name ?? 'email')
  const isReadable = isSound || !/[\0\ufffd]/.test(cells[key] ?? '')
  if (identity === null && isReadable) return cellFault(key, cells, around)
  if (!isEncoded) return recordFault('encoding')
  if (!isSound) return recordFault('NUL')
  if (cells.slice(mapping.length).some((cell) => textOf(cell) !== '')) return recordFault('surplus')
  for (const column of mapping.keys()) {
    const fault = cellFault(column, cells, around)
    if (fault !== null) return fault
  }
  return null
}

/** The fault of one cell: null where it makes a sound row beside a sound identity. */
function cellFault(column: number, cells: string[], around: RowContext): Fault | null {
  const { options, list } = around
  const mapping = options.column_mapping
  const name = mapping[column] ?? null
  if (name === null) return null
  const text = cellOf(cells, mapping, name)
  const isNeeded = name === 'email' || name === list.primaryKey?.name
  const isRead = (order: 'mdy' | 'dmy'): boolean => {
    if (name === 'email') return emailKey(text) !== null
    const alone = {
      ...options,
      column_mapping: ['email', name],
      file_format: { ...options.file_format, date_format: order },
    }
    return readContent(['a@b.co', text], { ...around, options: alone }) !== null
  }
  if (text === '' ? !isNeeded : isRead(options.file_format.date_format)) return null
  const kind = cellFaultKind(name, text, options, isRead)
  return { column, kind, field: name, example: cutExample(cells[column] ?? '') }
}

function cellFaultKind(
  name: string,
  text: string,
  { file_format: format }: ImportOptions,
  isRead: (order: 'mdy' | 'dmy') => boolean,
): string {
  if (text === '') return 'blank'
  if (name === 'email' && text.toLowerCase().startsWith('mailto:')) return 'mailto'
  if (name === 'email' && /[<>]/.test(text)) return 'angle bracket'
  if (name === 'email' && /[:;]/.test(text)) return 'separator'
  return format.date_format === 'mdy' && isRead('dmy') ? 'day first' : 'value'
}

/** "At most 60 code points (cut with `…`)." */
export function cutExample(cell: string): string {
  const characters = Array.from(cell)
  return characters.length > 60 ? `${characters.slice(0, 59).join('')}…` : cell
}
