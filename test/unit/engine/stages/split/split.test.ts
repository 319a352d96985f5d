import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { splitFile, type SplitResult } from '../../../../../engine/stages/split/split.ts'
import {
  openPartition,
  readAllPieces,
  readInPieces,
  readRecordAt,
} from '../../../../../shared/csv/partition-file.ts'
import type { ContentFormat } from '../../../../../shared/contract/schemas/import.ts'
import { readBeginning } from '../../../../../shared/csv/file-beginning.ts'
import { folderStaging } from '../../../../helpers/folder-staging.ts'
import { makePlan, utf8Format } from '../../../../helpers/make-plan.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-split-'))
t.teardown(() => rm(folder, { recursive: true }))
const staging = folderStaging(folder)
let files = 0

interface Split {
  result: SplitResult
  /** Per range, the identities and numbers of its records as they lie there. */
  ranges: { identity: string; number: number; line: number; text: string }[][]
}

/** Where the file's records begin. */
const contentOf = (bytes: Buffer, format: ContentFormat) =>
  readBeginning(
    { bytes, isWhole: true },
    {
      characterSet: format.character_set,
      separator: format.csv_field_separator,
      enclosure: format.csv_field_enclosure,
    },
  ).stored
const fromFirstByte = { start: 0, skipped_lines: 0 }

async function split(content: string | Buffer, format: ContentFormat = utf8Format): Promise<Split> {
  const id = (files += 1)
  await staging.write(
    `${id}/source`,
    (async function* () {
      yield Buffer.from(content as string)
    })(),
  )
  const source = (await staging.open(`${id}/source`))!
  const output = await staging.create(`${id}/partition`)
  const reopen = () => openPartition(staging, { partition: `${id}/partition` })
  try {
    const result = await splitFile({
      source,
      output,
      reopen,
      plan: makePlan(),
      format,
      beginning: contentOf(Buffer.from(content as string), format),
      signal: new AbortController().signal,
    })
    const partition = await reopen()
    const ranges = []
    for (const range of result.ranges) {
      const { bytes, crc } = await readAllPieces(partition, range.pieces)
      const pieces: Buffer[] = []
      let crcOfPieces = 0
      for await (const piece of readInPieces(partition, range.pieces)) {
        pieces.push(piece.bytes)
        crcOfPieces = piece.crc
      }
      assert.ok(bytes.equals(Buffer.concat(pieces)))
      assert.deepEqual([crc, crcOfPieces], [range.crc32, range.crc32])
      const records = []
      for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end)) {
        records.push({
          identity: bytes.toString('utf8', record.identityStart, record.start),
          number: record.number,
          line: record.line,
          text: bytes.toString('utf8', record.start, record.end),
        })
      }
      ranges.push(records)
    }
    await partition.close()
    return { result, ranges }
  } finally {
    await source.close()
    await output.close()
  }
}

/**
 * Checks the properties of every split: each record is there once, in its range, in file order, and ranges are
 * adjacent.
 */
function checkPartition(t: Test, { result, ranges }: Split, records: number): void {
  const numbers = ranges.flat().map((record) => record.number)
  t.equal(result.records, records)
  t.equal(numbers.length, records)
  t.equal(new Set(numbers).size, records, 'no record is lost or doubled')
  const sorted = result.ranges.filter((range) => range.kind !== 'unidentified')
  sorted.forEach((range, i) => {
    const inside = ranges[i]!.every(
      ({ identity }) =>
        (range.from === null || Buffer.from(identity).compare(range.from) >= 0) &&
        (range.to === null || Buffer.from(identity).compare(range.to) < 0),
    )
    if (!inside) t.fail(`a record lies outside of range ${i}`)
  })
  t.ok(
    sorted.length === 0 || (sorted[0]!.from === null && sorted.at(-1)!.to === null),
    'the ranges cover all identities',
  )
  t.ok(
    sorted.every((range, i) => i === 0 || range.from!.equals(sorted[i - 1]!.to!)),
    'and lie side by side',
  )
  t.ok(
    ranges.every((list) => list.every((record, i) => i === 0 || record.number > list[i - 1]!.number)),
    'records of a range are in file order',
  )
}

const lines = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join('')
const scattered = (i: number) => `${((i * 2_654_435_761) >>> 0).toString(36)}.${i}@example.com`

t.test('a file is split into ranges of about the same size', async (t) => {
  const rows = 60_000
  const outcome = await split(lines(rows, (i) => `${scattered(i)},some cell\n`))
  checkPartition(t, outcome, rows)
  const sizes = outcome.result.ranges.map((range) => range.length)
  t.ok(sizes.length >= 12, `${sizes.length} ranges`)
  t.ok(Math.max(...sizes) < 4 * 200_000, 'none is much larger than the others')
})

for (const [name, order] of [
  ['sorted', (i: number) => i],
  ['reversed', (i: number) => 100_000 - i],
] as const) {
  t.test(`a ${name} file is split evenly`, async (t) => {
    const outcome = await split(lines(50_000, (i) => `u${String(order(i)).padStart(8, '0')}@example.com,x\n`))
    checkPartition(t, outcome, 50_000)
    const sizes = outcome.result.ranges.map((range) => range.length)
    t.ok(
      Math.max(...sizes) < 2.5 * Math.min(...sizes) + 200_000,
      `from ${Math.min(...sizes)} to ${Math.max(...sizes)} bytes`,
    )
  })
}

