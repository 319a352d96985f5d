import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import t from 'tap'
import { RecordScanner, recordFlags } from '../../../shared/csv/record-scanner.ts'
import { referenceRecords } from '../../helpers/reference-csv.ts'

interface Found {
  line: number
  text: string
  unterminated: boolean
}

function scan(text: string, separator: string, enclosure: string, step: number, escape = false): Found[] {
  const found: Found[] = []
  const scanner = new RecordScanner({
    dialect: {
      separator: separator.charCodeAt(0),
      enclosure: enclosure.charCodeAt(0),
      escape: escape ? 0x5c : null,
    },
    wantedColumn: 0,
    onRecord: ({ line, bytes, start, end, flags }) => {
      found.push({
        line,
        text: bytes.toString('latin1', start, end),
        unterminated: (flags & recordFlags.unterminated) !== 0,
      })
    },
  })
  const bytes = Buffer.from(text, 'latin1')
  for (let at = 0; at < bytes.length;) {
    const copied = bytes.copy(scanner.space(), 0, at, at + step)
    scanner.advance(copied)
    at += copied
  }
  scanner.end()
  return found
}

const expected = (text: string, separator: string, enclosure: string, escape = false): Found[] =>
  referenceRecords(text, { separator, enclosure, escape: escape ? '\\' : null }).map(
    ({ line, text: record, cells }) => ({
      line,
      text: record,
      unterminated: cells === null,
    }),
  )

// Long by hand: ROLLCALL_FUZZ_RUNS=300000
const runs = Number(process.env['ROLLCALL_FUZZ_RUNS'] ?? 4_000)

const pieces = (separator: string, enclosure: string) =>
  fc
    .array(
      fc.constantFrom(
        ...[separator, separator, enclosure, enclosure, enclosure + enclosure],
        ...['\n', '\r', '\r\n', ' ', '\t', 'a', 'bc', 'é', '\\', `\\${enclosure}`],
      ),
      { maxLength: 40 },
    )
    .map((parts) => parts.join(''))

/** Random files of every dialect, each with the size of the slices in which it is read. */
const file = fc
  .tuple(fc.constantFrom(',', '\t', ';'), fc.constantFrom('"', "'"))
  .chain(([separator, enclosure]) =>
    fc.record({
      separator: fc.constant(separator),
      enclosure: fc.constant(enclosure),
      text: pieces(separator, enclosure),
      step: fc.integer({ min: 1, max: 64 }),
      escape: fc.boolean(),
    }),
  )

t.test(
  `records end where the rules say, in ${runs} random files read in slices of 1 to 64 bytes`,
  async (t) => {
    fc.assert(
      fc.property(file, ({ text, separator, enclosure, step, escape }) => {
        const found = JSON.stringify(scan(text, separator, enclosure, step, escape))
        return found === JSON.stringify(expected(text, separator, enclosure, escape))
      }),
      { numRuns: runs },
    )
    t.pass()
  },
)

