import type { ReadRecord } from './chunk-records.ts'
import type { FieldType } from '../contract/schemas/custom-field.ts'
import type {
  BuiltInColumn,
  FaultKind,
  ImportOptions,
  ImportPlan,
  PlannedColumn,
  RemarkKind,
} from '../contract/schemas/import.ts'
import {
  emailFormats,
  subscriberStatuses,
  type EmailFormat,
  type SubscriberStatus,
} from '../contract/schemas/subscriber.ts'
import {
  isMonthFirstDate,
  isNoDate,
  parseDateTime,
  parseDayOfYear,
  readDateTime,
  toInstantMs,
  type DateOrder,
} from '../values/date-time.ts'
import { emailExpectation, isMailto, parseEmail, visibleEmail } from '../values/email.ts'
import { booleanFromText } from '../values/boolean-text.ts'
import {
  booleanExpectation,
  dateExamples,
  fieldReader,
  maxTextLength,
  type CellValue,
} from '../values/field-value.ts'
import { canonicalIp, ipExpectation } from '../values/ip.ts'
import { statusFromConsent, statusFromText } from '../values/subscriber-status.ts'
import { remembering, TextBytes } from '../values/text-bytes.ts'
import { cellText, type RecordCells } from './csv-cells.ts'
import { cellReason, RowFailure, wholeFault } from './row-fault.ts'

/**
 * The parsed cells of a good row. Null means that the file has no value: no such column, or a blank cell. Texts are bytes
 * of the cells where they are stored as typed.
 */
export interface Row {
  /** The email in the form in which it is stored. */
  email: TextBytes | string
  /** From the column `status` or `consent`. */
  status: SubscriberStatus | null
  email_format: EmailFormat | null
  /** Times are milliseconds since 1970: V8 computes the local time of each Date, which takes 0.15 us. */
  subscribe_time: number | null
  subscribe_ip: string | null
  remove_time: number | null
  remove_ip: string | null
  confirmed: boolean | null
  confirm_time: number | null
  /** Values of the mapped custom fields, in the order of `RowReader.mappedFieldIds`. */
  fields: (CellValue | null)[]
  /** What the import warns of, once for each cell; null is none. */
  remarks: RemarkKind[] | null
}

export interface RowReader {
  /** Ids of the mapped custom fields, in column order. */
  mappedFieldIds: number[]
  /** Index of the email column: logs show the email as typed, also when the row fails. */
  emailColumn: number
  /** The parsed row, which the next call overwrites, or why it can't be imported. */
  read(cells: RecordCells): Row | RowFailure
  /** Index of the column with the identity. */
  identityColumn: number
  /** Why a record without a valid identity can't be imported. */
  identityFailure(cells: RecordCells): RowFailure
}

/** The parsed row of a record, or why it can't be imported. */
export function readRow(
  reader: RowReader,
  { problem, identity, cells }: Pick<ReadRecord, 'problem' | 'identity' | 'cells'>,
): Row | RowFailure {
  if (problem !== null) {
    const isWhole = identity !== null || !hasReadableIdentity(reader, problem.kind, cells)
    const fault = isWhole ? wholeFault(problem.kind) : reader.identityFailure(cells).fault
    return new RowFailure(problem.reason, fault)
  }
  return identity === null ? reader.identityFailure(cells) : reader.read(cells)
}

/**
 * Whether a faulty record's identity could be read, so that a wrong one is its first fault. Of a record that is too
 * long only the beginning is kept.
 */
function hasReadableIdentity(reader: RowReader, kind: FaultKind, cells: RecordCells): boolean {
  const isText = kind === 'encoding' || kind === 'nul'
  return isText && !/[\0\ufffd]/.test(cells.string(reader.identityColumn) ?? '')
}

interface CellReader {
  name: string
  expectation: string
  required: boolean
  isEmail?: boolean
  /** Parses a trimmed, non-blank cell into the row; false when the column can't have that value. */
  read(text: TextBytes, row: Row): boolean
  /** For a column of dates: their order, and whether a text is a date in a given order. */
  dates?: { order: DateOrder; isReadIn(text: string, order: DateOrder): boolean }
}

