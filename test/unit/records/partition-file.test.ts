import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import {
  combineChecksums,
  endOfRecordAt,
  extentsLength,
  flagsAt,
  identityLengthAt,
  identityPrefix,
  openPartition,
  readExtents,
  readInPieces,
  readRecordAt,
  recordAt,
  refuseDamaged,
  secondHalfOffset,
  writeHeader,
} from '../../../shared/csv/partition-file.ts'
import { diskStaging } from '../../../shared/storage/staging/disk-staging.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-partition-'))
t.teardown(() => rm(folder, { recursive: true }))
const staging = diskStaging(folder)

const uint32 = fc.integer({ min: 0, max: 0xffffffff })

t.test('a header has four little-endian uint32, and its record follows its identity', (t) => {
  fc.assert(
    fc.property(
      fc.record({
        number: uint32,
        line: uint32,
        flags: fc.integer({ min: 0, max: 255 }),
        identityLength: fc.integer({ min: 0, max: 70_000 }),
        length: fc.integer({ min: 0, max: 70_000 }),
      }),
      fc.nat({ max: 20 }),
      (record, at) => {
        const { number, line, flags, identityLength, length } = record
        const bytes = Buffer.alloc(at + 16 + identityLength + length, 0xaa)
        writeHeader(bytes, at, record)
        const expected = Buffer.alloc(bytes.length, 0xaa)
        expected.writeUInt32LE(number, at)
        expected.writeUInt32LE(line, at + 4)
        expected.writeUInt32LE(length + flags * 2 ** 24, at + 8)
        expected.writeUInt32LE(identityLength, at + 12)
        assert.ok(bytes.equals(expected))
        const identityStart = at + 16
        const start = identityStart + identityLength
        const read = { number, line, flags, identityStart, start, end: start + length }
        assert.deepEqual(recordAt(bytes, at), read)
        assert.deepEqual(readRecordAt(bytes, at), read)
        assert.equal(endOfRecordAt(bytes, at), read.end)
        assert.equal(flagsAt(bytes, at), flags)
        assert.equal(identityLengthAt(bytes, at), identityLength)
        assert.equal(readRecordAt(bytes.subarray(0, read.end - 1), at), null, 'without its last byte')
        assert.equal(readRecordAt(bytes, bytes.length - 15), null, 'less than a header')
      },
    ),
    { numRuns: 300 },
  )
  t.pass()
  t.end()
})

t.test('a record may have 16 MiB, and its identity more', (t) => {
  const header = Buffer.alloc(16)
  const large = { number: 1, line: 2, flags: 255, identityLength: 0xfedcba98, length: 0xfedcba }
  writeHeader(header, 0, large)
  t.equal(identityLengthAt(header, 0), 0xfedcba98)
  t.match(readRecordAt(Buffer.alloc(16), 0), { start: 16, end: 16 }, 'or neither a byte')
  t.match(recordAt(header, 0), { start: 16 + 0xfedcba98, end: 16 + 0xfedcba98 + 0xfedcba, flags: 255 })
  t.end()
})

t.test('the first six bytes of identities sort as they do', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 9 }), fc.nat({ max: 5 }), (identity, at) => {
      const bytes = Buffer.concat([Buffer.alloc(at, 0xee), identity, Buffer.alloc(8, 0xee)])
      const six = [...identity, 0, 0, 0, 0, 0, 0].slice(0, 6)
      const expected = six.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)
      assert.equal(BigInt(identityPrefix(bytes, at, identity.length)), expected)
    }),
    { numRuns: 1_000 },
  )
  t.pass()
  t.end()
})

interface Staged {
  number: number
  line: number
  bytes: string
}

function staged({ number, line, bytes }: Staged): Buffer {
  const header = Buffer.alloc(16)
  header.writeUInt32LE(number, 0)
  header.writeUInt32LE(line, 4)
  header.writeUInt32LE(bytes.length, 8)
  header.writeUInt32LE(1, 12)
  return Buffer.concat([header, Buffer.from('k'), Buffer.from(bytes)])
}