t.test(`records end where csv-parse ends them, in ${runs} random files`, async (t) => {
  let compared = 0
  fc.assert(
    fc.property(file, ({ text, separator, enclosure, step }) => {
      // csv-parse doesn't skip blanks before an enclosure, and reads on where text is behind one on a later line.
      const isAlike = (record: Found) => !record.unterminated && !/[ \t]["']/.test(record.text)
      if (!expected(text, separator, enclosure).every(isAlike)) return true
      const ends = endsByCsvParse(text, separator, enclosure)
      // csv-parse refuses the whole file when an enclosure doesn't end.
      if (ends === null) return true
      compared += 1
      const isBlank = (record: string) =>
        Array.from(record).every((unit) => unit !== separator && ' \t'.includes(unit))
      const found = scan(text, separator, enclosure, step).map((record) => record.text)
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
      t.same(scan(text, ',', '"', step), expected(text, ',', '"'), `${name}, ${step} bytes at a time`)
  }
})

t.test(
  'a record of more than 1 MiB is cut in a cell, keeps its identity, and the next one is whole',
  async (t) => {
    const long = [
      'x'.repeat(50_000),
      '"y,z"',
      'w'.repeat(1_000),
      '  Ann@example.com ',
      'v'.repeat(1_030_000),
      '"multi\nline"',
    ].join(',')
    for (const step of [10_000, 1_000_000]) {
      const records: {
        line: number
        lines: number
        length: number
        tooLong: boolean
        cell: string | null
      }[] = []
      const scanner = new RecordScanner({
        dialect: { separator: 0x2c, enclosure: 0x22, escape: null },
        wantedColumn: 3,
        onRecord: (record) => {
          const { line, lines, start, end, flags, longCell } = record
          records.push({
            line,
            lines,
            length: end - start,
            tooLong: (flags & recordFlags.tooLong) !== 0,
            cell: longCell?.toString() ?? null,
          })
        },
      })
      const bytes = Buffer.from(`a,b\n${long}\nc,d\n`)
      for (let at = 0; at < bytes.length;) {
        const copied = bytes.copy(scanner.space(), 0, at, at + step)
        scanner.advance(copied)
        at += copied
      }
      scanner.end()
      t.equal(records.length, 3)
      t.match(records[1], { line: 2, lines: 2, tooLong: true, cell: '  Ann@example.com ' })
      t.ok(records[1]!.length <= 1024 * 1024 && records[1]!.length > 1_000_000)
      t.match(records[2], { line: 4, length: 3, tooLong: false })
    }
  },
)

t.test('a record of more than 1 MiB has an identity only where it ends in the first 64 KiB', async (t) => {
  for (const [before, isKept] of [
    [65_536 - 8, true],
    [65_536 - 7, false],
  ] as const)
    for (const step of [1_000, 65_536, 3_000_000]) {
      const cells: (string | null)[] = []
      const scanner = new RecordScanner({
        dialect: { separator: 0x2c, enclosure: 0x22, escape: null },
        wantedColumn: 1,
        onRecord: ({ longCell }) => cells.push(longCell?.toString() ?? null),
      })
      const bytes = Buffer.from(`${'x'.repeat(before)},a@bb.co,${'v'.repeat(2_000_000)}`)
      for (let at = 0; at < bytes.length;) {
        const copied = bytes.copy(scanner.space(), 0, at, at + step)
        scanner.advance(copied)
        at += copied
      }
      scanner.end()
      t.same(cells, [isKept ? 'a@bb.co' : null], `${before} bytes before it, ${step} at a time`)
    }
})

t.test('of an unterminated record that is too long the beginning is kept', async (t) => {
  const found = scan(`"never ${'x'.repeat(2_000_000)}\nb,2\n`, ',', '"', 65_536)
  t.equal(found.length, 2)
  t.match(found[0], { line: 1, unterminated: true, text: /^"never x{1000000}/ })
  t.match(found[1], { line: 2, text: 'b,2' })
})

t.test('a long cell that begins with an enclosed text is cut behind that text only', async (t) => {
  const long = 'x'.repeat(2_000_000)
  const half = 'x'.repeat(500_000)
  const enclosed = `"${'y'.repeat(100_000)}"`
  for (const step of [1_000, 65_536, 3_000_000]) {
    const kept = (text: string) => scan(text, '|', '"', step).map((record) => record.text)
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
      const scanner = new RecordScanner({
        dialect: { separator: 0x2c, enclosure: 0x22, escape: null },
        wantedColumn: 0,
        onRecord: (record) => flags.push(record.flags),
      })
      const bytes = Buffer.from('x'.repeat(length) + ending)
      for (let at = 0; at < bytes.length;) {
        const copied = bytes.copy(scanner.space(), 0, at)
        scanner.advance(copied)
        at += copied
      }
      scanner.end()
      t.same(flags, [tooLong ? recordFlags.tooLong : 0], `${length} bytes and ${JSON.stringify(ending)}`)
    }
  }
})
