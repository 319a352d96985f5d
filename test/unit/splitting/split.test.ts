import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { seededRandom } from '../../../bench/load/random.ts'
import { splitFile, type SplitResult } from '../../../engine/stages/split/split.ts'
import { scanSecondHalf, type HelperThread } from '../../../engine/stages/split/second-half-scan.ts'
import {
  combineChecksums,
  openPartition,
  readExtents,
  readInPieces,
  readRecordAt,
  type Partition,
} from '../../../shared/csv/partition-file.ts'
import type { ContentFormat } from '../../../shared/contract/schemas/import.ts'
import { readBeginning } from '../../../shared/csv/file-beginning.ts'
import { diskStaging } from '../../../shared/storage/staging/disk-staging.ts'
import { makePlan, utf8Format } from '../../helpers/make-plan.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-split-'))
t.teardown(() => rm(folder, { recursive: true }))
const staging = diskStaging(folder)
let files = 0

interface Split {
  result: SplitResult
  /** Per range, the identities and numbers of its records as they lie there. */
  ranges: { identity: string; number: number; line: number; text: string }[][]
  /** The error that ended the scan of the second half. */
  brokenOff: unknown[]
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

/** `scan` scans the second half; without it, one thread does all. */
async function split(
  content: string | Buffer,
  format: ContentFormat = utf8Format,
  scan?: HelperThread['scan'],
): Promise<Split> {
  const id = (files += 1)
  await staging.write(
    `${id}/source`,
    (async function* () {
      yield Buffer.from(content as string)
    })(),
  )
  const source = (await staging.open(`${id}/source`))!
  const output = await staging.create(`${id}/partition`)
  const brokenOff: unknown[] = []
  const onFailed = (error: unknown) => void brokenOff.push(error)
  const secondHalf = `${id}/tail`
  const removeOutput = () => staging.remove(secondHalf)
  const progress = new SharedArrayBuffer(4)
  const second = {
    ...{ source: `${id}/source`, output: secondHalf, minBytes: 0, progress },
    ...{ onFailed, removeOutput },
  }
  try {
    const result = await splitFile({
      source,
      output,
      reopen: (secondHalf) => reopen(id, secondHalf),
      ...(scan && { second: { ...second, scan } }),
      plan: makePlan(),
      format,
      beginning: contentOf(Buffer.from(content as string), format),
      signal: new AbortController().signal,
    })
    const secondHalfFile = await staging.open(secondHalf)
    await secondHalfFile?.close()
    assert.equal(secondHalfFile !== null, result.secondHalf !== null, 'the file of a useless tail is gone')
    const partition = await reopen(id, result.secondHalf)
    const ranges = []
    for (const range of result.ranges) {
      const { bytes, crc } = await readExtents(partition, range.extents)
      const pieces: Buffer[] = []
      let crcOfPieces = 0
      for await (const piece of readInPieces(partition, range.extents)) {
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
    return { result, ranges, brokenOff }
  } finally {
    await source.close()
    await output.close()
  }
}

async function reopen(id: number, secondHalf: SplitResult['secondHalf']): Promise<Partition> {
  const names = { partition: `${id}/partition`, ...(secondHalf && { partition_second_half: secondHalf }) }
  return openPartition(staging, names)
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

/** Copies everything on its way from thread to thread, as a worker would. */
const inWorker: HelperThread['scan'] = async (task) =>
  structuredClone(await scanSecondHalf(staging, structuredClone(task)))

/** The results of a split, without what may differ: extents, checksums, and the cuts between unidentified records. */
function outcomeOf({ result, ranges }: Split) {
  const { records, header, warnings } = result
  const identified = result.ranges.filter(({ kind }) => kind !== 'unidentified')
  return {
    records,
    header,
    warnings,
    ranges: identified.map(({ kind, from, to, length, records }, i) => ({
      ...{ kind, from: from?.toString(), to: to?.toString(), length, records },
      lying: ranges[i],
    })),
    unidentified: ranges.slice(identified.length).flat(),
  }
}

const row = (i: number) => `${scattered(i)},"some, cell"\n`
const rows = lines(1_500, row)
const withHeader = { ...utf8Format, csv_has_headers: true }
const latin = { ...utf8Format, character_set: 'iso-8859-1' as const }
const manyLines = `many@lines.co,"${'x\n'.repeat(30)}"\n`

/** `isTwo`: whether what the second thread finds is of use. */
const awkward: Record<string, { content: string | Buffer; format?: ContentFormat; isTwo: boolean }> = {
  'plain rows': { content: lines(5_000, row), isTwo: true },
  'a header, and a byte order mark': {
    content: `\ufeffE-mail,"Na\nme"\n${rows}${rows}`,
    format: withHeader,
    isTwo: true,
  },
  'a header alone': { content: 'email,name\n', format: withHeader, isTwo: false },
  'few records': { content: lines(900, row), isTwo: false },
  CRLF: { content: rows.repeat(2).replaceAll('\n', '\r\n'), isTwo: true },
  CR: { content: rows.repeat(2).replaceAll('\n', '\r'), isTwo: false },
  'CR, and one CRLF': {
    content: rows.replaceAll('\n', '\r') + '\n' + rows.replaceAll('\n', '\r'),
    isTwo: true,
  },
  'blank lines in the middle': { content: rows + ' \r\n\n\t\n'.repeat(2_000) + rows, isTwo: true },
  'a line break in every second cell': {
    content: lines(3_000, (i) => `${scattered(i)},"two\nlines"\n${scattered(i)},"and ""one"""\n`),
    isTwo: true,
  },
  'an enclosure with line breaks over the middle': {
    content: `${rows}a@b.co,"${'x\n'.repeat(900)}"\n${rows}`,
    isTwo: false,
  },
  'an enclosure that ends nowhere': {
    content: `${rows}a@b.co,"x\n${lines(4_000, (i) => `${scattered(i)}\n`)}`,
    isTwo: false,
  },
  'an enclosure that ends nowhere, long before the middle': {
    content: `${rows}a@b.co,"x\n${lines(40_000, (i) => `${scattered(i)}\n`)}`,
    isTwo: true,
  },
  'an enclosure without an end behind the middle': {
    content: `${rows.repeat(2)}a@b.co,"x\n${lines(300, (i) => `${scattered(i)}\n`)}`,
    isTwo: true,
  },
  'a too long record over the middle': {
    content: `${rows}a@b.co,${'x'.repeat(1_500_000)}\n${rows}`,
    isTwo: false,
  },
  'a too long record with line breaks over the middle': {
    content: `${rows}a@b.co${`,"${'x'.repeat(20_000)}\n"`.repeat(80)}\n${rows}`,
    isTwo: false,
  },
  'too long records on both sides': {
    content: `${rows}a@b.co,${'x'.repeat(1_500_000)}\n${rows.repeat(2)}a@b.co,${'x'.repeat(1_500_000)}\n${rows}`,
    isTwo: true,
  },
  'one address in every record': { content: lines(40_000, (i) => `Same@Example.com,${i}\n`), isTwo: true },
  'heavy addresses among others': {
    content: lines(30_000, (i) => (i % 3 === 0 ? `heavy@example.com,${i}\n` : row(i % 5_000))),
    isTwo: true,
  },
  'a heavy stretch that no sample saw': {
    content:
      lines(40_000, (i) => `m${String(i).padStart(6, '0')}@example.com,${'x'.repeat(60)}\n`) +
      lines(200_000, (i) => `z${i % 7}@example.com,${'y'.repeat(40)}\n`),
    isTwo: true,
  },
  'records without an address': {
    content: lines(20_000, (i) => (i % 2 === 0 ? `no address ${i}\n` : row(i))),
    isTwo: true,
  },
  'what looks like a mistake, on both sides': {
    content: `email,x\n${rows}${manyLines.repeat(2)}${rows}${rows}${manyLines}${rows}`,
    isTwo: true,
  },
  'what looks like a mistake, on the other side': {
    content: Buffer.from(`${rows.repeat(3)}${manyLines}a@b.co,\x93\n`, 'latin1'),
    format: latin,
    isTwo: true,
  },
}

for (const [name, { content, format, isTwo }] of Object.entries(awkward)) {
  t.test(`two threads make of a file what one does: ${name}`, async (t) => {
    const alone = await split(content, format)
    const together = await split(content, format, inWorker)
    t.equal(together.result.secondHalf !== null, isTwo)
    checkPartition(t, together, alone.result.records)
    assert.deepEqual(outcomeOf(together), outcomeOf(alone))
  })
}

t.test('two threads find the same as one in random files', async (t) => {
  const fraction = seededRandom(7)
  const random = (below: number) => Math.floor(fraction() * below)
  const pieces = [
    'a@b.co',
    'c@d.co,',
    'x',
    ',',
    '"',
    '""',
    '\n',
    '\n',
    '\r\n',
    '\r',
    ' ',
    '\u00e4',
    '\n"',
    '",',
    'x@y.co\n',
    ', "',
    '\\"',
    '"x"y',
  ]
  let inTwo = 0
  for (let i = 0; i < 40; i += 1) {
    const few = pieces.filter((_, at) => at < 4 || random(2) === 0)
    const rest = Array.from({ length: 12_000 }, () => few[random(few.length)]).join('')
    const content = lines(1_000, (n) => `u${n}@b.co\n`) + rest
    const format = { ...utf8Format, csv_field_escape: i % 2 === 0 ? null : ('\\' as const) }
    const alone = await split(content, format)
    const together = await split(content, format, inWorker)
    if (together.result.secondHalf !== null) inTwo += 1
    assert.deepEqual(outcomeOf(together), outcomeOf(alone), `file ${i}`)
  }
  t.comment(`${inTwo} by two threads`)
  t.ok(inTwo > 5 && inTwo < 35)
})

t.test('one thread splits alone where the other never begins, or breaks off', async (t) => {
  const content = lines(5_000, row)
  const alone = outcomeOf(await split(content))
  const scans: Record<string, HelperThread['scan']> = {
    'is busy all the time': () => new Promise(() => undefined),
    'died before': () => Promise.reject(new Error('gone')),
    'has no source': (task) => scanSecondHalf({ ...staging, open: () => Promise.resolve(null) }, task),
    'has no disk': (task) =>
      scanSecondHalf({ ...staging, create: () => Promise.reject(new Error('full')) }, task),
  }
  const told: Record<string, string[]> = { 'died before': ['Error: gone'], 'has no disk': ['Error: full'] }
  for (const [name, scan] of Object.entries(scans)) {
    const together = await split(content, utf8Format, scan)
    t.equal(together.result.secondHalf, null, name)
    t.strictSame(together.brokenOff.map(String), told[name] ?? [])
    assert.deepEqual(outcomeOf(together), alone)
  }
})

t.test('damage that is alike in both files of a range shows in its checksum', async (t) => {
  const written = [Buffer.from('the records before the tail'), Buffer.from('and those in there')]
  const damaged = written.map((bytes) => Buffer.concat([bytes.subarray(0, -1), Buffer.of(bytes.at(-1)! ^ 1)]))
  const checksum = ([head, secondHalf]: Buffer[]) => combineChecksums(crc32(head!), crc32(secondHalf!))
  t.not(checksum(damaged), checksum(written))
  t.equal(combineChecksums(7, 0), 7)
  t.equal(combineChecksums(0, 7), 7)
})

t.test('a partition of which a file is gone is damaged, and says which file', async (t) => {
  await staging.write('torn/partition', Readable.from([Buffer.from('x')]))
  const torn = {
    partition: 'torn/partition',
    partition_second_half: { name: 'torn/tail', records: 0, lines: 0 },
  }
  await t.rejects(openPartition(staging, torn), { code: 'chunk_damaged', message: /torn\/tail is missing/ })
  const gone = openPartition(staging, { partition: 'torn/none' })
  await t.rejects(gone, { code: 'chunk_damaged', message: /torn\/none is missing/ })
})

t.test('both threads together may find no more records than one alone', async (t) => {
  const scan: HelperThread['scan'] = async (task) => ({ ...(await inWorker(task))!, records: 0xffffffff })
  await t.rejects(split(lines(5_000, row), utf8Format, scan), {
    code: 'content_refused',
    message: /more than/,
  })
})

t.test('a split by two threads that is broken off ends when neither writes any more', async (t) => {
  await staging.write('both/source', Readable.from([Buffer.from(lines(200_000, row))]))
  const source = (await staging.open('both/source'))!
  const output = await staging.create('both/partition')
  const broken = new AbortController()
  let isWriting = false
  const slow = async (name: string) => {
    const file = await staging.create(name)
    const append = async (buffers: Uint8Array[]) => {
      isWriting = true
      broken.abort(new Error('paused'))
      await sleep(50)
      await file.append(buffers)
      isWriting = false
    }
    return { append, close: () => file.close() }
  }
  const splitting = splitFile({
    source,
    output,
    reopen: () => Promise.reject(new Error('not reached')),
    second: {
      ...{ source: 'both/source', output: 'both/tail', minBytes: 0 },
      progress: new SharedArrayBuffer(4),
      scan: (task) => scanSecondHalf({ ...staging, create: slow }, task),
      onFailed: () => undefined,
      removeOutput: () => Promise.reject(new Error('not reached')),
    },
    plan: makePlan(),
    format: utf8Format,
    beginning: fromFirstByte,
    signal: broken.signal,
  })
  await t.rejects(splitting, { message: 'paused' })
  t.notOk(isWriting)
  await source.close()
  await output.close()
})
