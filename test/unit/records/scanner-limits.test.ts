import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { dialectBytes, RecordScanner, recordFlags } from '../../../shared/csv/record-scanner.ts'
import type { ContentFormat } from '../../../shared/contract/schemas/import.ts'
import { utf8Format } from '../../helpers/make-plan.ts'
import { lineBreaks, splitFile, type RawRecord } from '../../model/records.ts'

/** A scanner with small limits meets in files of some bytes what imports meet in files of megabytes. */
const limits = { maxRecordBytes: 32, maxEnclosureBytes: 8, maxEnclosureLines: 3, firstWindow: 4 }

interface Found {
  bytes: string
  line: number
  lines: number
  flags: number
  longCell: string | null
}

function makeScanner(format: ContentFormat, wantedColumn: number) {
  const found: Found[] = []
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn,
    limits,
    onRecord: ({ bytes, start, end, line, lines, flags, longCell }) => {
      const cell = longCell?.toString('latin1') ?? null
      found.push({ bytes: bytes.toString('latin1', start, end), line, lines, flags, longCell: cell })
    },
  })
  return { scanner, found }
}

/** Gives a text to a scanner in slices of `step` bytes, as the blocks of a file come. */
function feed(scanner: RecordScanner, text: string, step: number, behind = ','): void {
  const file = Buffer.from(text, 'latin1')
  for (let at = 0; at < file.length;) {
    const space = scanner.space()
    assert.ok(space.length > 0 && space.buffer.byteLength <= 4 * (limits.maxRecordBytes + 1))
    const copied = file.copy(space, 0, at, at + step)
    // Bytes of the window that aren't the file's must not be read.
    space.fill(behind, copied)
    scanner.advance(copied)
    at += copied
  }
}

function scan(text: string, format: ContentFormat, wantedColumn: number, step: number): Found[] {
  const { scanner, found } = makeScanner(format, wantedColumn)
  feed(scanner, text, step, format.csv_field_separator)
  scanner.end()
  return found
}

/** What the scanner must find of a record. */
function expected(record: RawRecord, format: ContentFormat, wantedColumn: number): Found {
  const { typedCells, isUnterminated, isTooLong, bytes, line } = record
  const enclosure = format.csv_field_enclosure
  const closed = isUnterminated ? typedCells.slice(0, -1) : typedCells
  const enclosed = closed.filter((cell) => cell.startsWith(enclosure))
  let flags = isUnterminated ? recordFlags.unterminated : 0
  if (enclosed.length > 0) flags |= recordFlags.enclosed
  if (enclosed.some((cell) => !isRegular(cell, enclosure))) flags |= recordFlags.irregular
  if (!isTooLong) return { bytes, line, lines: 1 + lineBreaks(bytes), flags, longCell: null }
  // The cells of a too long record are never parsed, so that each enclosed one may count as irregular.
  if (enclosed.length > 0) flags |= recordFlags.irregular
  const wanted = closed[wantedColumn]
  return {
    bytes: beginningOf(record, closed, format),
    line,
    lines: 1 + lineBreaks(bytes),
    flags: flags | recordFlags.tooLong,
    longCell: wanted !== undefined && wanted.length <= 2 * limits.maxEnclosureBytes ? wanted : null,
  }
}

/** Enclosed from its first byte to its last. */
const isRegular = (cell: string, enclosure: string): boolean =>
  cell.length > 1 &&
  cell.endsWith(enclosure) &&
  !cell
    .slice(1, -1)
    .replaceAll(enclosure + enclosure, '')
    .includes(enclosure)

/** Whole cells up to the limit, and of the next one its beginning, unless that ends in an enclosed text. */
function beginningOf({ typedCells }: RawRecord, closed: string[], format: ContentFormat): string {
  let kept = ''
  for (const [column, cell] of typedCells.entries()) {
    const remaining = limits.maxRecordBytes - kept.length
    const piece = (column === 0 ? '' : format.csv_field_separator) + cell
    if (piece.length > remaining) {
      const isClosed = column < closed.length && cell.startsWith(format.csv_field_enclosure)
      const enclosed = isClosed ? enclosedText(cell, format.csv_field_enclosure) : ''
      return piece.length - cell.length + enclosed.length > remaining
        ? kept
        : kept + piece.slice(0, remaining)
    }
    kept += piece
  }
  return kept
}

/** The enclosed text that a cell begins with. */
const enclosedText = (cell: string, enclosure: string): string =>
  new RegExp(`^${enclosure}(?:[^${enclosure}]|${enclosure}${enclosure})*${enclosure}`).exec(cell)![0]

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
  return isAtLimit && !record.isTooLong ? { ...found, flags: found.flags & ~recordFlags.tooLong } : found
}

const separators = [',', ';', '\t'] as const
const enclosures = ['"', "'"] as const

const file = fc.constantFrom(...separators).chain((csv_field_separator) =>
  fc.constantFrom(...enclosures).chain((csv_field_enclosure) =>
    fc.record({
      format: fc.constant({ ...utf8Format, csv_field_separator, csv_field_enclosure }),
      text: fc
        .array(
          fc.constantFrom(
            ...[csv_field_separator, csv_field_separator, csv_field_enclosure, csv_field_enclosure],
            ...[csv_field_enclosure + csv_field_enclosure, '\n', '\r', '\r\n', ' ', '\t', 'a', 'bc', 'é'],
            ...['sixteen bytes ...', '  '.repeat(8), `${csv_field_enclosure}x${csv_field_enclosure}`],
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

t.test('where a scan is between records, another one can scan the rest', (t) => {
  let compared = 0
  fc.assert(
    fc.property(file, fc.nat({ max: 100 }), ({ text, format, wantedColumn, step }, cut) => {
      const first = makeScanner(format, wantedColumn)
      feed(first.scanner, text.slice(0, cut), step)
      if (!first.scanner.isBetweenRecords || first.found.length === 0) return
      compared += 1
      const { lines } = first.scanner
      const rest = scan(text.slice(cut), format, wantedColumn, step).map((record) => ({
        ...record,
        line: record.line + lines,
      }))
      assert.deepEqual([...first.found, ...rest], scan(text, format, wantedColumn, 64))
    }),
    { numRuns: runs },
  )
  t.comment(`${compared} files compared`)
  t.ok(compared > runs / 40)
  t.end()
})

t.test('a scan is between records only behind a line end that no byte can change', (t) => {
  for (const [text, isBetween, lines] of [
    ['', true, 0],
    ['a\n', true, 1],
    ['a\r\n', true, 1],
    ['a\n\n', true, 2],
    ['"a\nb"\nc\n', true, 3],
    [`${'x'.repeat(40)}\n`, true, 1],
    ['a', false, 0],
    ['a\r', false, 0],
    ['a\n ', false, 1],
    ['a\n"b\n', false, 1],
    [`a\n${' '.repeat(40)}`, false, 1],
    [`a\n${'x'.repeat(40)}`, false, 1],
    [`a\n${'x'.repeat(40)}\r`, false, 1],
  ] as const)
    for (const step of [1, 64]) {
      const { scanner } = makeScanner(utf8Format, 0)
      feed(scanner, text, step)
      t.same(
        [scanner.isBetweenRecords, scanner.lines],
        [isBetween, lines],
        `${JSON.stringify(text)}, ${step}`,
      )
    }
  t.end()
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

t.test('cells of a too long record end where the contract says, at the limits too', (t) => {
  const long = 'x'.repeat(40)
  for (const text of [
    `${'x'.repeat(27)},"ab",${'y'.repeat(10)}\nb`,
    `${'x'.repeat(27)},"abc",${'y'.repeat(10)}\nb`,
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
