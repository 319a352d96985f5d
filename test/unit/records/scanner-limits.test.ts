import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { recordFlags } from '../../../shared/csv/record-scanner.ts'
import type { ContentFormat } from '../../../shared/contract/schemas/import.ts'
import { utf8Format } from '../../helpers/make-plan.ts'
import { feed, limits, makeScanner, scan, type Found } from '../../helpers/small-scanner.ts'
import { lineBreaks, splitFile, type RawRecord } from '../../model/records.ts'

/** What the scanner must find of a record. */
function expected(record: RawRecord, format: ContentFormat, wantedColumn: number): Found {
  const { typedCells, isUnterminated, isTooLong, bytes, line } = record
  const closed = isUnterminated ? typedCells.slice(0, -1) : typedCells
  const enclosed = closed.filter((cell) => enclosedText(cell, format) !== null)
  let flags = isUnterminated ? recordFlags.unterminated : 0
  if (enclosed.length > 0) flags |= recordFlags.enclosed
  if (enclosed.some((cell) => enclosedText(cell, format) !== cell)) flags |= recordFlags.irregular
  if (enclosed.some((cell) => enclosedText(cell, format) !== withoutBlanks(cell, format)))
    flags |= recordFlags.typed
  if (!isTooLong) return { bytes, line, lines: 1 + lineBreaks(bytes), flags, longCell: null }
  // The cells of a too long record are never parsed, so that each enclosed one may count as irregular.
  if (enclosed.length > 0) flags |= recordFlags.irregular
  const wanted = closed[wantedColumn]
  const wantedEnd = closed.slice(0, wantedColumn + 1).join(format.csv_field_separator).length
  return {
    bytes: beginningOf(record, closed, format),
    line,
    lines: 1 + lineBreaks(bytes),
    flags: (flags & ~recordFlags.typed) | recordFlags.tooLong,
    longCell: wanted !== undefined && wantedEnd <= limits.maxIdentityBytes ? wanted : null,
  }
}

/** The enclosed text that a cell begins with, blanks aside, with its enclosures; null where there is none. */
function enclosedText(
  cell: string,
  { csv_field_enclosure: enclosure, ...format }: ContentFormat,
): string | null {
  const escaped = format.csv_field_escape ? '|\\\\["\'\\\\]' : ''
  const other = format.csv_field_escape ? '|\\\\(?!["\'\\\\])' : '|\\\\'
  const blank = format.csv_field_separator === '\t' ? ' ' : '[ \t]'
  const pattern = `^${blank}*(${enclosure}(?:[^\\\\${enclosure}]|${enclosure}${enclosure}${escaped}${other})*${enclosure})`
  return new RegExp(pattern).exec(cell)?.[1] ?? null
}

const withoutBlanks = (cell: string, { csv_field_separator: separator }: ContentFormat): string =>
  cell.replaceAll(separator === '\t' ? /^ +| +$/g : /^[ \t]+|[ \t]+$/g, '')

/** Whole cells up to the limit, and of the next one its beginning, unless that ends in an enclosed text. */
function beginningOf({ typedCells }: RawRecord, closed: string[], format: ContentFormat): string {
  let kept = ''
  for (const [column, cell] of typedCells.entries()) {
    const remaining = limits.maxRecordBytes - kept.length
    const piece = (column === 0 ? '' : format.csv_field_separator) + cell
    if (piece.length > remaining) {
      const enclosed = column < closed.length ? enclosedText(cell, format) : null
      const from = piece.length - cell.length + cell.indexOf(enclosed ?? '')
      const isCutInside = enclosed !== null && remaining > from && remaining < from + enclosed.length
      return isCutInside ? kept : kept + piece.slice(0, remaining)
    }
    kept += piece
  }
  return kept
}

/** A too long record may have lost blanks of its beginning, and it doesn't matter which. */
const withoutTabs = (found: Found): Found => ({
  ...found,
  bytes: found.bytes.replace(/^[ \t]+/, (blanks) => ' '.repeat(blanks.length)),
})

/**
 * Where an enclosure in a record of exactly the limit doesn't end, the scanner may count the record as too long too. It
 * can't know the end before it has read beyond it, and the row fails for its enclosure in any case.
 */
