import type { FieldDefinition, FieldValue } from '../contract/schemas/custom-field.ts'
import {
  isNoDate,
  parseDateTime,
  parseDayOfYear,
  readPlainDateTime,
  toDate,
  type DateOrder,
} from './date-time.ts'
import { booleanFromText } from './boolean-text.ts'
import { comparisonForm } from './identity.ts'
import { remembering, TextBytes } from './text-bytes.ts'

/** The value of a cell: a text may be bytes of the cell itself. */
export type CellValue = FieldValue | TextBytes

/**
 * Converts cells and JSON values of one custom field to the stored value. An import makes one reader per field, so that
 * the options are prepared once and not for each of a million rows.
 */
export interface FieldReader {
  field: FieldDefinition
  /** Describes a good value; it completes the error "'x' is not ...". */
  expectation: string
  /** Parses a trimmed, non-blank text; null when the field can't have that value. */
  fromText(text: string): FieldValue | null
  /** The same by bytes, for cells. The next call overwrites a value that is bytes. */
  fromBytes(text: TextBytes): CellValue | null
  /**
   * Checks a JSON value other than null; null when the field can't have it. Nothing is coerced, but texts are parsed as
   * cells are.
   */
  fromJson(value: unknown): FieldValue | null
}

/** What a mark for no date is read as: a value that is stored nowhere, as that of checkboxes without an option. */
const noValue: FieldValue = []

/** In code points, for a text whose field has no `maximum_length`. */
export const maxTextLength = 65_535

/** A fraction of zeros is what spreadsheets and data frames add to integers. */
const integerText = /^[+-]?\d{1,400}(?:\.0{1,400})?$/

export const booleanExpectation = 'yes or no'

export const dateExamples = (order: DateOrder): string =>
  order === 'mdy' ? '2014-12-31 or 12/31/2014' : '2014-12-31 or 31/12/2014'

/**
 * Makes the reader of a field. `order` says whether the day or the month comes first in dates such as 1/2/2014. A
 * reader returns null for a wrong value and never throws.
 */
export function fieldReader(field: FieldDefinition, order: DateOrder): FieldReader {
  switch (field.field_type) {
    case 'text':
    case 'text_multiline':
      return textReader(field)
    case 'number':
      return numberReader(field)
    case 'date':
      return dateReader(field, order)
    case 'day_of_year':
      return dayOfYearReader(field, order)
    case 'boolean':
      return reader(field, booleanExpectation, booleanFromText, (value) =>
        typeof value === 'boolean' ? value : null,
      )
    case 'select_single_dropdown':
    case 'select_single_radio': {
      const options = optionsByForm(field)
      return reader(
        field,
        `one of ${shownOptions(field)}`,
        (text) => options.get(comparisonForm(text)) ?? null,
      )
    }
    case 'select_multiple_checkboxes':
      return checkboxReader(field)
  }
}

/** `fromOther` checks a JSON value that is no text. */
function reader(
  field: FieldDefinition,
  expectation: string,
  fromText: (text: string) => FieldValue | null,
  fromOther: (value: unknown) => FieldValue | null = () => null,
): FieldReader {
  return {
    field,
    expectation,
    fromText,
    fromBytes: remembering(fromText),
    fromJson: (value) => (typeof value === 'string' ? fromText(value.trim()) : fromOther(value)),
  }
}

function textReader(field: FieldDefinition): FieldReader {
  const min = field.minimum_length ?? 0
  const max = field.maximum_length ?? maxTextLength
  const value = new TextBytes()
  const base = reader(field, `a text of ${min} to ${max} characters`, (text) => {
    const length = codePoints(text)
    return length >= min && length <= max ? text : null
  })
  return {
    ...base,
    fromBytes(text) {
      const { bytes, start, end, length } = text
      // A code point has up to four bytes, so the length alone accepts nearly every text.
      const isGood = (length <= max && length >= min * 4) || base.fromText(String(text)) !== null
      return isGood ? value.set(bytes, start, end) : null
    },
  }
}

export function codePoints(text: string): number {
  let count = 0
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i)
    const isPair = unit >= 0xd800 && unit <= 0xdbff && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00
    if (isPair) i += 1
    count += 1
  }
  return count
}