/** Makes the row reader of an import. It prepares everything that rows have in common, once. */
export function rowReader(plan: ImportPlan, options: ImportOptions): RowReader {
  const mappedFieldIds: number[] = []
  const columns = plan.columns.map((column): CellReader | null => {
    if (column === null) return null
    if (column.kind === 'built_in') return builtInReader(column.name, plan, options)
    return customFieldReader(column.field_id, mappedFieldIds.push(column.field_id) - 1, plan, options)
  })
  const emailColumn = plan.columns.findIndex(
    (column) => column?.kind === 'built_in' && column.name === 'email',
  )

  const fields = mappedFieldIds.map((): CellValue | null => null)
  return {
    mappedFieldIds,
    emailColumn,
    identityColumn: plan.identity.column,
    read(cells) {
      const isLonger = cells.count > columns.length
      const surplus =
        isLonger &&
        cells
          .strings(columns.length)
          .map(cellText)
          .find((text) => text !== '')
      if (typeof surplus === 'string') {
        const reason = `the record has ${cells.count} cells, but the mapping has ${columns.length} columns; the first extra cell is ${shorten(surplus)}`
        return new RowFailure(reason, wholeFault('surplus_cells'))
      }
      const row = blankRow(fields.fill(null))
      let failure: RowFailure | null = null
      for (let i = 0; i < columns.length; i += 1) {
        const column = columns[i]
        if (column === null || column === undefined) continue
        const text = cells.text(i)
        if (text.length === 0 ? column.required : !column.read(text, row)) {
          if (failure === null) failure = cellFailure(column, i, String(text))
          else failure.reason += `; ${describeProblem(column, String(text))}`
        } else if (column.dates !== undefined) noteDate(text, column.dates.order, row)
      }
      return failure ?? row
    },
    identityFailure(cells) {
      const { column } = plan.identity
      return cellFailure(columns[column]!, column, String(cells.text(column)))
    },
  }
}

function noteDate(text: TextBytes, order: DateOrder, row: Row): void {
  const { bytes, start } = text
  // Nearly all dates begin with four digits, or under `mdy` with a number that isn't zero.
  const hasYearFirst = bytes[start + 1]! >= 0x30 && bytes[start + 2]! >= 0x30
  const isUsual = bytes[start]! > 0x30 && bytes[start]! <= 0x39 && (order === 'mdy' || hasYearFirst)
  if (isUsual) return
  if (order === 'dmy' && isMonthFirstDate(String(text))) remark(row, 'month_first_dates')
  else if (isNoDate(String(text))) remark(row, 'no_dates')
}

function remark(row: Row, kind: RemarkKind): void {
  row.remarks ??= []
  row.remarks.push(kind)
}

/** Describes a good value of a mapped column. */
export function columnExpectation(
  column: NonNullable<PlannedColumn>,
  plan: ImportPlan,
  options: ImportOptions,
): string {
  const reader =
    column.kind === 'built_in'
      ? builtInReader(column.name, plan, options)
      : customFieldReader(column.field_id, 0, plan, options)
  return reader.expectation
}

const cellFailure = (reader: CellReader, column: number, text: string): RowFailure =>
  new RowFailure(describeProblem(reader, text), { kind: faultKind(reader, text), column, field_id: null })

function describeProblem(reader: CellReader, text: string): string {
  const { name, expectation } = reader
  const reason = cellReason(faultKind(reader, text), expectation)
  return text === '' ? `${name}: ${reason}` : `${name}: ${shorten(text)} is ${reason}`
}

function faultKind({ dates, isEmail }: CellReader, text: string): FaultKind {
  if (text === '') return 'blank'
  if (isEmail && isMailto(text)) return 'mailto'
  if (isEmail && /[<>]/.test(text)) return 'angle_bracket'
  if (isEmail && /[:;]/.test(text)) return 'separator'
  // A time that its offset moves out of the years is wrong in any order.
  const isDayFirst = dates?.order === 'mdy' && !dates.isReadIn(text, 'mdy') && dates.isReadIn(text, 'dmy')
  return isDayFirst ? 'day_first' : 'wrong_value'
}

/** `index` is the position of the field's value in a row. */
function customFieldReader(
  fieldId: number,
  index: number,
  plan: ImportPlan,
  options: ImportOptions,
): CellReader {
  const field = plan.fields.find((candidate) => candidate.id === fieldId)!
  const order = options.file_format.date_format
  const reader = fieldReader(field, order)
  const isReadIn = dateReaders[field.field_type]
  return {
    name: field.name,
    expectation: reader.expectation,
    required: plan.identity.field_id === field.id,
    ...(isReadIn === undefined ? {} : { dates: { order, isReadIn } }),
    read(text, row) {
      const value = reader.fromBytes(text)
      row.fields[index] = Array.isArray(value) && value.length === 0 ? null : value
      return value !== null
    },
  }
}

