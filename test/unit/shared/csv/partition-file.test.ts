import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import {
  endOfRecordAt,
  piecesLength,
  identityLengthAt,
  identityPrefix,
  openPartition,
  readAllPieces,
  readInPieces,
  readRecordAt,
  recordAt,
  refuseDamaged,
  writeHeader,
} from '../../../../shared/csv/partition-file.ts'
import { folderStaging } from '../../../helpers/folder-staging.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-partition-'))
t.teardown(() => rm(folder, { recursive: true }))
const staging = folderStaging(folder)

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

const listed = records(1, 15)

/** A partition in which bytes of another range lie before and between two pieces. */
async function twoPieces() {
  const filling = Buffer.alloc(5, 0xff)
  const [a, b] = [listed.slice(0, 6), listed.slice(6)].map((list) => Buffer.concat(list.map(staged))) as [
    Buffer,
    Buffer,
  ]
  await staging.write('two/partition', Readable.from([filling, a, filling, b]))
  const pieces = [5, a.length, 10 + a.length, b.length]
  return { partition: await openPartition(staging, { partition: 'two/partition' }), pieces, a, b }
}

t.test('a range is read whole or in pieces of whole records, with the checksum of the written', async (t) => {
  const { partition, pieces, a, b } = await twoPieces()
  const expected = Buffer.concat([a, b])
  t.equal(piecesLength(pieces), expected.length)
  for (const size of [0, expected.length - 1, expected.length, expected.length + 9]) {
    const buffer = Buffer.alloc(size)
    const read = await readAllPieces(partition, pieces, buffer)
    t.ok(read.bytes.equals(expected))
    t.equal(read.crc, crc32(expected))
    t.equal(
      read.bytes.buffer === buffer.buffer,
      size >= expected.length,
      'the buffer is used if large enough',
    )
  }
  t.ok((await readAllPieces(partition, pieces)).bytes.equals(expected))
  const read = await Array.fromAsync(readInPieces(partition, pieces))
  t.same(
    read.map(({ crc }) => crc),
    [crc32(a), crc32(expected)],
  )
  t.ok(Buffer.concat(read.map(({ bytes }) => bytes)).equals(expected))
  await partition.close()
})

t.test('a record that two pieces share is in the later piece', async (t) => {
  const first = Buffer.concat(listed.map(staged))
  await staging.write('cut/partition', Readable.from([first]))
  const cut = await openPartition(staging, { partition: 'cut/partition' })
  const middle = Buffer.concat(listed.slice(0, 6).map(staged)).length - 3
  const pieces = await Array.fromAsync(readInPieces(cut, [0, middle, middle, first.length - middle]))
  t.equal(pieces[0]!.bytes.length, Buffer.concat(records(1, 5).map(staged)).length)
  t.ok(Buffer.concat(pieces.map(({ bytes }) => bytes)).equals(first))
  t.equal(pieces[1]!.crc, crc32(first))
  const short = await readAllPieces(cut, [0, first.length + 10])
  t.ok(short.bytes.equals(first), 'a file that ends early gives fewer bytes')
  const shortPieces = await Array.fromAsync(readInPieces(cut, [0, first.length - 2, first.length - 2, 10]))
  t.ok(Buffer.concat(shortPieces.map(({ bytes }) => bytes)).equals(first))
  t.same((await readAllPieces(cut, [])).bytes, Buffer.alloc(0))
  await cut.close()
})

t.test('a missing partition is named', async (t) => {
  const error = (name: string) => ({
    code: 'chunk_damaged',
    message: `the staged partition ${name} is missing: check whether it was removed from DATA_DIR/staging`,
    isMissing: true,
  })
  await t.rejects(openPartition(staging, { partition: 'gone/none' }), error('gone/none'))
  await t.rejects(openPartition(staging, { partition: null }), error('null'))
})

t.test('a chunk with another checksum is damaged', (t) => {
  t.doesNotThrow(() => refuseDamaged({ _id: '3:4', crc32: 7 }, 7))
  t.throws(() => refuseDamaged({ _id: '3:4', crc32: 7 }, 8), {
    code: 'chunk_damaged',
    message:
      'the staged chunk 3:4 has changed since the file was split (its checksum differs): check whether DATA_DIR/staging was changed or the disk is faulty',
  })
  t.end()
})
