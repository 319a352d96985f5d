import { toFieldDefinition, type CustomFieldDocument } from '../../../shared/contract/schemas/custom-field.ts'
import { builtInColumns, type BuiltInColumn } from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { emailFormats } from '../../../shared/contract/schemas/subscriber.ts'
import {
  isDateTime,
  isMonthFirstDate,
  parseDateTime,
  parseDayOfYear,
  type DateOrder,
  isNoDate,
} from '../../../shared/values/date-time.ts'
import { booleanFromText } from '../../../shared/values/boolean-text.ts'
import { fieldReader } from '../../../shared/values/field-value.ts'
import { canonicalIp } from '../../../shared/values/ip.ts'
import { statusFromConsent, statusFromText } from '../../../shared/values/subscriber-status.ts'
import { comparedName, speaksOfEmail, type ComparedName } from './column-words.ts'
import { isEmail } from '../../../shared/csv/dialect.ts'
import { plainName } from '../../../shared/csv/plain-name.ts'

/** A proposed mapping of a file's columns, from their headers and their cells. */
export interface Proposal {
  /** A built-in column or the name of a custom field; null for a column to ignore. */
  proposed: string | null
  /** From 0 to 1; 0 without a proposal. */
  confidence: number
}

interface ColumnToName {
  /** Null when the file has no header. */
  header: string | null
  /** The cells of the first records, trimmed, without blank ones. */
  values: string[]
}

/** A column whose header is in the forms for comparisons. */
interface Column extends Omit<ColumnToName, 'header'> {
  at: number
  header: ComparedName | null
}

/** A built-in column or a custom field, to which a column may be mapped. */
interface Target {
  name: string
  /** How strongly a header suggests this target, from 0 to 1. */
  matchHeader(header: ComparedName): number
  /** Whether a trimmed, non-blank cell is a valid value. */
  accepts(value: string): boolean
  /** Nearly every cell is a valid value, so cells are no evidence. */
  acceptsAnything: boolean
  dates: 'date' | 'day_of_year' | null
}

const minConfidence = 0.5

/** Columns that both give the status. The headers of either may stand above cells of the other. */
const rivals: Partial<Record<string, BuiltInColumn>> = { status: 'consent', consent: 'status' }

interface Match {
  column: Column
  target: Target
  confidence: number
}

/** Finds the email column first, because an import needs one, and then the best match of every other column. */
export function proposeColumns(
  columnsToName: ColumnToName[],
  { list, fields }: { list: MailingListDocument; fields: CustomFieldDocument[] },
): { proposals: Proposal[]; dateFormat: DateOrder | null; warnings: string[] } {
  const columns = columnsToName.map(({ header, values }, at): Column => ({
    at,
    header: header === null ? null : comparedName(header),
    values,
  }))
  const chosen = new Map<number, Match>()
  const taken = new Set<string>()
  for (const match of listMatches(columns, listTargets(list, fields))) {
    if (chosen.has(match.column.at) || taken.has(match.target.name)) continue
    chosen.set(match.column.at, match)
    taken.add(match.target.name)
    // An import takes only one of the two.
    const rival = rivals[match.target.name]
    if (rival !== undefined) taken.add(rival)
  }
  const dated = [...chosen.values()].flatMap(({ column, target }) =>
    target.dates === null ? [] : [{ values: column.values, kind: target.dates }],
  )
  const ignored = columns.filter(({ at }) => !chosen.has(at))
  const freeFields = fields.filter(({ name }) => !taken.has(name))
  return {
    proposals: columns.map(({ at }) => ({
      proposed: chosen.get(at)?.target.name ?? null,
      confidence: Math.round((chosen.get(at)?.confidence ?? 0) * 100) / 100,
    })),
    dateFormat: detectDateOrder(dated),
    warnings: warnOfUnfitCells(ignored, freeFields),
  }
}

/** The match for email, and then those of the other targets, the best first. */
function listMatches(columns: Column[], targets: Target[]): Match[] {
  const email = findEmailColumn(columns)
  const others: Match[] = []
  for (const column of columns) {
    for (const target of targets) {
      const confidence = rateMatch(column, target)
      if (confidence >= minConfidence) others.push({ column, target, confidence })
    }
  }
  others.sort((a, b) => b.confidence - a.confidence || a.column.at - b.column.at)
  return email === null ? others : [email, ...others]
}

/**
 * Among the columns that hold addresses, the one whose header says so best, then the one with most addresses. Without
 * addresses, a header that says so is enough, and then cells that at least have an @. Null when there is neither.
 */
function findEmailColumn(columns: Column[]): Match | null {
  const rated = columns.map((column) => ({
    column,
    named: column.header === null ? 0 : emailTarget.matchHeader(column.header),
    addresses: column.values.filter(isEmail).length,
    signs: column.values.filter((value) => value.includes('@')).length,
  }))
  const withAddresses = rated.filter(({ addresses }) => addresses > 0)
  const [best] = (withAddresses.length > 0 ? withAddresses : rated)
    .filter(({ named, addresses, signs }) => named > 0 || addresses > 0 || signs > 0)
    .sort((a, b) => b.named - a.named || b.addresses - a.addresses || b.signs - a.signs)
  if (best === undefined) return null
  const { column } = best
  return { column, target: emailTarget, confidence: rateMatch(column, emailTarget) }
}