const isDateTime = (text: string, order: DateOrder): boolean => parseDateTime(text, order) !== null

/** For the types of custom fields whose values depend on `date_format`. */
const dateReaders: Partial<Record<FieldType, (text: string, order: DateOrder) => boolean>> = {
  date: isDateTime,
  day_of_year: (text, order) => parseDayOfYear(text, order) !== null,
}

export const dependsOnDateFormat = (type: FieldType): boolean => dateReaders[type] !== undefined

const blankRow = (fields: Row['fields']): Row => ({
  email: '',
  status: null,
  email_format: null,
  subscribe_time: null,
  subscribe_ip: null,
  remove_time: null,
  remove_ip: null,
  confirmed: null,
  confirm_time: null,
  fields,
  remarks: null,
})

function builtInReader(name: BuiltInColumn, plan: ImportPlan, options: ImportOptions): CellReader {
  const order = options.file_format.date_format
  const zone = plan.time_zone_name
  const optional = <N extends 'status' | 'email_format' | 'confirmed' | 'subscribe_ip' | 'remove_ip'>(
    expectation: string,
    property: N,
    read: (text: TextBytes) => Row[N],
  ): CellReader => ({
    name,
    required: false,
    expectation,
    read(text, row) {
      row[property] = read(text)
      return row[property] !== null
    },
  })
  switch (name) {
    case 'email':
      return emailReader(plan)
    case 'status':
      return optional(`one of ${subscriberStatuses.join(', ')}`, 'status', remembering(statusFromText))
    case 'consent':
      return optional(booleanExpectation, 'status', remembering(statusFromConsent))
    case 'email_format':
      return optional(`one of ${emailFormats.join(', ')}`, name, remembering(emailFormatFromText))
    case 'confirmed':
      return optional(booleanExpectation, name, remembering(booleanFromText))
    case 'subscribe_time':
    case 'remove_time':
    case 'confirm_time':
      return {
        name,
        required: false,
        expectation: `a date or time such as ${dateExamples(order)}, in the years 1000 to 9999`,
        dates: { order, isReadIn: isDateTime },
        read(text, row) {
          const value = readDateTime(text, order)
          row[name] = value === null ? null : toInstantMs(value, zone)
          return row[name] !== null || isNoDate(text.toString())
        },
      }
    case 'subscribe_ip':
    case 'remove_ip':
      return optional(ipExpectation, name, (text) => canonicalIp(String(text)))
  }
}

function emailReader(plan: ImportPlan): CellReader {
  const value = new TextBytes()
  return {
    name: 'email',
    required: true,
    expectation: emailExpectation,
    isEmail: true,
    read(text, row) {
      const isPlain = !isRemarkable(text)
      row.email = value.set(text.bytes, text.start, text.end)
      // An email that is the identity was validated when the file was split.
      if (plan.identity.kind === 'email' && isPlain) return true
      const typed = text.toString()
      const email = parseEmail(typed)
      if (email === null) return false
      if (isPlain) return true
      row.email = email.address
      if (visibleEmail(typed) !== typed) remark(row, 'invisible_characters')
      if (/[{|}].*@/.test(typed)) remark(row, 'unusual_addresses')
      return true
    },
  }
}

/** Whether an email may not be stored as typed, or has one of the characters `{`, `|` and `}`. */
function isRemarkable({ bytes, start, end }: TextBytes): boolean {
  for (let at = start; at < end; at += 1)
    if (bytes[at]! >= 0x7b && bytes[at] !== 0x7e && bytes[at] !== 0x7f) return true
  return false
}

const emailFormatFromText = (text: string): EmailFormat | null =>
  emailFormats.find((value) => value === text.toLowerCase()) ?? null

const shownCharacters = 60

/** Formats a value for a message: in quotes, on one line and not too long. */
export function shorten(text: string): string {
  // A surrogate pair is not split.
  const end =
    (text.charCodeAt(shownCharacters - 1) & 0xfc00) === 0xd800 ? shownCharacters - 1 : shownCharacters
  const shown = text.length > shownCharacters ? `${text.slice(0, end)}...` : text
  const size = text.length > maxTextLength ? ` (${text.length} characters)` : ''
  return `'${shown.replaceAll(/[\0-\x1f\x7f]+/g, ' ')}'${size}`
}
