import type { ReadRecord } from './chunk-records.ts'
import type { FieldType, FieldValue } from '../contract/schemas/custom-field.ts'
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
  toInstant,
  type DateOrder,
} from '../values/date-time.ts'
import { emailExpectation, isMailto, parseEmail, visibleEmail } from '../values/email.ts'
import {
  booleanExpectation,
  booleanFromText,
  dateExamples,
  fieldReader,
  maxTextLength,
} from '../values/field-value.ts'
import { canonicalIp, ipExpectation } from '../values/ip.ts'
import { statusFromConsent, statusFromText } from '../values/subscriber-status.ts'
import { cellText } from './csv-cells.ts'
import { cellReason, RowFailure, wholeFault } from './row-fault.ts'

/** The parsed cells of a good row. Null means that the file has no value: no such column, or a blank cell. */
export interface Row {
  /** The email in the form in which it is stored. */
  email: string
  /** From the column `status` or `consent`. */
  status: SubscriberStatus | null
  email_format: EmailFormat | null
  subscribe_time: Date | null
  subscribe_ip: string | null
  remove_time: Date | null
  remove_ip: string | null
  confirmed: boolean | null
  confirm_time: Date | null
  /** Values of the mapped custom fields, in the order of `RowReader.mappedFieldIds`. */
  fields: (FieldValue | null)[]
  /** What the import warns of, once for each cell; null is none. */
  remarks: RemarkKind[] | null
}

export interface RowReader {
  /** Ids of the mapped custom fields, in column order. */
  mappedFieldIds: number[]
  /** Index of the email column: logs show the email as typed, also when the row fails. */
  emailColumn: number
  /** The parsed row, or why it can't be imported. Only a failure makes an object beside the row. */
  read(cells: readonly string[]): Row | RowFailure
  /** Index of the column with the identity. */
  identityColumn: number
  /** Why a record without a valid identity can't be imported. */
  identityFailure(cells: readonly string[]): RowFailure
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
function hasReadableIdentity(reader: RowReader, kind: FaultKind, cells: readonly string[]): boolean {
  return (kind === 'encoding' || kind === 'nul') && !/[\0\ufffd]/.test(cells[reader.identityColumn] ?? '')
}

interface CellReader {
  name: string
  expectation: string
  required: boolean
  isEmail?: boolean
  /** Parses a trimmed, non-blank cell into the row; false when the column can't have that value. */
  read(text: string, row: Row): boolean
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

  return {
    mappedFieldIds,
    emailColumn,
    identityColumn: plan.identity.column,
    read(cells) {
      const surplus =
        cells.length > columns.length
          ? cells
              .slice(columns.length)
              .map(cellText)
              .find((text) => text !== '')
          : undefined
      if (surplus !== undefined) {
        const reason = `the record has ${cells.length} cells, but the mapping has ${columns.length} columns; the first extra cell is ${shorten(surplus)}`
        return new RowFailure(reason, wholeFault('surplus_cells'))
      }
      const row = blankRow(mappedFieldIds.length)
      let failure: RowFailure | null = null
      for (let i = 0; i < columns.length; i += 1) {
        const column = columns[i]
        if (column === null || column === undefined) continue
        const text = cellText(cells[i] ?? '')
        if (text === '' ? column.required : !column.read(text, row)) {
          if (failure === null) failure = cellFailure(column, i, text)
          else failure.reason += `; ${describeProblem(column, text)}`
        } else if (column.dates !== undefined) {
          if (column.dates.order === 'dmy' && isMonthFirstDate(text)) remark(row, 'month_first_dates')
          else if (isNoDate(text)) remark(row, 'no_dates')
        }
      }
      return failure ?? row
    },
    identityFailure(cells) {
      const { column } = plan.identity
      return cellFailure(columns[column]!, column, cellText(cells[column] ?? ''))
    },
  }
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
      const value = reader.fromText(text)
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

function blankRow(fields: number): Row {
  return {
    email: '',
    status: null,
    email_format: null,
    subscribe_time: null,
    subscribe_ip: null,
    remove_time: null,
    remove_ip: null,
    confirmed: null,
    confirm_time: null,
    fields: new Array<null>(fields).fill(null),
    remarks: null,
  }
}

function builtInReader(name: BuiltInColumn, plan: ImportPlan, options: ImportOptions): CellReader {
  const order = options.file_format.date_format
  const zone = plan.time_zone_name
  const optional = (expectation: string, read: CellReader['read']): CellReader => ({
    name,
    required: false,
    expectation,
    read,
  })
  switch (name) {
    case 'email':
      return {
        name,
        required: true,
        expectation: emailExpectation,
        isEmail: true,
        read(text, row) {
          row.email = text
          const isPlain = !isRemarkable.test(text)
          // An email that is the identity was validated when the file was split.
          if (plan.identity.kind === 'email' && isPlain) return true
          const email = parseEmail(text)
          if (email === null) return false
          if (isPlain) return true
          row.email = email.address
          if (visibleEmail(text) !== text) remark(row, 'invisible_characters')
          if (/[{|}].*@/.test(text)) remark(row, 'unusual_addresses')
          return true
        },
      }
    case 'status':
      return optional(`one of ${subscriberStatuses.join(', ')}`, (text, row) => {
        row.status = statusFromText(text)
        return row.status !== null
      })
    case 'consent':
      return optional(booleanExpectation, (text, row) => {
        row.status = statusFromConsent(text)
        return row.status !== null
      })
    case 'email_format':
      return optional(`one of ${emailFormats.join(', ')}`, (text, row) => {
        row.email_format = oneOf(emailFormats, text)
        return row.email_format !== null
      })
    case 'confirmed':
      return optional(booleanExpectation, (text, row) => {
        row.confirmed = booleanFromText(text)
        return row.confirmed !== null
      })
    case 'subscribe_time':
    case 'remove_time':
    case 'confirm_time':
      return {
        name,
        required: false,
        expectation: `a date or time such as ${dateExamples(order)}, in the years 1000 to 9999`,
        dates: { order, isReadIn: isDateTime },
        read(text, row) {
          const value = parseDateTime(text, order)
          row[name] = value === null ? null : toInstant(value, zone)
          return row[name] !== null || isNoDate(text)
        },
      }
    case 'subscribe_ip':
    case 'remove_ip':
      return optional(ipExpectation, (text, row) => {
        row[name] = canonicalIp(text)
        return row[name] !== null
      })
  }
}

/** Of an email: it may not be stored as typed, or has a character of the unusual ones. */
const isRemarkable = /[{|}\u0080-\uffff]/

function oneOf<T extends string>(values: readonly T[], text: string): T | null {
  const wanted = text.toLowerCase()
  return values.find((value) => value === wanted) ?? null
}

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