const records = (first: number, count: number): Staged[] =>
  Array.from({ length: count }, (_, i) => ({
    number: first + i,
    line: 2 * (first + i),
    bytes: 'x'.repeat((7 * i) % 50),
  }))

/** Two files of a partition, with some bytes of another range before and between the extents. */
async function twoFiles() {
  const filling = Buffer.alloc(5, 0xff)
  const [a, b, c, d] = [records(1, 6), records(7, 9), records(1, 4), records(5, 8)].map((list) =>
    Buffer.concat(list.map(staged)),
  ) as [Buffer, Buffer, Buffer, Buffer]
  await staging.write('two/first', Readable.from([filling, a, filling, b]))
  await staging.write('two/second', Readable.from([c, filling, d]))
  const extents = [
    ...[5, a.length],
    ...[10 + a.length, b.length],
    ...[secondHalfOffset, c.length],
    ...[secondHalfOffset + 5 + c.length, d.length],
  ]
  const partition = await openPartition(staging, {
    partition: 'two/first',
    partition_second_half: { name: 'two/second', records: 15, lines: 31 },
  })
  return { partition, extents, first: Buffer.concat([a, b]), second: Buffer.concat([c, d]) }
}

/** The records of the first file, and those of the second one as they count from the beginning of the source. */
const allRecords = [
  ...records(1, 15).map((record, i) => ({
    ...record,
    bytes: i < 6 ? record.bytes : 'x'.repeat((7 * (i - 6)) % 50),
  })),
  ...[...records(1, 4), ...records(5, 8)].map(({ number, line, bytes }) => ({
    number: number + 15,
    line: line + 31,
    bytes,
  })),
]

t.test(
  'a range is read whole, or in pieces of whole records, with the checksum of what was written',
  async (t) => {
    const { partition, extents, first, second } = await twoFiles()
    const expected = Buffer.concat(allRecords.map(staged))
    const checksum = (Math.imul(crc32(first), 0x9e3779b1) ^ crc32(second)) >>> 0
    t.equal(extentsLength(extents), expected.length)
    for (const size of [0, expected.length - 1, expected.length, expected.length + 9]) {
      const buffer = Buffer.alloc(size)
      const read = await readExtents(partition, extents, buffer)
      t.ok(read.bytes.equals(expected))
      t.equal(read.crc, checksum)
      t.equal(
        read.bytes.buffer === buffer.buffer,
        size >= expected.length,
        'the buffer is used if large enough',
      )
    }
    t.ok((await readExtents(partition, extents)).bytes.equals(expected))
    const pieces = await Array.fromAsync(readInPieces(partition, extents))
    t.equal(pieces.length, 4)
    t.ok(Buffer.concat(pieces.map(({ bytes }) => bytes)).equals(expected))
    t.equal(pieces.at(-1)!.crc, checksum)
    t.equal(pieces[1]!.crc, crc32(first), 'the first file alone')
    await partition.close()
  },
)

t.test('a record of the second half without a byte counts, too', async (t) => {
  const header = Buffer.alloc(16)
  header.writeUInt32LE(1, 0)
  header.writeUInt32LE(2, 4)
  await staging.write('bare/first', Readable.from([Buffer.from('x')]))
  await staging.write('bare/second', Readable.from([header]))
  const secondHalf = { name: 'bare/second', records: 4, lines: 9 }
  const bare = await openPartition(staging, { partition: 'bare/first', partition_second_half: secondHalf })
  const { bytes } = await readExtents(bare, [secondHalfOffset, 16])
  t.match(recordAt(bytes, 0), { number: 5, line: 11 })
  await bare.close()
})

