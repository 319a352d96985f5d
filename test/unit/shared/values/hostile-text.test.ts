import t from 'tap'
import { cellText, readCells } from '../../../../shared/csv/csv-cells.ts'
import { errorMessage, withoutData } from '../../../../shared/contract/errors.ts'
import { maskPassword } from '../../../../shared/runtime/logger.ts'
import type { FieldDefinition } from '../../../../shared/contract/schemas/custom-field.ts'
import { withoutFormula, writeLine } from '../../../../shared/csv/csv-line.ts'
import {
  isMonthFirstDate,
  isNoDate,
  parseApiTime,
  parseDateTime,
  parseDayOfYear,
} from '../../../../shared/values/date-time.ts'
import { emailIdentity, visibleEmail } from '../../../../shared/values/email.ts'
import { codePoints, fieldReader } from '../../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../../shared/values/identity.ts'
import { canonicalIp, clientNetwork } from '../../../../shared/values/ip.ts'
import { statusFromConsent, statusFromText } from '../../../../shared/values/subscriber-status.ts'
import { consentOfHeader } from '../../../../shared/csv/consent-headers.ts'
import { globMatcher } from '../../../../control-plane/resources/autoresponders/glob.ts'
import {
  columnWordTest,
  comparedName,
  speaksOfEmail,
} from '../../../../control-plane/resources/import-inspection/column-words.ts'

/**
 * Any sender of a request or a file chooses these texts. Each function that reads text gets long texts of the worst
 * kind, and must take time that grows with the length alone; a new one belongs here. A cell of checkboxes once took 7 s
 * for 16 KiB. Processor time is measured, so that other work on the machine doesn't matter.
 */
const repeat = (unit: string) => (length: number) =>
  unit.repeat(Math.ceil(length / unit.length)).slice(0, length)

const hostile: Record<string, (length: number) => string> = {
  'marks that are in order': repeat('\u0301'),
  'marks that must be sorted': repeat('\u0345\u0327\u031b\u0301'),
  'a letter and marks': (length) => `a${repeat('\u0327\u0301')(length)}`,
  'marks in an address': (length) => `ann@${repeat('\u0327\u0301')(length)}.example`,
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
  'blanks and a letter': (length) => `${repeat(' ')(length)}x`,
  'line ends': repeat('\r\n'),
  'per cent and a line end': (length) => `${repeat('%')(length)}\n`,
  letters: repeat('a'),
  'at signs': repeat('@'),
  'letters and at signs': repeat('a@'),
  digits: repeat('1'),
  dots: repeat('.'),
  'labels of a domain': (length) => `a@${repeat('a.')(length)}`,
  joiners: repeat('\u200d'),
  'joiners in a domain': (length) => `a@${repeat('\u200da')(length)}`,
  'soft hyphens': repeat('\u00ad'),
  'protected text without an end': (length) => `="${repeat('""')(length)}`,
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
  'readCells, doubled enclosures': (text) => readCells(`"${text.replaceAll('"', '""')}"`, csv),
  writeLine: (text) => writeLine([text], csv),
  withoutFormula,
  cellText,
  isNoDate,
  isMonthFirstDate,
  visibleEmail,
  statusFromText,
  statusFromConsent,
  consentOfHeader,
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

/** Processor time of this thread in milliseconds. Other processes of the machine add little to it. */
function cpuMs(work: () => unknown): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

/** Long enough to tell squares from noise, and shorter than what functions refuse for its length alone. */
const doubleLength = 2 ** 15
const maxRuns = 10
/** For compilations and collections of garbage, which come at any moment. */
const slackMs = 4

/**
 * How long a text and one of double its length take, where the second takes more than 2.5 times as long in the fastest
 * of several runs. Time that grows with the square takes four times as long.
 */
function steepGrowth(run: (text: string) => unknown, hostileText: (length: number) => string): string | null {
  const [half, whole] = [hostileText(doubleLength / 2), hostileText(doubleLength)]
  let halfMs = Infinity
  let wholeMs = Infinity
  for (let i = 0; i < maxRuns; i += 1) {
    // The first run, which may compile, is not one of the half.
    wholeMs = Math.min(
      wholeMs,
      cpuMs(() => run(whole)),
    )
    halfMs = Math.min(
      halfMs,
      cpuMs(() => run(half)),
    )
    if (wholeMs <= 2.5 * halfMs + slackMs) return null
    // No pause takes that long.
    if (wholeMs > 200) break
  }
  return `${halfMs.toFixed(1)} ms, and ${wholeMs.toFixed(1)} ms at double length`
}

/** How long a quarter of a mebibyte takes in the fastest of several runs, where that is far more than today. */
function slowness(run: (text: string) => unknown, hostileText: (length: number) => string): string | null {
  const text = hostileText(2 ** 18)
  let ms = Infinity
  for (let i = 0; i < maxRuns && ms > 250; i += 1)
    ms = Math.min(
      ms,
      cpuMs(() => run(text)),
    )
  return ms > 250 ? `${ms.toFixed(0)} ms for 256 KiB` : null
}

t.test('the time of every function grows with the length of any text alone', async (t) => {
  const slow: string[] = []
  for (const [name, run] of Object.entries(functions))
    for (const [kind, text] of Object.entries(hostile)) {
      const problem = steepGrowth(run, text) ?? slowness(run, text)
      if (problem !== null) slow.push(`${name} of ${kind}: ${problem}`)
    }
  t.same(slow, [])
})
