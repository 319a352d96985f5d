import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import {
  BatchReader,
  batchRecords,
  cutBatches,
  identitiesOf,
  identityAt,
  listRecords,
  sortedByIdentity,
  type ReadRecord,
} from '../../../../shared/csv/chunk-records.ts'
import { readCells } from '../../../../shared/csv/csv-cells.ts'
import { dialectBytes, RecordScanner } from '../../../../shared/csv/record-scanner.ts'
import type { ContentFormat } from '../../../../shared/contract/schemas/import.ts'
import { utf8Format } from '../../../helpers/make-plan.ts'
import { decode } from '../../../model/character-set.ts'
import { compareByBytes } from '../../../model/comparison-form.ts'
import { splitFile } from '../../../model/records.ts'

const latin: ContentFormat = { ...utf8Format, character_set: 'iso-8859-1' }

interface Staged {
  number: number
  line?: number
  flags?: number
  identity?: string
  bytes?: Buffer
}

/** A record as docs of the partition file say: four little-endian uint32, the identity, the record. */
function staged({ number, line = 1, flags = 0, identity = '', bytes = Buffer.alloc(0) }: Staged): Buffer {
  const header = Buffer.alloc(16)
  header.writeUInt32LE(number, 0)
  header.writeUInt32LE(line, 4)
  header.writeUInt32LE(bytes.length + flags * 2 ** 24, 8)
  header.writeUInt32LE(Buffer.byteLength(identity), 12)
  return Buffer.concat([header, Buffer.from(identity), bytes])
}

/** The records of a chunk that has a whole file, each with the same identity. */
function chunkOf(file: Buffer, format: ContentFormat, identity = 'key'): Buffer {
  const records: Buffer[] = []
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn: 0,
    onRecord: ({ bytes, start, end, line, flags }) => {
      const record = { number: records.length + 1, line, flags, identity, bytes: bytes.subarray(start, end) }
      records.push(staged(record))
    },
  })
  for (let at = 0; at < file.length;) {
    const copied = file.copy(scanner.space(), 0, at)
    scanner.advance(copied)
    at += copied
  }
  scanner.end()
  return Buffer.concat(records)
}

function readChunk(chunk: Buffer, format: ContentFormat, kind: 'sorted' | 'unidentified' = 'sorted') {
  const reader = new BatchReader({ offsets: listRecords(chunk), bytes: chunk }, format, kind)
  const records: (Omit<ReadRecord, 'identity' | 'cells'> & { identity: string | null; cells: string[] })[] =
    []
  for (let record = reader.read(); record !== null; record = reader.read())
    records.push({
      ...record,
      identity: record.identity?.toString() ?? null,
      cells: record.cells.strings(),
    })
  return { records, bytesRead: reader.bytesRead }
}

const text = (separator: string, enclosure: string) =>
  fc
    .array(
      fc.constantFrom(
        ...[separator, separator, enclosure, enclosure + enclosure, `${enclosure}x,;\t${enclosure}`],
        ...[`${separator}${enclosure}a${enclosure + enclosure}b${enclosure}`, '\n', '\n', '\r', '\r\n'],
        ...[' ', '\t', 'a', 'bc', '\u00e9'],
      ),
      { maxLength: 60 },
    )
    .map((parts) => parts.join(''))

const file = fc.constantFrom(',' as const, ';' as const, '\t' as const).chain((csv_field_separator) =>
  fc.constantFrom('"' as const, "'" as const).chain((csv_field_enclosure) =>
    fc.record({
      format: fc
        .constantFrom('utf-8' as const, 'iso-8859-1' as const)
        .map((character_set): ContentFormat => ({
          ...utf8Format,
          character_set,
          csv_field_separator,
          csv_field_enclosure,
        })),
      content: text(csv_field_separator, csv_field_enclosure),
    }),
  ),
)

