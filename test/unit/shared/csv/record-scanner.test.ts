import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import t from 'tap'
import { dialectBytes, RecordScanner, recordFlags } from '../../../../shared/csv/record-scanner.ts'
import { utf8Format } from '../../../helpers/make-plan.ts'
import { feed, limitsOf, makeScanner, scan, limits, type Found } from '../../../helpers/small-scanner.ts'
import assert from 'node:assert/strict'
import type { ContentFormat } from '../../../../shared/contract/schemas/import.ts'
import { lineBreaks, splitFile, type RawRecord } from '../../../model/records.ts'

interface ScannedText {
  line: number
  text: string
  unterminated: boolean
}

type OnRecord = ConstructorParameters<typeof RecordScanner>[0]['onRecord']

/** Scans a text at the limits of imports, in slices of `step` bytes. */
function scanSlices(text: string, format: ContentFormat, step: number, onRecord: OnRecord, wantedColumn = 0) {
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn,
    limits: limitsOf(text),
    onRecord,
  })
  const bytes = Buffer.from(text, 'latin1')
  for (let at = 0; at < bytes.length;) {
    const copied = bytes.copy(scanner.space(), 0, at, at + step)
    scanner.advance(copied)
    at += copied
  }
  scanner.end()
}

function scanText(text: string, step: number, format: ContentFormat = utf8Format): ScannedText[] {
  const found: ScannedText[] = []
  scanSlices(text, format, step, ({ line, bytes, start, end, flags }) => {
    const unterminated = (flags & recordFlags.unterminated) !== 0
    found.push({ line, text: bytes.toString('latin1', start, end), unterminated })
  })
  return found
}

const expected = (text: string, format: ContentFormat = utf8Format): ScannedText[] =>
  splitFile(text, format).records.map(({ line, bytes, isUnterminated }) => ({
    ...{ line, text: bytes, unterminated: isUnterminated },
  }))

// Long by hand: ROLLCALL_FUZZ_RUNS=300000
const runs = Number(process.env['ROLLCALL_FUZZ_RUNS'] ?? 4_000)

const separators = [',', ';', '\t'] as const
const enclosures = ['"', "'"] as const

const dialect = fc
  .tuple(fc.constantFrom(...separators), fc.constantFrom(...enclosures), fc.constantFrom(null, '\\' as const))
  .map(([csv_field_separator, csv_field_enclosure, csv_field_escape]) => ({
    ...utf8Format,
    ...{ csv_field_separator, csv_field_enclosure, csv_field_escape },
  }))

const piecesFor = (separator: string, enclosure: string) => [
  ...[separator, separator, enclosure, enclosure, enclosure + enclosure],
  ...['\n', '\r', '\r\n', ' ', '\t', 'a', 'bc', 'é', '\\', `\\${enclosure}`],
]

/** Random files of every dialect, each with the size of the slices in which it is read. */
const file = dialect.chain((format) =>
  fc.record({
    format: fc.constant(format),
    text: fc
      .array(fc.constantFrom(...piecesFor(format.csv_field_separator, format.csv_field_enclosure)), {
        maxLength: 40,
      })
      .map((parts) => parts.join('')),
    step: fc.integer({ min: 1, max: 64 }),
  }),
)

t.test(
  `records end where the rules say, in ${runs} random files read in slices of 1 to 64 bytes`,
  async (t) => {
    fc.assert(
      fc.property(file, ({ text, format, step }) => {
        assert.deepEqual(scanText(text, step, format), expected(text, format))
      }),
      { numRuns: runs },
    )
    t.pass()
  },
)