t.test('where the second file ends within a header, the bytes of that header stay as they are', async (t) => {
  const record = staged({ number: 1, line: 2, bytes: 'x' })
  await staging.write('short/first', Readable.from([Buffer.from('x')]))
  await staging.write('short/second', Readable.from([record, record.subarray(0, 15)]))
  const partition = await openPartition(staging, {
    partition: 'short/first',
    partition_second_half: { name: 'short/second', records: 4, lines: 9 },
  })
  const { bytes } = await readExtents(partition, [secondHalfOffset, 2 * record.length])
  const expected = [staged({ number: 5, line: 11, bytes: 'x' }), record.subarray(0, 15)]
  t.ok(bytes.equals(Buffer.concat(expected)))
  await partition.close()
})

t.test('a record that two extents share is in the later piece', async (t) => {
  const { partition, extents, first } = await twoFiles()
  await partition.close()
  await staging.write('cut/first', Readable.from([first]))
  const cut = await openPartition(staging, { partition: 'cut/first' })
  t.same(cut.firstHalf, { records: 0, lines: 0 })
  const middle = extents[1]! - 3
  const pieces = await Array.fromAsync(readInPieces(cut, [0, middle, middle, first.length - middle]))
  t.equal(pieces[0]!.bytes.length, Buffer.concat(records(1, 5).map(staged)).length)
  t.ok(Buffer.concat(pieces.map(({ bytes }) => bytes)).equals(first))
  t.equal(pieces[1]!.crc, crc32(first))
  const short = await readExtents(cut, [0, first.length + 10])
  t.ok(short.bytes.equals(first), 'a file that ends early gives fewer bytes')
  const shortPieces = await Array.fromAsync(readInPieces(cut, [0, first.length - 2, first.length - 2, 10]))
  t.ok(Buffer.concat(shortPieces.map(({ bytes }) => bytes)).equals(first))
  t.same((await readExtents(cut, [])).bytes, Buffer.alloc(0))
  await cut.close()
})

t.test('a missing file of a partition is named, and no file stays open', async (t) => {
  await staging.write('gone/first', Readable.from([Buffer.from('x')]))
  const error = (name: string) => ({
    code: 'chunk_damaged',
    message: `the staged partition ${name} is missing: check whether it was removed from DATA_DIR/staging`,
    isMissing: true,
  })
  await t.rejects(openPartition(staging, { partition: 'gone/none' }), error('gone/none'))
  await t.rejects(openPartition(staging, { partition: null }), error('null'))
  let open = 0
  const counting = {
    ...staging,
    open: async (name: string) => {
      const file = await staging.open(name)
      if (file === null) return null
      open += 1
      return {
        size: file.size,
        read: (target: Buffer, position: number) => file.read(target, position),
        close: async () => {
          open -= 1
          await file.close()
        },
      }
    },
  }
  const second = { name: 'gone/second', records: 0, lines: 0 }
  await t.rejects(
    openPartition(counting, { partition: 'gone/first', partition_second_half: second }),
    error('gone/second'),
  )
  t.equal(open, 0)
  const both = await openPartition(counting, {
    partition: 'gone/first',
    partition_second_half: { ...second, name: 'gone/first' },
  })
  t.equal(open, 2)
  await both.close()
  t.equal(open, 0)
  const one = await openPartition(counting, { partition: 'gone/first' })
  await one.close()
  t.equal(open, 0, 'the only file is closed once')
})

t.test('a chunk with another checksum is damaged', (t) => {
  t.equal(combineChecksums(7, 0), 7)
  t.equal(combineChecksums(0, 7), 7)
  t.equal(combineChecksums(0xffffffff, 0xffffffff), (Math.imul(0xffffffff, 0x9e3779b1) ^ 0xffffffff) >>> 0)
  t.doesNotThrow(() => refuseDamaged({ _id: '3:4', crc32: 7 }, 7))
  t.throws(() => refuseDamaged({ _id: '3:4', crc32: 7 }, 8), {
    code: 'chunk_damaged',
    message:
      'the staged chunk 3:4 has changed since the file was split (its checksum differs): check whether DATA_DIR/staging was changed or the disk is faulty',
  })
  t.end()
})