function dateReader(field: FieldDefinition, order: DateOrder): FieldReader {
  const base = reader(field, `a date such as ${dateExamples(order)}`, (text) => {
    const value = parseDateTime(text, order)
    if (value !== null) return toDate(value)
    return isNoDate(text) ? noValue : null
  })
  return {
    ...base,
    fromBytes(text) {
      const value = readPlainDateTime(text, order)
      return value === null ? base.fromBytes(text) : toDate(value)
    },
  }
}

function numberReader(field: FieldDefinition): FieldReader {
  const min = field.minimum_value ?? -Number.MAX_SAFE_INTEGER
  const max = field.maximum_value ?? Number.MAX_SAFE_INTEGER
  const inRange = (value: number) =>
    Number.isSafeInteger(value) && value >= min && value <= max ? value + 0 : null
  const bounds = field.minimum_value === null && field.maximum_value === null ? '' : ` from ${min} to ${max}`
  const fromText = (text: string) => (integerText.test(text) ? inRange(Number(text)) : null)
  const base = reader(field, `an integer${bounds}`, fromText, (value) =>
    typeof value === 'number' ? inRange(value) : null,
  )
  const fromBytes = (text: TextBytes) => {
    const plain = plainInteger(text)
    return plain === -1 ? fromText(String(text)) : inRange(plain)
  }
  return { ...base, fromBytes }
}

/** The integer of up to 15 digits without a sign; -1 for another text. */
function plainInteger({ bytes, start, end }: TextBytes): number {
  if (end - start > 15) return -1
  let value = 0
  for (let at = start; at < end; at += 1) {
    const digit = bytes[at]! - 0x30
    if (digit < 0 || digit > 9) return -1
    value = value * 10 + digit
  }
  return value
}

function dayOfYearReader(field: FieldDefinition, order: DateOrder): FieldReader {
  const fromText = (text: string) => parseDayOfYear(text, order) ?? (isNoDate(text) ? noValue : null)
  return {
    ...reader(field, `a day of the year such as ${order === 'mdy' ? 'MM-DD' : 'DD-MM'}, or a date`, fromText),
    // Our own replies show `MM-DD`, so JSON texts of that form have the month first, whatever `order` is.
    fromJson: (value) => {
      if (typeof value !== 'string') return null
      const text = value.trim()
      return (/^\d\d-\d\d$/.test(text) ? parseDayOfYear(text, 'mdy') : null) ?? fromText(text)
    },
  }
}

const optionsByForm = (field: FieldDefinition) =>
  new Map(field.options.map((option) => [comparisonForm(option), option]))

/** Lists options for a message, the first ten of many. */
function shownOptions(field: FieldDefinition): string {
  const shown = field.options.slice(0, 10).map((option) => `"${option}"`)
  return field.options.length > 10
    ? `${shown.join(', ')}, ... (${field.options.length} options)`
    : shown.join(', ')
}

/**
 * Reads several options from one text that separates them with "|", "," or ";". Names of options may contain these
 * characters, so each part is matched with the longest option that ends at a separator. A part in `"` is matched with
 * the longest option that ends at the closing `"`. The time is linear in the text: each part is one binary search in
 * the sorted names, or two.
 */
function checkboxReader(field: FieldDefinition): FieldReader {
  const byForm = optionsByForm(field)
  const longestAt = longestOptionFinder([...byForm.keys()])
  const byEnclosedForm = new Map([...byForm].map(([form, option]) => [form.replaceAll('"', '""'), option]))
  for (const [form, option] of byForm) byEnclosedForm.set(form, option)
  const longestEnclosedAt = longestOptionFinder([...byEnclosedForm.keys()])
  const inListOrder = (chosen: Set<string>) => field.options.filter((option) => chosen.has(option))

  const fromText = (text: string): string[] | null => {
    const chosen = new Set<string>()
    const form = comparisonForm(text)
    const isEnd = partEnds(form)
    const closing = form.includes('"') ? closingEnclosures(form) : null
    for (let at = 0; at <= form.length; at += 1) {
      at = afterBlanks(form, at)
      const name = longestAt(form, at, isEnd)
      if (name !== null) {
        chosen.add(byForm.get(name)!)
        at = afterBlanks(form, at + name.length)
      } else if (closing !== null && form.charAt(at) === '"') {
        const begin = afterBlanks(form, at + 1)
        const enclosed = longestEnclosedAt(form, begin, closing)
        const end = begin + (enclosed?.length ?? 0)
        // Nothing but blanks in the enclosure is a blank part.
        if (closing[end] !== 1) return null
        if (enclosed !== null) chosen.add(byEnclosedForm.get(enclosed)!)
        at = afterBlanks(form, afterBlanks(form, end) + 1)
      } else if (at < form.length && !isSeparator(form.charAt(at))) return null
    }
    return inListOrder(chosen)
  }
  const fromArray = (values: unknown[]): string[] | null => {
    const chosen = new Set<string>()
    for (const value of values) {
      const option = typeof value === 'string' ? byForm.get(comparisonForm(value.trim())) : undefined
      if (option === undefined) return null
      chosen.add(option)
    }
    return inListOrder(chosen)
  }
  return reader(field, `one or more of ${shownOptions(field)}`, fromText, (value) =>
    Array.isArray(value) ? fromArray(value) : null,
  )
}

