import type { FieldDefinition, FieldValue } from '../schemas/custom-field.ts'
import { parseDateTime, parseDayOfYear, toDate, type DateOrder } from './date-time.ts'
import { comparisonForm } from './identity.ts'

/**
 * Values of custom fields, as they come in cells and in JSON, to what is stored. One reader is made per field, so
 * that a million rows don't look at its options again.
 */
export interface FieldReader {
  field: FieldDefinition
  /** What a good value is, to end the sentence "expected ...". */
  expectation: string
  /** The value of a trimmed, non-blank text; null when it isn't one. */
  fromText(text: string): FieldValue | null
  /** The value of a JSON value other than null; null when it isn't one. No coercion, but texts are read as cells are. */
  fromJson(value: unknown): FieldValue | null
}

/** Most code points of a text whose field has no `maximum_length`. */
export const longestText = 65_535

const integerText = /^[+-]?\d{1,400}$/
const truths = new Map<string, boolean>([
  ...['1', 'true', 't', 'yes', 'y', 'on'].map((text) => [text, true] as const),
  ...['0', 'false', 'f', 'no', 'n', 'off'].map((text) => [text, false] as const),
])

/** What a cell says that is yes or no; null when it says neither. */
export const booleanFromText = (text: string): boolean | null => truths.get(text.toLowerCase()) ?? null

export const booleanExpectation = 'yes or no'

/**
 * `order`: of day and month, where a date is written in figures with the year last. What isn't a value is read as null,
 * never thrown.
 */
export function fieldReader(field: FieldDefinition, order: DateOrder): FieldReader {
  switch (field.field_type) {
    case 'text':
    case 'text_multiline':
      return textReader(field)
    case 'number':
      return numberReader(field)
    case 'date':
      return reader(field, `a date in a documented form (${order})`, (text) => {
        const value = parseDateTime(text, order)
        return value === null ? null : toDate(value)
      })
    case 'day_of_year':
      return dayOfYearReader(field, order)
    case 'boolean':
      return {
        ...reader(field, booleanExpectation, booleanFromText),
        fromJson: (value) =>
          typeof value === 'boolean'
            ? value
            : typeof value === 'string'
              ? booleanFromText(value.trim())
              : null,
      }
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

function reader(
  field: FieldDefinition,
  expectation: string,
  fromText: (text: string) => FieldValue | null,
): FieldReader {
  return {
    field,
    expectation,
    fromText,
    fromJson: (value) => (typeof value === 'string' ? fromText(value.trim()) : null),
  }
}

function textReader(field: FieldDefinition): FieldReader {
  const least = field.minimum_length ?? 0
  const most = field.maximum_length ?? longestText
  return reader(field, `a text of ${least} to ${most} characters`, (text) => {
    // A code point is one or two units, so most texts needn't be counted.
    if (text.length <= most && text.length >= least * 2) return text
    const length = codePoints(text)
    return length >= least && length <= most ? text : null
  })
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

function numberReader(field: FieldDefinition): FieldReader {
  const least = field.minimum_value ?? -Number.MAX_SAFE_INTEGER
  const most = field.maximum_value ?? Number.MAX_SAFE_INTEGER
  const inRange = (value: number) =>
    Number.isSafeInteger(value) && value >= least && value <= most ? value + 0 : null
  const bounds =
    field.minimum_value === null && field.maximum_value === null ? '' : ` from ${least} to ${most}`
  const fromText = (text: string) => (integerText.test(text) ? inRange(Number(text)) : null)
  return {
    field,
    expectation: `an integer${bounds}`,
    fromText,
    fromJson: (value) =>
      typeof value === 'number' ? inRange(value) : typeof value === 'string' ? fromText(value.trim()) : null,
  }
}

function dayOfYearReader(field: FieldDefinition, order: DateOrder): FieldReader {
  const fromText = (text: string) => parseDayOfYear(text, order)
  return {
    ...reader(
      field,
      `a day of the year such as ${order === 'mdy' ? 'MM-DD' : 'DD-MM'}, or a date in a documented form`,
      fromText,
    ),
    // In JSON `MM-DD` is what we write ourselves, so it is that, whatever the order of the file's dates.
    fromJson: (value) => {
      if (typeof value !== 'string') return null
      const text = value.trim()
      return (/^\d\d-\d\d$/.test(text) ? parseDayOfYear(text, 'mdy') : null) ?? fromText(text)
    },
  }
}

const optionsByForm = (field: FieldDefinition) =>
  new Map(field.options.map((option) => [comparisonForm(option), option]))

/** Options for a message: not all of a hundred. */
function shownOptions(field: FieldDefinition): string {
  const shown = field.options.slice(0, 10).map((option) => `"${option}"`)
  return field.options.length > 10
    ? `${shown.join(', ')}, ... (${field.options.length} options)`
    : shown.join(', ')
}

/**
 * Several options in one text, split at "|" and ","; an option's own name may hold both, so at the start of each
 * part the longest option that ends at a separator is taken first. A part is tried up to as many separators further as
 * an option's name holds, so the time grows with the text alone.
 */
function checkboxReader(field: FieldDefinition): FieldReader {
  const byForm = optionsByForm(field)
  const maxSeparators = Math.max(
    0,
    ...[...byForm.keys()].map((form) => (form.split(separators).length - 1) / 2),
  )
  const inListOrder = (chosen: Set<string>) => field.options.filter((option) => chosen.has(option))

  const fromText = (text: string): string[] | null => {
    const chosen = new Set<string>()
    const parts = comparisonForm(text).split(separators)
    // Separators stand between the parts: `parts[i + 1]` is the one after `parts[i]`.
    for (let i = 0; i < parts.length;) {
      let taken = 0
      for (
        let more = Math.min(maxSeparators, (parts.length - 1 - i) / 2);
        taken === 0 && more >= 0;
        more -= 1
      ) {
        const length = more * 2 + 1
        const form = (more === 0 ? parts[i]! : parts.slice(i, i + length).join('')).trim()
        const option = byForm.get(form)
        if (option === undefined && !(more === 0 && form === '')) continue
        if (option !== undefined) chosen.add(option)
        taken = length
      }
      if (taken === 0) return null
      i += taken + 1
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
  return {
    field,
    expectation: `one or more of ${shownOptions(field)}`,
    fromText,
    fromJson: (value) =>
      Array.isArray(value)
        ? fromArray(value as unknown[])
        : typeof value === 'string'
          ? fromText(value)
          : null,
  }
}

/** In a group, so that a split keeps them. */
const separators = /([|,])/
