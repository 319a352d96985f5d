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
import { isEmail } from './dialect.ts'

/** Which columns of a file are which of the list's: by what they are called, and by what is in them. */
export interface Proposal {
  /** A built-in column, a custom field's name, or null for a column that is best ignored. */
  proposed: string | null
  /** 0 to 1; of null it is 0. */
  confidence: number
}

export interface ColumnToName {
  /** Null where the file has no header. */
  header: string | null
  /** Its cells in the first records, trimmed, without blank ones. */
  values: string[]
}

/** Names of fields and columns are far shorter; a longer header names none of them. */
const maxHeaderUnits = 1_000

/** What a column may be mapped to. */
interface Target {
  name: string
  /** How much a header says that it is this one, 0 to 1. */
  named(header: string): number
  /** Whether a trimmed, non-blank cell is a value of it. */
  takes(value: string): boolean
  /** Nearly everything is a value of it, so that cells say nothing. */
  takesAnything: boolean
  dates: 'date' | 'day_of_year' | null
}

const minConfidence = 0.5

export function proposeColumns(
  columns: ColumnToName[],
  { list, fields }: { list: MailingListDocument; fields: CustomFieldDocument[] },
): { proposals: Proposal[]; dateFormat: DateOrder | null } {
  const targets = targetsOf(list, fields)
  const candidates = columns
    .flatMap((column, at) =>
      targets.map((target) => ({ at, target, confidence: confidenceOf(column, target) })),
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
  const dated = [...chosen.values()].filter(({ target }) => target.dates !== null)
  return {
    proposals: columns.map((_, at) => ({
      proposed: chosen.get(at)?.target.name ?? null,
      confidence: Math.round((chosen.get(at)?.confidence ?? 0) * 100) / 100,
    })),
    dateFormat: dateFormatOf(
      dated.map(({ at, target }) => ({ values: columns[at]!.values, kind: target.dates! })),
    ),
  }
}

function confidenceOf({ header, values }: ColumnToName, target: Target): number {
  const named = header === null ? 0 : target.named(header)
  const fitting = values.filter((value) => target.takes(value)).length
  const fit = values.length === 0 ? null : fitting / values.length
  if (named === 0) {
    // An email is one wherever it stands, a status nearly so.
    if (fit === null || fit < 0.8) return 0
    if (target.name === 'email') return (header === null ? 0.95 : 0.75) * fit
    return target.name === 'status' && header === null ? 0.6 * fit : 0
  }
  if (fit === null) return named * 0.8
  // A name that is right outweighs some cells that are wrong, not most of them.
  return named * (target.takesAnything ? 1 : fit < 0.3 ? fit : 0.4 + 0.6 * fit)
}

function targetsOf(list: MailingListDocument, fields: CustomFieldDocument[]): Target[] {
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
    named(header) {
      if (header.length > maxHeaderUnits) return 0
      if (comparisonForm(header.trim()) === name) return 1
      if (builtInNamed(header) === name) return plainName(header) === plainName(name) ? 0.98 : 0.9
      return name === 'email' && speaksOfEmail(header) ? 0.7 : 0
    },
    takes: takerOf(name),
    takesAnything: false,
    dates: isTime ? 'date' : null,
  }
}

function takerOf(name: BuiltInColumn): (value: string) => boolean {
  switch (name) {
    case 'email':
      return isEmail
    case 'status':
      return (value) => (subscriberStatuses as readonly string[]).includes(value.toLowerCase())
    case 'email_format':
      return (value) => (emailFormats as readonly string[]).includes(value.toLowerCase())
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
    named(header) {
      const text = header.trim()
      if (text.length > maxHeaderUnits) return 0
      if (text === field.name || comparisonForm(text) === document.name_key) return 1
      if (plainName(text) === plainName(field.name) && plainName(text) !== '') return 0.95
      return meanTheSame(text, field.name) ? 0.8 : 0
    },
    takes: (value) => readers.some((reader) => reader.fromText(value) !== null),
    takesAnything: field.field_type === 'text' || field.field_type === 'text_multiline',
    dates: field.field_type === 'date' || field.field_type === 'day_of_year' ? field.field_type : null,
  }
}

/** By the dates that can be read in one order only; null where none says it. */
function dateFormatOf(columns: { values: string[]; kind: 'date' | 'day_of_year' }[]): DateOrder | null {
  let months = 0
  let days = 0
  for (const { values, kind } of columns) {
    const read = kind === 'date' ? parseDateTime : parseDayOfYear
    for (const value of values) {
      const asMonth = read(value, 'mdy') !== null
      // What can only be read month first is no sign of the day coming first.
      const asDay = read(value, 'dmy') !== null && !isMonthFirstDate(value)
      if (asMonth && !asDay) months += 1
      if (asDay && !asMonth) days += 1
    }
  }
  if (months === days) return null
  return days > months ? 'dmy' : 'mdy'
}