const isSeparator = (character: string): boolean =>
  character === '|' || character === ',' || character === ';'

/** Blank as for `trim`, which is called where blanks may be: up to " ", at U+00A0, and from U+1680 on. */
function isBlankAt(text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return (code <= 0x20 || code === 0xa0 || code >= 0x1680) && text.charAt(at).trim() === ''
}

function afterBlanks(text: string, from: number): number {
  let at = from
  while (at < text.length && isBlankAt(text, at)) at += 1
  return at
}

/**
 * 1 at each position where a part ends. Blanks after a part aren't counted in, and a blank part ends where it begins.
 */
function partEnds(text: string): Uint8Array {
  const isEnd = new Uint8Array(text.length + 1)
  let end = 0
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at)
    if (isSeparator(character)) isEnd[end] = 1
    if (!isBlankAt(text, at)) end = at + 1
  }
  isEnd[end] = 1
  return isEnd
}

/** 1 at each position where blanks and a `"` follow that closes an enclosed part: the part ends right after it. */
function closingEnclosures(text: string): Uint8Array {
  const isClosing = new Uint8Array(text.length + 1)
  /** Whether the part ends at the position after `at`, or only blanks come before its end. */
  let isPartEnd = true
  let isBeforeClosing = false
  for (let at = text.length - 1; at >= 0; at -= 1) {
    const character = text.charAt(at)
    const isBlank = isBlankAt(text, at)
    isBeforeClosing = (isBlank && isBeforeClosing) || (character === '"' && isPartEnd)
    if (isBeforeClosing) isClosing[at] = 1
    isPartEnd = isSeparator(character) || (isBlank && isPartEnd)
  }
  return isClosing
}

/**
 * Longest-prefix match by binary search: finds the longest name that begins at `begin` and ends where `isEnd` is 1, or
 * null. The candidates are the greatest name that isn't greater than the text, and the names that are its prefixes.
 */
function longestOptionFinder(
  names: string[],
): (text: string, begin: number, isEnd: Uint8Array) => string | null {
  const sorted = names.toSorted()
  const firstUnits = new Set(names.map((name) => name.charCodeAt(0)))
  const maxLength = Math.max(0, ...names.map((name) => name.length))
  // For each name the index of the longest other name that is its prefix, or -1.
  const prefixes: number[] = []
  for (const [i, name] of sorted.entries()) {
    let prefix = i - 1
    while (prefix >= 0 && !name.startsWith(sorted[prefix]!)) prefix = prefixes[prefix]!
    prefixes.push(prefix)
  }
  return (text, begin, isEnd) => {
    if (!firstUnits.has(text.charCodeAt(begin))) return null
    const rest = text.slice(begin, begin + maxLength)
    let after = sorted.length
    let found = -1
    while (after - found > 1) {
      const middle = (found + after) >> 1
      if (sorted[middle]! <= rest) found = middle
      else after = middle
    }
    const common = found === -1 ? 0 : commonPrefixLength(sorted[found]!, rest)
    while (found >= 0 && (sorted[found]!.length > common || isEnd[begin + sorted[found]!.length] !== 1))
      found = prefixes[found]!
    return sorted[found] ?? null
  }
}

function commonPrefixLength(a: string, b: string): number {
  let length = 0
  while (length < a.length && a[length] === b[length]) length += 1
  return length
}