function asModelled(found: Found, record: RawRecord | undefined): Found {
  const isAtLimit = record?.bytes.length === limits.maxRecordBytes && record.isUnterminated
  const shown = { ...found, flags: found.flags & ~recordFlags.backslash }
  return isAtLimit && !record.isTooLong ? { ...shown, flags: shown.flags & ~recordFlags.tooLong } : shown
}

const separators = [',', ';', '\t'] as const
const enclosures = ['"', "'"] as const

const file = fc.constantFrom(...separators).chain((csv_field_separator) =>
  fc.constantFrom(...enclosures).chain((csv_field_enclosure) =>
    fc.record({
      format: fc.constantFrom(null, '\\' as const).map((escape) => ({
        ...utf8Format,
        csv_field_separator,
        csv_field_enclosure,
        csv_field_escape: escape,
      })),
      text: fc
        .array(
          fc.constantFrom(
            ...[csv_field_separator, csv_field_separator, csv_field_enclosure, csv_field_enclosure],
            ...[csv_field_enclosure + csv_field_enclosure, '\n', '\r', '\r\n', ' ', '\t', 'a', 'bc', 'é'],
            ...[
              '\\',
              `\\${csv_field_enclosure}`,
              'sixteen bytes ...',
              '  '.repeat(8),
              `${csv_field_enclosure}x${csv_field_enclosure}`,
            ],
          ),
          { maxLength: 40 },
        )
        .map((parts) => parts.join('')),
      wantedColumn: fc.integer({ min: 0, max: 3 }),
      step: fc.integer({ min: 1, max: 48 }),
    }),
  ),
)

// Long by hand: ROLLCALL_FUZZ_RUNS=300000
const runs = Number(process.env['ROLLCALL_FUZZ_RUNS'] ?? 4_000)
const modelLimits = { recordBytes: 32, enclosedBytes: 8, enclosedLines: 3 }

t.test(`records are cut and told apart at small limits as at large ones, in ${runs} random files`, (t) => {
  let tooLong = 0
  fc.assert(
    fc.property(file, ({ text, format, wantedColumn, step }) => {
      const { records } = splitFile(text, format, modelLimits)
      tooLong += records.filter((record) => record.isTooLong).length
      const found = scan(text, format, wantedColumn, step)
      const wanted = records.map((record) => withoutTabs(expected(record, format, wantedColumn)))
      assert.deepEqual(
        found.map((one, i) => withoutTabs(asModelled(one, records[i]))),
        wanted,
      )
    }),
    {
      numRuns: runs,
      examples: [
        [
          {
            format: { ...utf8Format, csv_field_separator: ';', csv_field_enclosure: "'" },
            text: `bc${' '.repeat(16)}'x''x';bc;'x''\r\n`,
            wantedColumn: 0,
            step: 48,
          },
        ],
      ],
    },
  )
  t.comment(`${tooLong} too long records`)
  t.ok(tooLong > runs / 20)
  t.end()
})

t.test('cells of a too long record end where the contract says, at the limits too', (t) => {
  const long = 'x'.repeat(40)
  for (const text of [
    `${'x'.repeat(27)},"ab",${'y'.repeat(10)}\nb`,
    `${'x'.repeat(27)},"abc",${'y'.repeat(10)}\nb`,
    `${'x'.repeat(27)},"ab"${'y'.repeat(10)}\nb`,
    `${'x'.repeat(28)},"ab"${'y'.repeat(10)}\nb`,
    `${'x'.repeat(31)},${'y'.repeat(10)}\nb`,
    `${'x'.repeat(32)},${'y'.repeat(10)}\nb`,
    `${long},"a,",b\nb`,
    `${long},"a\n",b\nb`,
    `${long},"a\n\n\nb"\nb`,
    `${long},"a\n\nb"\nb`,
    `${long},`,
  ])
    for (const step of [1, 7, 64]) {
      const { scanner, found } = makeScanner(utf8Format, 1)
      feed(scanner, text, step, '"')
      scanner.end()
      const { records } = splitFile(text, utf8Format, modelLimits)
      t.same(
        found,
        records.map((record) => expected(record, utf8Format, 1)),
        `${JSON.stringify(text)}, ${step} bytes at a time`,
      )
    }
  t.end()
})
