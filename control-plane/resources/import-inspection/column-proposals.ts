import { toFieldDefinition, type CustomFieldDocument } from '../../../shared/contract/schemas/custom-field.ts'
import { builtInColumns, type BuiltInColumn } from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { emailFormats, subscriberStatuses } from '../../../shared/contract/schemas/subscriber.ts'
import {
  isMonthFirstDate,
  parseDateTime,
  parseDayOfYear,
  type DateOrder,
} from '../../../shared/values/date-time.ts'
import { booleanFromText, fieldReader } from '../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { canonicalIp } from '../../../shared/values/ip.ts'
import { builtInNamed, meanTheSame, plainName, speaksOfEmail } from './column-words.ts'
import { isEmail } from '../../../shared/csv/dialect.ts'

/** A proposed mapping of a file's columns, from their headers and their cells. */
export interface Proposal {
  /** A built-in column or the name of a custom field; null for a column to ignore. */
  proposed: string | null
  /** From 0 to 1; 0 without a proposal. */
  confidence: number
}

export interface ColumnToName {
  /** Null when the file has no header. */
  header: string | null
  /** The cells of the first records, trimmed, without blank ones. */
  values: string[]
}

/** A longer header names no column: names of fields and columns are far shorter. */
const maxHeaderUnits = 1_000

/** A built-in column or a custom field, to which a column may be mapped. */
interface Target {
  name: string
  /** How strongly a header suggests this target, from 0 to 1. */
  matchHeader(header: string): number
  /** Whether a trimmed, non-blank cell is a valid value. */
  accepts(value: string): boolean
  /** Nearly every cell is a valid value, so cells are no evidence. */
  acceptsAnything: boolean
  dates: 'date' | 'day_of_year' | null
}

const minConfidence = 0.5

export function proposeColumns(
  columns: ColumnToName[],
  { list, fields }: { list: MailingListDocument; fields: CustomFieldDocument[] },
): { proposals: Proposal[]; dateFormat: DateOrder | null } {
  const targets = listTargets(list, fields)
  const candidates = columns
    .flatMap((column, at) =>
      targets.map((target) => ({ at, column, target, confidence: rateMatch(column, target) })),
    )
    .filter(({ confidence }) => confidence >= minConfidence)
    .sort((a, b) => b.confidence - a.confidence || a.at - b.at)
  const chosen = new Map<number, (typeof candidates)[number]>()
  const taken = new Set<string>()
  for (const candidate of candidates) {
    if (chosen.has(candidate.at) || taken.has(candidate.target.name)) continue
    chosen.set(candidate.at, candidate)
    taken.add(candidate.target.name)
  }
  const dated = [...chosen.values()].flatMap(({ column, target }) =>
    target.dates === null ? [] : [{ values: column.values, kind: target.dates }],
  )
  return {
    proposals: columns.map((_, at) => ({
      proposed: chosen.get(at)?.target.name ?? null,
      confidence: Math.round((chosen.get(at)?.confidence ?? 0) * 100) / 100,
    })),
    dateFormat: detectDateOrder(dated),
  }
}

function rateMatch({ header, values }: ColumnToName, target: Target): number {
  const headerMatch = header === null ? 0 : target.matchHeader(header)
  const fitting = values.filter((value) => target.accepts(value)).length
  const fit = values.length === 0 ? null : fitting / values.length
  if (headerMatch === 0) {
    // Cells alone identify an email, and nearly so a status.
    if (fit === null || fit < 0.8) return 0
    if (target.name === 'email') return (header === null ? 0.95 : 0.75) * fit
    return target.name === 'status' && header === null ? 0.6 * fit : 0
  }
  if (fit === null) return headerMatch * 0.8
  // A matching header outweighs some invalid cells, but not most of them.
  return headerMatch * (target.acceptsAnything ? 1 : fit < 0.3 ? fit : 0.4 + 0.6 * fit)
}

function listTargets(list: MailingListDocument, fields: CustomFieldDocument[]): Target[] {
  const usable = builtInColumns.filter((name) => {
    if (name === 'confirmed' || name === 'confirm_time') return list.has_confirmed
    return name !== 'email_format' || list.has_format
  })
  return [...usable.map(builtInTarget), ...fields.map(fieldTarget)]
}

function builtInTarget(name: BuiltInColumn): Target {
  const isTime = name.endsWith('_time')
  return {
    name,
    matchHeader(header) {
      if (header.length > maxHeaderUnits) return 0
      if (comparisonForm(header.trim()) === name) return 1
      if (builtInNamed(header) === name) return plainName(header) === plainName(name) ? 0.98 : 0.9
      return name === 'email' && speaksOfEmail(header) ? 0.7 : 0
    },
    accepts: cellTest(name),
    acceptsAnything: false,
    dates: isTime ? 'date' : null,
  }
}

function cellTest(name: BuiltInColumn): (value: string) => boolean {
  switch (name) {
    case 'email':
      return isEmail
    case 'status':
      return (value) => subscriberStatuses.some((status) => status === value.toLowerCase())
    case 'email_format':
      return (value) => emailFormats.some((format) => format === value.toLowerCase())
    case 'confirmed':
      return (value) => booleanFromText(value) !== null
    case 'subscribe_time':
    case 'remove_time':
    case 'confirm_time':
      return (value) => parseDateTime(value, 'mdy') !== null || parseDateTime(value, 'dmy') !== null
    case 'subscribe_ip':
    case 'remove_ip':
      return (value) => canonicalIp(value) !== null
  }
}

function fieldTarget(document: CustomFieldDocument): Target {
  const field = toFieldDefinition(document)
  const readers = (['mdy', 'dmy'] as const).map((order) => fieldReader(field, order))
  return {
    name: field.name,
    matchHeader(header) {
      const text = header.trim()
      if (text.length > maxHeaderUnits) return 0
      if (text === field.name || comparisonForm(text) === document.name_key) return 1
      if (plainName(text) === plainName(field.name) && plainName(text) !== '') return 0.95
      return meanTheSame(text, field.name) ? 0.8 : 0
    },
    accepts: (value) => readers.some((reader) => reader.fromText(value) !== null),
    acceptsAnything: field.field_type === 'text' || field.field_type === 'text_multiline',
    dates: field.field_type === 'date' || field.field_type === 'day_of_year' ? field.field_type : null,
  }
}

/** Decides by the dates that are valid in one order only; null on a tie, or without such dates. */
function detectDateOrder(columns: { values: string[]; kind: 'date' | 'day_of_year' }[]): DateOrder | null {
  let months = 0
  let days = 0
  for (const { values, kind } of columns) {
    const read = kind === 'date' ? parseDateTime : parseDayOfYear
    for (const value of values) {
      const asMonth = read(value, 'mdy') !== null
      // A form in which the month always comes first is no evidence for the day coming first.
      const asDay = read(value, 'dmy') !== null && !isMonthFirstDate(value)
      if (asMonth && !asDay) months += 1
      if (asDay && !asMonth) days += 1
    }
  }
  if (months === days) return null
  return days > months ? 'dmy' : 'mdy'
}
