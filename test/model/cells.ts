import type { FieldDefinition, FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import { comparisonForm, lengthOf, sameWithoutCase } from './comparison-form.ts'
import { isNoDate, readDay, readDayOfYear, type DateOrder } from './dates.ts'

/** Cells of custom fields (decisions 2.5). `text` is trimmed and not blank; null: the row fails. */

const maxCharacters = 65_535
const largestNumber = 2n ** 53n - 1n

export function readFieldCell(text: string, field: FieldDefinition, order: DateOrder): FieldValue | null {
  switch (field.field_type) {
    case 'text':
    case 'text_multiline':
      return readText(text, field)
    case 'number':
      return readNumber(text, field)
    case 'date':
      return isNoDate(text) ? [] : readDay(text, order)
    case 'day_of_year':
      return isNoDate(text) ? [] : readDayOfYear(text, order)
    case 'select_single_dropdown':
    case 'select_single_radio':
      return optionNamed(text, field)
    case 'select_multiple_checkboxes':
      return readCheckboxes(text, field)
    case 'boolean':
      return readBoolean(text)
  }
}

/** "Length (in code points)"; "at most 65,535 characters where the field has no `maximum_length`". */
function readText(text: string, field: FieldDefinition): string | null {
  const length = lengthOf(text)
  if (length < (field.minimum_length ?? 0) || length > (field.maximum_length ?? maxCharacters)) return null
  return text
}

/** "An integer with optional sign, at most 2^53−1 in size (`007` is 7; a fraction of zeros is dropped)." */
function readNumber(text: string, field: FieldDefinition): number | null {
  const digits = /^([+-]?)([0-9]+)(?:\.0+)?$/.exec(text)
  if (digits === null) return null
  const size = BigInt(digits[2]!)
  if (size > largestNumber) return null
  return inRange(digits[1] === '-' && size > 0n ? -Number(size) : Number(size), field)
}

function inRange(value: number, field: FieldDefinition): number | null {
  return value < (field.minimum_value ?? -Infinity) || value > (field.maximum_value ?? Infinity)
    ? null
    : value
}

const [yes, no] = [
  ['1', 'true', 't', 'yes', 'y', 'on', 'ja', 'oui', 'si', 'sí', 'sì', 'sim', 'da', 'да'],
  ['0', 'false', 'f', 'no', 'n', 'off', 'nein', 'non', 'não', 'ne', 'нет'],
]

/** "`1/0 true/false t/f yes/no y/n on/off ja/nein oui/non si/sí/no sim/não da/ne да/нет`, without case." Italian writes `sì`. */
export function readBoolean(text: string): boolean | null {
  const name = comparisonForm(text)
  return yes.includes(name) ? true : no.includes(name) ? false : null
}

/** "The option's name without case." */
const optionNamed = (text: string, field: FieldDefinition): string | null =>
  field.options.find((option) => sameWithoutCase(option, text)) ?? null

/**
 * "Split at `|` or `,` outside options' own names (longest option first), parts trimmed, blank ones ignored, each
 * option once, in the list's order; an unknown one fails" (2.5). "Also split at `;`, and a part may be enclosed in `"`
 * (doubled inside); options' own names are found first, longest first, also inside the enclosure; an enclosed part that
 * is no option fails" (beyond 1).
 */
function readCheckboxes(text: string, field: FieldDefinition): string[] | null {
  const chosen = new Set<string>()
  let at = 0
  while (at <= text.length) {
    const part = partAt(text, at, field)
    if (part === null) return null
    if (part.option !== null) chosen.add(part.option)
    at = part.end + 1
  }
  return field.options.filter((option) => chosen.has(option))
}

interface Part {
  end: number
  /** Null where the part is blank. */
  option: string | null
}

/** The part that begins at `from`; null where it is no option. */
function partAt(text: string, from: number, field: FieldDefinition): Part | null {
  const ends = [...partEnds(text, from)]
  for (const end of ends.toReversed()) {
    const option = optionNamed(text.slice(from, end).trim(), field)
    if (option !== null) return { end, option }
  }
  if (!text.slice(from).trimStart().startsWith('"')) {
    const end = ends[0]!
    return text.slice(from, end).trim() === '' ? { end, option: null } : null
  }
  const enclosed = ends.flatMap((end) => {
    const content = /^"(.*)"$/s.exec(text.slice(from, end).trim())?.[1]?.trim()
    return content === undefined ? [] : [{ end, content }]
  })
  for (const { end, content } of enclosed.toReversed()) {
    const option = optionNamed(content, field) ?? optionNamed(undoubled(content), field)
    if (option !== null) return { end, option }
  }
  const blank = enclosed.find(({ content }) => content === '')
  return blank === undefined ? null : { end: blank.end, option: null }
}

/** A text in which each `"` is doubled, without the second ones; no name where one is not. */
const undoubled = (text: string): string =>
  text.replaceAll('""', '').includes('"') ? '' : text.replaceAll('""', '"')

/** The ends of a part that begins at `from`: any separator that follows, or the end of the text. */
function* partEnds(text: string, from: number): Generator<number> {
  for (let at = from; at < text.length; at += 1) if (separators.has(text.charAt(at))) yield at
  yield text.length
}

/** NFC, in which names are compared, makes the Greek question mark a semicolon. */
const separators = new Set(['|', ',', ';', '\u037e'])

/**
 * Values in JSON (decisions 7): "string, integer, `YYYY-MM-DD`, `MM-DD`, option name, array of option names, boolean;
 * null unset; a string is also read as an import's cell would be". Throws where the API refuses the value.
 */
export function readJsonValue(json: unknown, field: FieldDefinition, order: DateOrder): FieldValue | null {
  const value = typeof json === 'string' ? readJsonString(json, field, order) : readJsonOther(json, field)
  if (value === undefined) throw new Error(`the API refuses ${JSON.stringify(json)} for ${field.name}`)
  return value === null || isNoValue(value) ? null : value
}

function readJsonString(json: string, field: FieldDefinition, order: DateOrder) {
  const text = json.trim()
  // `MM-DD` is the JSON value, whatever order cells are in.
  if (field.field_type === 'day_of_year' && /^\d\d-\d\d$/.test(text))
    return readDayOfYear(text, 'mdy') ?? undefined
  return text === '' ? null : (readFieldCell(text, field, order) ?? undefined)
}

function readJsonOther(json: unknown, field: FieldDefinition): FieldValue | null | undefined {
  if (json === null) return null
  if (typeof json === 'number' && field.field_type === 'number') return inRange(json, field) ?? undefined
  if (typeof json === 'boolean' && field.field_type === 'boolean') return json
  if (!Array.isArray(json) || field.field_type !== 'select_multiple_checkboxes') return undefined
  const names = json.map((name) => comparisonForm(String(name).trim()))
  return field.options.filter((option) => names.includes(comparisonForm(option)))
}

/** A checkboxes cell of separators alone names no option: it brings no value, like a blank one. */
export const isNoValue = (value: FieldValue): boolean => Array.isArray(value) && value.length === 0