t.test('one identity in every record is one range of that identity', async (t) => {
  const outcome = await split(lines(80_000, (i) => `Same@Example.com,${i}\n`))
  checkPartition(t, outcome, 80_000)
  t.same(
    outcome.result.ranges.map((range) => range.kind),
    ['single_identity'],
  )
})

t.test('heavy identities among others get ranges of their own', async (t) => {
  const rows = 90_000
  const outcome = await split(
    lines(rows, (i) =>
      i % 3 === 0
        ? `heavy@example.com,${i}\n`
        : i % 3 === 1
          ? `weight@example.com,${i}\n`
          : `${scattered(i)},${i}\n`,
    ),
  )
  checkPartition(t, outcome, rows)
  const heavy = outcome.ranges.filter((list) => list.length > 20_000)
  t.equal(heavy.length, 2)
  t.ok(heavy.every((list) => new Set(list.map((record) => record.identity)).size === 1))
})

t.test('a heavy stretch that no sample saw is split again', async (t) => {
  // The sample has fewer records than the file: it has one of the many identities between "m" and "n".
  const outcome = await split(
    lines(40_000, (i) => `m${String(i).padStart(6, '0')}@example.com,${'x'.repeat(60)}\n`) +
      lines(200_000, (i) => `z${i % 7}@example.com,${'y'.repeat(40)}\n`),
  )
  checkPartition(t, outcome, 240_000)
  const mixed = outcome.result.ranges.filter((range) => range.kind === 'sorted').map((range) => range.length)
  t.ok(
    Math.max(...mixed) <= 4 * 1_500_000,
    `the largest range of several identities has ${Math.max(...mixed)} bytes`,
  )
})

t.test('records without an identity stay in file order, after all others', async (t) => {
  const outcome = await split(lines(30_000, (i) => (i % 2 === 0 ? `no address ${i}\n` : `${scattered(i)}\n`)))
  checkPartition(t, outcome, 30_000)
  const first = outcome.result.ranges.findIndex((range) => range.kind === 'unidentified')
  t.ok(outcome.result.ranges.slice(first).every((range) => range.kind === 'unidentified'))
  const numbers = outcome.ranges
    .slice(first)
    .flat()
    .map((record) => record.number)
  t.equal(numbers.length, 15_000)
  t.ok(numbers.every((number, i) => i === 0 || number > numbers[i - 1]!))
})

t.test('the header is no record, blank lines are none, line numbers are physical', async (t) => {
  const outcome = await split('\ufeff\n \t\n"E-mail",Name\r\na@b.co,"1\r\n2"\r\n\r\n   \nc@d.co,x\rd@e.co', {
    ...utf8Format,
    csv_has_headers: true,
  })
  t.same(outcome.result.header, ['E-mail', 'Name'])
  t.same(
    outcome.ranges.flat().map(({ identity, number, line }) => [identity, number, line]),
    [
      ['a@b.co', 1, 4],
      ['c@d.co', 2, 8],
      ['d@e.co', 3, 9],
    ],
  )
})

t.test('a split that is broken off ends when nothing is written any more', async (t) => {
  const content = lines(100_000, (i) => `${scattered(i)},some cell\n`)
  await staging.write('broken-off/source', Readable.from([Buffer.from(content)]))
  const source = (await staging.open('broken-off/source'))!
  const broken = new AbortController()
  let appends = 0
  let isWriting = false
  const output = {
    append: async () => {
      appends += 1
      if (appends < 2) return
      isWriting = true
      broken.abort(new Error('paused'))
      await sleep(50)
      isWriting = false
      throw new Error('the disk is full')
    },
    close: () => Promise.resolve(),
  }
  const reopen = () => Promise.reject(new Error('not reached'))
  const { signal } = broken
  const splitting = splitFile({
    source,
    output,
    reopen,
    plan: makePlan(),
    format: utf8Format,
    beginning: fromFirstByte,
    signal,
  })
  await t.rejects(splitting, { message: 'paused' })
  t.equal(appends, 2)
  t.notOk(isWriting)
  await source.close()
})

t.test('an empty file has no records', async (t) => {
  for (const content of ['', '\n\n', '\ufeff', '   ']) {
    const { result } = await split(content)
    t.match(result, { records: 0, ranges: [], header: null })
  }
})

t.test('what is mostly invalid in its character set is refused before a row is written', async (t) => {
  await t.rejects(
    split(
      Buffer.from(
        lines(20, (i) => `a${i}@b.co,J\u00fcrgen\n`),
        'latin1',
      ),
    ),
    {
      code: 'content_refused',
      message: /invalid UTF-8: import it with "character_set": "auto" or "windows-1252"$/,
    },
  )
  const half = await split(
    Buffer.from(
      `${lines(10, (i) => `a${i}@b.co,J\u00fcrgen\n`)}${lines(10, (i) => `b${i}@b.co,x\n`)}`,
      'latin1',
    ),
  )
  t.equal(half.result.records, 20, 'half of them may be bad')
})

t.test('a split warns of what looks like a mistake', async (t) => {
  const many = await split(`a@b.co,"${'x\n'.repeat(25)}"\n`)
  t.match(many.result.warnings, [/more than 20 lines, the first at line 1/])
  const windows = await split(Buffer.from([...Buffer.from('a@b.co,'), 0x93, 0x0a]), {
    ...utf8Format,
    character_set: 'iso-8859-1',
  })
  t.match(windows.result.warnings, [/windows-1252/])
})
