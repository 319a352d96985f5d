import t from 'tap'
import { parseEnclosedRecords, readCells } from '../../../shared/csv/csv-cells.ts'
import { errorMessage, withoutData } from '../../../shared/contract/errors.ts'
import { maskPassword } from '../../../shared/runtime/logger.ts'
import type { FieldDefinition } from '../../../shared/contract/schemas/custom-field.ts'
import { withoutFormula, writeLine } from '../../../shared/csv/csv-line.ts'
import { parseApiTime, parseDateTime, parseDayOfYear } from '../../../shared/values/date-time.ts'
import { emailIdentity } from '../../../shared/values/email.ts'
import { codePoints, fieldReader } from '../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { canonicalIp, clientNetwork } from '../../../shared/values/ip.ts'
import { globMatcher } from '../../../control-plane/resources/autoresponders/glob.ts'
import {
  columnWordTest,
  comparedName,
  speaksOfEmail,
} from '../../../control-plane/resources/import-inspection/column-words.ts'

/**
 * Any sender of a request or a file chooses these texts. Each function that reads text gets 1 MiB of the worst text
 * for it, and must take time that grows with the length alone.
 */
const size = 2 ** 20
const repeat = (unit: string) => unit.repeat(Math.ceil(size / unit.length)).slice(0, size)

const hostile: Record<string, string> = {
  'marks that are in order': repeat('\u0301'),
  'marks that must be sorted': repeat('\u0345\u0327\u031b\u0301'),
  'a letter and marks': `a${repeat('\u0327\u0301')}`,
  'marks in an address': `ann@${repeat('\u0327\u0301')}.example`,
  'high surrogates': repeat('\ud800'),
  pairs: repeat('\u{1d15e}'),
  'Hangul letters': repeat('\u1100\u1161\u11a8'),
  ligatures: repeat('\ufdfa'),
  sigmas: repeat('\u03a3\u0027'),
  commas: repeat(','),
  bars: repeat('|'),
  'options that nearly fit': repeat('a,'),
  quotes: repeat('"'),
  'quotes and commas': repeat('","'),
  'quotes and blanks': repeat('" '),
  blanks: repeat(' '),
  'blanks and a letter': `${repeat(' ')}x`,
  'line ends': repeat('\r\n'),
  'per cent and a line end': `${repeat('%')}\n`,
  letters: repeat('a'),
  'at signs': repeat('@'),
  'letters and at signs': repeat('a@'),
  digits: repeat('1'),
  dots: repeat('.'),
  'labels of a domain': `a@${repeat('a.')}`,
  dashes: repeat('-'),
  colons: repeat(':'),
  stars: repeat('*a'),
  'e-mails': repeat('e-'),
  months: repeat('January '),
}

const field = (changes: Partial<FieldDefinition>): FieldDefinition => ({
  id: 1,
  name: 'Field',
  field_type: 'text',
  required: false,
  options: [],
  default: null,
  minimum_length: null,
  maximum_length: null,
  minimum_value: null,
  maximum_value: null,
  ...changes,
})
const manyOptions = ['a', ...Array.from({ length: 999 }, (_, i) => `a${i}, b`)]
const longOptions = ['a', ...Array.from({ length: 126 }, (_, i) => `${'a,'.repeat(i + 1)}b`)]
const nestedOptions = ['a', ...Array.from({ length: 126 }, (_, i) => `a${',!'.repeat(i + 1)}`)]
const csv = { csv_field_separator: ',', csv_field_enclosure: '"', csv_field_escape: null } as const

const functions: Record<string, (text: string) => unknown> = {
  comparisonForm,
  emailIdentity,
  canonicalIp,
  networkOf: clientNetwork,
  messageOf: (text) => errorMessage(new Error(text)),
  withoutData,
  maskPassword,
  codePoints,
  'parseDateTime, mdy': (text) => parseDateTime(text, 'mdy'),
  'parseDateTime, dmy': (text) => parseDateTime(text, 'dmy'),
  parseDayOfYear: (text) => parseDayOfYear(text, 'mdy'),
  parseApiTime: (text) => parseApiTime(text, 'Europe/Berlin'),
  globMatcher: (text) => globMatcher(text)('Welcome'),
  'a name for a glob': (text) => globMatcher('*a*b*c*')(text.slice(0, 255)),
  comparedName,
  columnWord: columnWordTest(['Surname']),
  speaksOfEmail: (text) => speaksOfEmail(comparedName(text)),
  readCells: (text) => readCells(text, csv),
  parseEnclosedRecords: (text) => parseEnclosedRecords([`"${text.replaceAll('"', '""')}"`], csv),
  writeLine: (text) => writeLine([text], csv),
  withoutFormula,
  ...Object.fromEntries(
    Object.entries({
      text: { field_type: 'text' },
      'text_multiline with a length': { field_type: 'text_multiline', minimum_length: 5 },
      number: { field_type: 'number' },
      date: { field_type: 'date' },
      day_of_year: { field_type: 'day_of_year' },
      boolean: { field_type: 'boolean' },
      dropdown: { field_type: 'select_single_dropdown', options: manyOptions },
      'checkboxes with many options': { field_type: 'select_multiple_checkboxes', options: manyOptions },
      'checkboxes with long options': { field_type: 'select_multiple_checkboxes', options: longOptions },
      'checkboxes with nested options': { field_type: 'select_multiple_checkboxes', options: nestedOptions },
    } satisfies Record<string, Partial<FieldDefinition>>).map(([name, changes]) => {
      const reader = fieldReader(field(changes), 'mdy')
      return [name, (text: string) => reader.fromText(text)] as const
    }),
  ),
}

/**
 * The minimum of several runs, in milliseconds of this thread's processor time: other processes of the machine don't
 * count. One run below the bound is enough.
 */
function minCpuMs(work: () => unknown, maxMs: number): number {
  let min = Infinity
  for (let run = 0; run < 40 && min > maxMs; run += 1) {
    const before = process.threadCpuUsage()
    work()
    const { user, system } = process.threadCpuUsage(before)
    min = Math.min(min, (user + system) / 1000)
  }
  return min
}

t.test('1 MiB of any text takes every function less than 50 ms', async (t) => {
  // They make, copy or search a million pieces.
  const makesCells = new Set([
    'readCells',
    'parseEnclosedRecords',
    'checkboxes with long options',
    'checkboxes with nested options',
    'writeLine',
  ])
  const slow: string[] = []
  for (const [name, run] of Object.entries(functions))
    for (const [kind, text] of Object.entries(hostile)) {
      const maxMs = makesCells.has(name) ? 250 : 50
      const ms = minCpuMs(() => run(text), maxMs)
      if (ms > maxMs) slow.push(`${name} of ${kind}: ${Math.round(ms)} ms`)
    }
  t.same(slow, [])
})