/** Columns that have the name of a custom field, and are ignored because too few of their cells are values of it. */
function warnOfUnfitCells(columns: Column[], fields: CustomFieldDocument[]): string[] {
  const bySpaced = new Map(fields.map((field) => [comparedName(field.name).spaced, field]))
  return columns.flatMap(({ at, header, values }) => {
    const field = header === null ? undefined : bySpaced.get(header.spaced)
    if (field === undefined) return []
    const accepts = fieldAccepts(field)
    const unfit = values.filter((value) => !accepts(value)).length
    if (unfit === 0) return []
    const { expectation } = fieldReader(toFieldDefinition(field), 'mdy')
    return [
      `column ${at + 1} has the name of the custom field ${JSON.stringify(field.name)}, and is not proposed for it: ${unfit} of its first ${values.length} values are not ${expectation}; give a column_mapping to import it anyway`,
    ]
  })
}

function rateMatch({ header, values }: Column, target: Target): number {
  const headerMatch = header === null ? 0 : target.matchHeader(header)
  if (headerMatch === 0 && target.name !== 'email' && (target.name !== 'status' || header !== null)) return 0
  const fitting = values.filter((value) => target.accepts(value)).length
  const fit = values.length === 0 ? null : fitting / values.length
  if (headerMatch === 0) {
    // Cells alone identify an email, and nearly so a status.
    if (target.name === 'email') return (header === null ? 0.95 : 0.75) * (fit ?? 0)
    return fit !== null && fit >= 0.8 ? 0.6 * fit : 0
  }
  if (fit === null) return headerMatch * 0.8
  // A matching header outweighs some invalid cells, but not most of them.
  return headerMatch * (target.acceptsAnything ? 1 : fit < 0.3 ? fit : 0.4 + 0.6 * fit)
}

/** All targets but email. */
function listTargets(list: MailingListDocument, fields: CustomFieldDocument[]): Target[] {
  const usable = builtInColumns.filter((name) => {
    if (name === 'email') return false
    if (name === 'consent') return fields.every(({ name_key }) => name_key !== name)
    if (name === 'confirmed' || name === 'confirm_time') return list.has_confirmed
    return name !== 'email_format' || list.has_format
  })
  return [...usable.map(builtInTarget), ...fields.map(fieldTarget)]
}

function builtInTarget(name: BuiltInColumn): Target {
  const isTime = name.endsWith('_time')
  const plain = plainName(name)
  return {
    name,
    matchHeader(header) {
      if (header.folded === name) return 1
      if (header.builtIns.includes(name)) return header.plain === plain ? 0.98 : 0.9
      const rival = rivals[name]
      if (rival !== undefined && header.builtIns.includes(rival)) return 0.85
      return name === 'email' && speaksOfEmail(header) ? 0.7 : 0
    },
    accepts: cellTest(name),
    acceptsAnything: false,
    dates: isTime ? 'date' : null,
  }
}

const emailTarget = builtInTarget('email')

function cellTest(name: BuiltInColumn): (value: string) => boolean {
  switch (name) {
    case 'email':
      return isEmail
    case 'status':
      return (value) => statusFromText(value) !== null
    case 'consent':
      return (value) => statusFromConsent(value) !== null
    case 'email_format':
      return (value) => emailFormats.some((format) => format === value.toLowerCase())
    case 'confirmed':
      return (value) => booleanFromText(value) !== null
    case 'subscribe_time':
    case 'remove_time':
    case 'confirm_time':
      return (value) => isDateTime(value) || isNoDate(value)
    case 'subscribe_ip':
    case 'remove_ip':
      return (value) => canonicalIp(value) !== null
  }
}

function fieldTarget(document: CustomFieldDocument): Target {
  const field = toFieldDefinition(document)
  const own = comparedName(field.name)
  return {
    name: field.name,
    matchHeader(header) {
      if (header.text === field.name || header.folded === document.name_key) return 1
      if (header.spaced === own.spaced) return 0.98
      if (header.plain === own.plain && own.plain !== '') return 0.95
      return header.group !== undefined && header.group === own.group ? 0.8 : 0
    },
    accepts: fieldAccepts(document),
    acceptsAnything: field.field_type === 'text' || field.field_type === 'text_multiline',
    dates: field.field_type === 'date' || field.field_type === 'day_of_year' ? field.field_type : null,
  }
}

function fieldAccepts(document: CustomFieldDocument): (value: string) => boolean {
  const field = toFieldDefinition(document)
  const readers = (['mdy', 'dmy'] as const).map((order) => fieldReader(field, order))
  return (value) => readers.some((reader) => reader.fromText(value) !== null)
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