t.test('cells of random files are those that the contract says', (t) => {
  fc.assert(
    fc.property(file, ({ format, content }) => {
      const set = format.character_set === 'utf-8' ? 'utf-8' : 'iso-8859-1'
      const bytes = Buffer.from(content, set === 'utf-8' ? 'utf8' : 'latin1')
      const { records } = splitFile(bytes.toString('latin1'), format)
      const found = readChunk(chunkOf(bytes, format), format)
      assert.deepEqual(
        found.records.map(({ cells }) => cells),
        records.map(({ cells }) => cells.map((cell) => decode(cell, set))),
      )
      assert.equal(
        found.bytesRead,
        records.reduce((sum, record) => sum + record.bytes.length, 0),
      )
      for (const [i, { isUnterminated, cells, line, bytes: raw }] of records.entries()) {
        assert.equal(found.records[i]!.number, i + 1)
        assert.equal(found.records[i]!.line, line)
        assert.equal(found.records[i]!.problem !== null, isUnterminated)
        if (!isUnterminated)
          assert.deepEqual(
            readCells(decode(raw, set), format),
            cells.map((cell) => decode(cell, set)),
          )
      }
    }),
    { numRuns: 600 },
  )
  t.pass()
  t.end()
})

t.test('records with doubled enclosures are read among others, in the same memory', (t) => {
  const lines = Array.from({ length: 700 }, (_, i) =>
    i % 3 === 0
      ? { line: `"a""${i}",b`, cells: [`a"${i}`, 'b'] }
      : i % 7 === 0
        ? { line: `x,12" pipe,"c ""${i}""",`, cells: ['x', '12" pipe', `c "${i}"`, ''] }
        : i % 2 === 0
          ? { line: `"${i}",d`, cells: [`${i}`, 'd'] }
          : { line: `"${i}" ,"e""" f`, cells: [`${i}`, '"e""" f'] },
  )
  const { records } = readChunk(
    chunkOf(Buffer.from(lines.map(({ line }) => line).join('\n')), utf8Format),
    utf8Format,
  )
  assert.deepEqual(
    records.map(({ cells }) => cells),
    lines.map(({ cells }) => cells),
  )
  t.pass()
  t.end()
})

t.test('blanks behind a closing enclosure are dropped, and other text makes the cell count as typed', (t) => {
  for (const [line, cells] of [
    ['"a" \t,b', ['a', 'b']],
    ['"a"\t ', ['a']],
    ['"a" x,b', ['"a" x', 'b']],
    ['"a"\t\u000b,b', ['"a"\t\u000b', 'b']],
    ['"a"\u0021', ['"a"\u0021']],
    ['"a""', ['"a""']],
    ['"a,b', ['"a', 'b']],
    ['', ['']],
    [',', ['', '']],
  ] as const)
    t.same(readCells(line, utf8Format), cells, JSON.stringify(line))
  t.end()
})

t.test('a record says why it cannot be used', (t) => {
  const problems = (content: string | Buffer, format = utf8Format) =>
    readChunk(chunkOf(Buffer.from(content as string), format), format).records.map(
      ({ problem }) => problem?.reason ?? null,
    )
  t.same(problems('a,b\n"c"\n'), [null, null])
  t.same(problems('a\n\n"x\r\ny\rz\nw","v\nb\n'), [null, 'unterminated enclosure, line 6', null])
  t.same(problems('"a\nb'), ['unterminated enclosure, line 1', null])
  t.same(problems(`a\n${'x'.repeat(1_048_577)}\nb\n`), [
    null,
    'the record at line 2 is too long: it has more than 1 MiB, and only its beginning is shown here',
    null,
  ])
  const bad = Buffer.from([0x61, 0x0a, 0x62, 0xff, 0x0a])
  t.same(problems(bad), [null, 'invalid UTF-8 in the record at line 2'])
  t.same(problems(bad, latin), [null, null])
  t.same(problems('a\ufffd\n'), [null], 'the character itself')
  t.same(problems(Buffer.from('a\ufffd\n'), latin), [null])
  t.same(problems('a\nb\0\n'), [null, 'a NUL character in the record at line 2'])
  t.end()
})