t.test(`records end where csv-parse ends them, in ${runs} random files`, async (t) => {
  let compared = 0
  fc.assert(
    fc.property(file, ({ text, format: { csv_field_escape: _, ...others }, step }) => {
      const format = { ...others, csv_field_escape: null }
      const { csv_field_separator: separator, csv_field_enclosure: enclosure } = format
      // csv-parse doesn't skip blanks before an enclosure, and reads on where text is behind one on a later line.
      const isAlike = (record: ScannedText) => !record.unterminated && !/[ \t]["']/.test(record.text)
      if (!expected(text, format).every(isAlike)) return true
      const ends = endsByCsvParse(text, separator, enclosure)
      // csv-parse refuses the whole file when an enclosure doesn't end.
      if (ends === null) return true
      compared += 1
      const isBlank = (record: string) =>
        Array.from(record).every((unit) => unit !== separator && ' \t'.includes(unit))
      const found = scanText(text, step, format).map((record) => record.text)
      return JSON.stringify(found) === JSON.stringify(ends.filter((record) => !isBlank(record)))
    }),
    { numRuns: runs },
  )
  t.comment(`${compared} files compared`)
  t.ok(compared > runs / 8)
})

/** The records' texts; null when it reads none because an enclosure doesn't end. */
function endsByCsvParse(text: string, separator: string, enclosure: string): string[] | null {
  try {
    const records = parse(Buffer.from(text, 'latin1'), {
      delimiter: separator,
      quote: enclosure,
      escape: enclosure,
      record_delimiter: ['\r\n', '\n', '\r'],
      encoding: 'latin1',
      relax_quotes: true,
      relax_column_count: true,
      info: true,
    }) as unknown as { info: { bytes: number } }[]
    let start = 0
    return records.map(({ info }) => {
      const record = text.slice(start, info.bytes)
      start = info.bytes
      return record.replace(/(\r\n|\n|\r)$/, '')
    })
  } catch (error) {
    if ((error as { code?: string }).code === 'CSV_QUOTE_NOT_CLOSED') return null
    throw error
  }
}

t.test('enclosures are bounded by 256 KiB and 1,000 lines', async (t) => {
  const files = {
    'an end 256 KiB after the beginning': `"${'x'.repeat(262_143)}",1\nb,2\n`,
    'an end one byte later': `"${'x'.repeat(262_144)}",1\nb,2\n`,
    'a thousand lines': `"${'y\n'.repeat(999)}",1\nb,2\n`,
    'one line more': `"${'y\n'.repeat(1_000)}",1\nb,2\n`,
    'no end in the file': 'a,"never\nb,2\nc,3',
    'a doubled one at the end': 'a,"never""\nb,2',
  }
  for (const [name, text] of Object.entries(files)) {
    for (const step of [1_000, 65_536, 4_000_000])
      t.same(scanText(text, step), expected(text), `${name}, ${step} bytes at a time`)
  }
})

t.test('a record over 1 MiB is cut in a cell, keeps its identity, and the next one is whole', async (t) => {
  const long = [
    'x'.repeat(50_000),
    '"y,z"',
    'w'.repeat(1_000),
    '  Ann@example.com ',
    'v'.repeat(1_030_000),
    '"multi\nline"',
  ].join(',')
  for (const step of [10_000, 1_000_000]) {
    const records: object[] = []
    const lengths: number[] = []
    const keep: OnRecord = ({ line, lines, start, end, flags, longCell }) => {
      lengths.push(end - start)
      const tooLong = (flags & recordFlags.tooLong) !== 0
      records.push({ line, lines, tooLong, cell: longCell?.toString() ?? null })
    }
    scanSlices(`a,b\n${long}\nc,d\n`, utf8Format, step, keep, 3)
    t.equal(records.length, 3)
    t.match(records[1], { line: 2, lines: 2, tooLong: true, cell: '  Ann@example.com ' })
    t.ok(lengths[1]! <= 1024 * 1024 && lengths[1]! > 1_000_000)
    t.match([records[2], lengths[2]], [{ line: 4, tooLong: false }, 3])
  }
})

t.test('a record of more than 1 MiB has an identity only where it ends in the first 64 KiB', async (t) => {
  for (const [before, isKept] of [
    [65_536 - 8, true],
    [65_536 - 7, false],
  ] as const)
    for (const step of [1_000, 65_536, 3_000_000]) {
      const cells: (string | null)[] = []
      const text = `${'x'.repeat(before)},a@bb.co,${'v'.repeat(2_000_000)}`
      scanSlices(text, utf8Format, step, ({ longCell }) => cells.push(longCell?.toString() ?? null), 1)
      t.same(cells, [isKept ? 'a@bb.co' : null], `${before} bytes before it, ${step} at a time`)
    }
})

t.test('of an unterminated record that is too long the beginning is kept', async (t) => {
  const found = scanText(`"never ${'x'.repeat(2_000_000)}\nb,2\n`, 65_536)
  t.equal(found.length, 2)
  t.match(found[0], { line: 1, unterminated: true, text: /^"never x{1000000}/ })
  t.match(found[1], { line: 2, text: 'b,2' })
})

t.test('a long cell that begins with an enclosed text is cut behind that text only', async (t) => {
  const long = 'x'.repeat(2_000_000)
  const half = 'x'.repeat(500_000)
  const enclosed = `"${'y'.repeat(100_000)}"`
  for (const step of [1_000, 65_536, 3_000_000]) {
    const bars = { ...utf8Format, csv_field_separator: '|' } as const
    const kept = (text: string) => scanText(text, step, bars).map((record) => record.text)
    const [first, second] = kept(`"Ann@b.co",6${long}|c\nb,2\n`)
    t.equal(first, `"Ann@b.co",6${'x'.repeat(1_048_576 - 12)}`)
    t.equal(second, 'b,2')
    t.same(kept(`${half}|${half}|${enclosed}z|c\n`), [`${half}|${half}`])
    t.same(kept(`${half}|${half}|"y"z${long}|c\n`), [`${half}|${half}|"y"z${'x'.repeat(48_570)}`])
    t.same(kept(`${long}"${long}|c\n`), ['x'.repeat(1_048_576)], 'an enclosure later in a cell is text')
  }
})

t.test('a record of exactly 1 MiB is not too long', async (t) => {
  for (const [length, tooLong] of [
    [1_048_576, false],
    [1_048_577, true],
  ] as const) {
    for (const ending of ['\n', '\r\n', '\r', '']) {
      const flags: number[] = []
      const text = 'x'.repeat(length) + ending
      scanSlices(text, utf8Format, text.length, ({ flags: found }) => flags.push(found))
      t.same(flags, [tooLong ? recordFlags.tooLong : 0], `${length} bytes and ${JSON.stringify(ending)}`)
    }
  }
})

t.test('after a too long record that a CR ends, the next one is read, wherever a block ends', (t) => {
  for (let step = 1; step < 48; step += 1)
    t.same(
      scan(`${'x'.repeat(40)}\rb,c\rd`, utf8Format, 0, step).map(({ bytes, line }) => [bytes, line]),
      [
        ['x'.repeat(32), 1],
        ['b,c', 2],
        ['d', 3],
      ],
    )
  t.end()
})

t.test('blanks count as bytes of a record, however many and however they come', (t) => {
  for (let step = 1; step < 48; step += 1) {
    const found = scan(`${' '.repeat(60)}b\n${' '.repeat(31)}c\n${' '.repeat(60)}\nd`, utf8Format, 0, step)
    const kinds = found.map(({ flags, line }) => [flags, line])
    t.same(kinds, [
      [recordFlags.tooLong, 1],
      [0, 2],
      [0, 4],
    ])
    const behind = scan(`${' '.repeat(40)}\r\nb`, utf8Format, 0, step)
    t.same(
      behind.map(({ flags, line }) => [flags, line]),
      [[0, 2]],
    )
  }
  t.end()
})

t.test('a window grows when more than half of it waits', (t) => {
  const { scanner } = makeScanner(utf8Format, 0)
  feed(scanner, 'ab', 2)
  t.equal(scanner.space().length, 2, 'half of four')
  feed(scanner, 'c', 1)
  t.equal(scanner.space().length, 5, 'three of eight')
  t.end()
})

t.test('a record or a blank line of any length takes bounded memory', (t) => {
  const texts = [
    'x'.repeat(1_000),
    'abc,'.repeat(250),
    '"a",'.repeat(250),
    `"${'x'.repeat(1_000)}`,
    '"a"b'.repeat(250),
  ]
  for (const text of [...texts, ' '.repeat(1_000), `"a"${' '.repeat(1_000)}`])
    for (const step of [1, 7, 64]) {
      const { scanner, found } = makeScanner(utf8Format, 0)
      // Asserts the size of the window.
      feed(scanner, text, step)
      feed(scanner, `\nb\n`, step)
      t.equal(found.at(-1)!.bytes, 'b', `${text.slice(0, 10)}, ${step} bytes at a time`)
    }
  t.end()
})

t.test('line breaks in enclosures of a too long record count, wherever a block ends', (t) => {
  for (let step = 1; step < 48; step += 1) {
    const found = scan(`"a\nb","c\r\nd",${'x'.repeat(40)},"e\n"\nb`, utf8Format, 1, step)
    t.same(
      found.map(({ line, lines, longCell }) => [line, lines, longCell]),
      [
        [1, 4, '"c\r\nd"'],
        [5, 1, null],
      ],
    )
  }
  t.end()
})

t.test('a doubled enclosure closes nothing where a block ends in it', (t) => {
  for (let step = 1; step < 60; step += 1)
    t.same(
      scan(`${'x'.repeat(40)},"a""${'b'.repeat(20)}\nc`, utf8Format, 0, step).map(({ flags }) => flags),
      [recordFlags.tooLong | recordFlags.unterminated, 0],
    )
  t.end()
})

t.test('CR, LF and CRLF in an enclosure are a line break each', (t) => {
  for (const [text, lines] of [
    ['"a\r\rb"', 3],
    ['"a\n\nb"', 3],
    ['"\r\n\n"', 3],
    ['"\n\r"', 3],
    ['"\r\n\r"', 3],
    ['"\r\n\r\n"', 3],
    ['"a\r\n"', 2],
  ] as const)
    t.same(
      scan(`${text}\nb`, utf8Format, 0, 64).map(({ line, lines }) => [line, lines]),
      [
        [1, lines],
        [1 + lines, 1],
      ],
    )
  t.end()
})

t.test('lines that were skipped before the first byte count', (t) => {
  for (const skipped of [undefined, 0, 1, 5]) {
    const { scanner, found } = makeScanner(utf8Format, 0, skipped)
    const before = skipped ?? 0
    feed(scanner, 'a\n\nb\n', 64)
    t.same(
      found.map(({ line }) => line),
      [before + 1, before + 3],
    )
  }
  t.end()
})

/** What the scanner must find of a record. */
function expectedRecord(record: RawRecord, format: ContentFormat, wantedColumn: number): Found {
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

const limitedFile = dialect.chain((format) => {
  const { csv_field_separator: separator, csv_field_enclosure: enclosure } = format
  const long = ['sixteen bytes ...', '  '.repeat(8), `${enclosure}x${enclosure}`]
  return fc.record({
    format: fc.constant(format),
    text: fc
      .array(fc.constantFrom(...piecesFor(separator, enclosure), ...long), { maxLength: 40 })
      .map((parts) => parts.join('')),
    wantedColumn: fc.integer({ min: 0, max: 3 }),
    step: fc.integer({ min: 1, max: 48 }),
  })
})

const modelLimits = { recordBytes: 32, enclosedBytes: 8, enclosedLines: 3 }

t.test(`records are cut and told apart at small limits as at large ones, in ${runs} random files`, (t) => {
  let tooLong = 0
  fc.assert(
    fc.property(limitedFile, ({ text, format, wantedColumn, step }) => {
      const { records } = splitFile(text, format, modelLimits)
      tooLong += records.filter((record) => record.isTooLong).length
      const found = scan(text, format, wantedColumn, step)
      const wanted = records.map((record) => withoutTabs(expectedRecord(record, format, wantedColumn)))
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
        records.map((record) => expectedRecord(record, utf8Format, 1)),
        `${JSON.stringify(text)}, ${step} bytes at a time`,
      )
    }
  t.end()
})