t.test('a record has the line on which it begins and a kind of fault', (t) => {
  const content = 'a\r\n\r"b\r\nc\rd\ne"\n\n x\n"y\n'
  const { records } = readChunk(chunkOf(Buffer.from(content), utf8Format), utf8Format)
  t.same(
    records.map(({ line, problem }) => [line, problem?.kind ?? null]),
    [
      [1, null],
      [3, null],
      [8, null],
      [9, 'unterminated'],
    ],
  )
  const kinds = (bytes: Buffer) =>
    readChunk(chunkOf(bytes, utf8Format), utf8Format).records.map(({ problem }) => problem?.kind)
  t.same(kinds(Buffer.from([0x62, 0xff, 0x0a, 0x61, 0x00, 0x0a])), ['encoding', 'nul'])
  t.same(kinds(Buffer.from('x'.repeat(1_048_577))), ['too_long'])
  t.end()
})

t.test('records of an unidentified chunk have no identity', (t) => {
  const chunk = chunkOf(Buffer.from('x\n'), utf8Format, 'k\u00e9y')
  t.equal(readChunk(chunk, utf8Format).records[0]!.identity, 'k\u00e9y')
  t.equal(readChunk(chunk, latin).records[0]!.identity, 'k\u00e9y', 'identities are UTF-8 in any file')
  t.equal(readChunk(chunk, utf8Format, 'unidentified').records[0]!.identity, null)
  t.end()
})

const identity = fc
  .array(fc.constantFrom('a', 'b', '\u00e9', '\uffee', '\u{1f600}', 'abcdef', 'abcdeg', '\u0001'), {
    maxLength: 4,
  })
  .map((parts) => parts.join(''))

t.test('records are sorted by their identities in bytes, equal ones in file order', (t) => {
  fc.assert(
    fc.property(fc.array(identity, { maxLength: 30 }), (identities) => {
      const records = identities.map((identity, i) => staged({ number: i + 1, identity }))
      const bytes = Buffer.concat(records)
      const offsets = records.map((_, i) => Buffer.concat(records.slice(0, i)).length)
      assert.deepEqual([...listRecords(bytes)], offsets)
      const order = [...identities.keys()].toSorted(
        (i, j) => compareByBytes(identities[i]!, identities[j]!) || i - j,
      )
      const sorted = sortedByIdentity(listRecords(bytes), bytes)
      assert.deepEqual(
        [...sorted],
        order.map((i) => offsets[i]),
      )
      assert.deepEqual(
        [...identitiesOf({ offsets: sorted, bytes })],
        order.map((i) => identities[i]),
      )
      for (const [i, offset] of offsets.entries()) assert.equal(identityAt(bytes, offset), identities[i])
    }),
    { numRuns: 400 },
  )
  t.pass()
  t.end()
})

t.test('a batch ends with its 3,500th record, or the one that brings it to 4 MiB', (t) => {
  const sizes = (records: Buffer[]) => {
    const bytes = Buffer.concat(records)
    const batches = cutBatches(listRecords(bytes), bytes)
    assert.deepEqual(
      batches.flatMap(({ offsets }) => [...offsets]),
      [...listRecords(bytes)],
    )
    assert.ok(batches.every((batch) => batch.bytes === bytes))
    return batches.map(({ offsets }) => offsets.length)
  }
  const small = (count: number) => Array.from({ length: count }, (_, i) => staged({ number: i + 1 }))
  t.equal(batchRecords, 3_500)
  t.same(sizes([]), [])
  t.same(sizes(small(1)), [1])
  t.same(sizes(small(3_500)), [3_500])
  t.same(sizes(small(7_001)), [3_500, 3_500, 1])
  const half = (length: number) => staged({ number: 1, bytes: Buffer.alloc(length - 16) })
  const mebibytes = 2 * 1024 * 1024
  t.same(sizes([half(mebibytes), half(mebibytes), ...small(3)]), [2, 3])
  t.same(sizes([half(mebibytes), half(mebibytes - 1), ...small(3)]), [3, 2])
  t.same(sizes([half(mebibytes), half(mebibytes), half(mebibytes), half(mebibytes)]), [2, 2])
  t.end()
})
