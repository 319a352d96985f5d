import { crc32 } from 'node:zlib'
import { ImportError } from '../contract/errors.ts'
import type { ChunkDocument, ImportDocument } from '../contract/schemas/import.ts'
import type { StagedFile, Staging } from '../storage/staging/staging.ts'

/**
 * The partition: the records of an import, grouped by range of identities. A range lies in extents, pieces of whole
 * records that were appended as they filled up; read one after the other they are its records in file order.
 *
 * Where two threads split the source, what came of its tail lies in a second file: a range's extents in there come
 * last. Headers count the tail's records and lines from its beginning, and readers add what was before.
 *
 * A record is a header of four little-endian uint32, its identity, and its bytes without the line end:
 *   record number, from 1 | first line | length + flags << 24 | length of the identity
 */
export const headerLength = 16

/** Positions and lengths in turn: offset, length, offset, length, ... */
export type Extents = number[]

/** Where the second file begins: extents at this offset or beyond lie in there. */
export const secondHalfOffset = 2 ** 48

/**
 * Where a record lies in a buffer that holds whole records of a partition: `identityStart`, `start` and `end` are
 * offsets into that buffer.
 */
export interface PartitionedRecord {
  number: number
  line: number
  flags: number
  identityStart: number
  /** Start of the record's bytes, and the end of the identity before them. */
  start: number
  end: number
}

/** Writes `headerLength` bytes at `at`; lengths are in bytes, the record's below 2 ** 24. */
export function writeHeader(
  target: Buffer,
  at: number,
  record: { number: number; line: number; flags: number; identityLength: number; length: number },
): void {
  putUint32(target, at, record.number)
  putUint32(target, at + 4, record.line)
  putUint32(target, at + 8, record.length | (record.flags << 24))
  putUint32(target, at + 12, record.identityLength)
}

/** These by hand: the buffer's own methods check their arguments first, and are called several times for every record. */
function putUint32(target: Buffer, at: number, value: number): void {
  target[at] = value
  target[at + 1] = value >>> 8
  target[at + 2] = value >>> 16
  target[at + 3] = value >>> 24
}

const uint32At = (bytes: Buffer, at: number): number =>
  (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0

const uint48BigEndianAt = (bytes: Buffer, at: number): number =>
  (bytes[at]! * 0x100 + bytes[at + 1]!) * 0x1_0000_0000 +
  (((bytes[at + 2]! << 24) | (bytes[at + 3]! << 16) | (bytes[at + 4]! << 8) | bytes[at + 5]!) >>> 0)

/** The record at `at`, or null when it isn't whole in `bytes`. The next one begins at its end. */
export function readRecordAt(bytes: Buffer, at: number): PartitionedRecord | null {
  if (at + headerLength > bytes.length) return null
  const lengthAndFlags = uint32At(bytes, at + 8)
  const identityStart = at + headerLength
  const start = identityStart + uint32At(bytes, at + 12)
  const end = start + (lengthAndFlags & 0xffffff)
  if (end > bytes.length) return null
  return {
    number: uint32At(bytes, at),
    line: uint32At(bytes, at + 4),
    flags: lengthAndFlags >>> 24,
    identityStart,
    start,
    end,
  }
}

/** Where the record at `at`, which is whole, ends. */
export function endOfRecordAt(bytes: Buffer, at: number): number {
  return at + headerLength + identityLengthAt(bytes, at) + recordLengthAt(bytes, at)
}

/** Length of the record's own bytes: as in the file that is imported, without the line end. */
const recordLengthAt = (bytes: Buffer, at: number): number => uint32At(bytes, at + 8) & 0xffffff

/** The `recordFlags` of the record at `at`. */
export const flagsAt = (bytes: Buffer, at: number): number => bytes[at + 11]!

/** In bytes. */
export const identityLengthAt = (bytes: Buffer, at: number): number => uint32At(bytes, at + 12)

/** The first six bytes of an identity as a number, which orders as they do; zeros stand in for what isn't there. */
export function identityPrefix(bytes: Buffer, start: number, length: number): number {
  if (length >= 6) return uint48BigEndianAt(bytes, start)
  let prefix = 0
  for (let i = 0; i < 6; i += 1) prefix = prefix * 256 + (i < length ? bytes[start + i]! : 0)
  return prefix
}

/** In bytes. */
export const extentsLength = (extents: Extents): number =>
  extents.reduce((sum, value, index) => (index % 2 === 1 ? sum + value : sum), 0)

/** Its files, open as one. */
export interface Partition {
  /** Resolves to the bytes read, less than asked only at the end of a file. */
  read(target: Buffer, offset: number): Promise<number>
  /** What is in the source before its tail. */
  before: { records: number; lines: number }
  close(): Promise<void>
}

/** Throws ImportError `chunk_damaged` where a file of it is gone. */
export async function openPartition(
  staging: Staging,
  { partition, partition_tail: tail }: Pick<ImportDocument, 'partition' | 'partition_tail'>,
): Promise<Partition> {
  const head = await openPart(staging, partition)
  let rest = head
  try {
    if (tail !== undefined) rest = await openPart(staging, tail.name)
  } catch (error) {
    await head.close()
    throw error
  }
  return {
    read: (target, offset) =>
      offset < secondHalfOffset ? head.read(target, offset) : rest.read(target, offset - secondHalfOffset),
    before: tail ?? { records: 0, lines: 0 },
    close: async () => {
      await head.close()
      if (rest !== head) await rest.close()
    },
  }
}

async function openPart(staging: Staging, name: string | null): Promise<StagedFile> {
  const file = name === null ? null : await staging.open(name)
  if (file !== null) return file
  throw new ImportError(
    'chunk_damaged',
    `the staged partition ${name} is gone: was it removed from DATA_DIR/staging?`,
    { isMissing: true },
  )
}

/**
 * Reads a whole range, into `room` where it is large enough. Shorter than the extents say where a file ends early: the
 * caller compares the checksum.
 */
export async function readExtents(
  partition: Partition,
  extents: Extents,
  buffer: Buffer = Buffer.alloc(0),
): Promise<{ bytes: Buffer; crc: number }> {
  const length = extentsLength(extents)
  const target = length <= buffer.length ? buffer.subarray(0, length) : Buffer.allocUnsafeSlow(length)
  let at = 0
  let secondHalfAt = 0
  for (let i = 0; i < extents.length; i += 2) {
    at += await partition.read(target.subarray(at, at + extents[i + 1]!), extents[i]!)
    if (extents[i]! < secondHalfOffset) secondHalfAt = at
  }
  const bytes = target.subarray(0, at)
  const tail = bytes.subarray(secondHalfAt)
  const crc = checksumOf(crc32(bytes.subarray(0, secondHalfAt)), crc32(tail))
  renumber(tail, partition.before)
  return { bytes, crc }
}

/**
 * Reads a range of any size piece by piece; each piece holds whole records only. `crc` of the last piece is the
 * checksum of the whole.
 */
export async function* readInPieces(
  partition: Partition,
  extents: Extents,
): AsyncGenerator<{ bytes: Buffer; crc: number }> {
  let rest: Buffer = Buffer.alloc(0)
  let headCrc = 0
  let secondHalfCrc = 0
  for (let i = 0; i < extents.length; i += 2) {
    const piece = Buffer.allocUnsafeSlow(rest.length + extents[i + 1]!)
    rest.copy(piece)
    const read = await partition.read(piece.subarray(rest.length), extents[i]!)
    const bytes = piece.subarray(0, rest.length + read)
    const isSecondHalf = extents[i]! >= secondHalfOffset
    if (isSecondHalf) secondHalfCrc = crc32(bytes.subarray(rest.length), secondHalfCrc)
    else headCrc = crc32(bytes.subarray(rest.length), headCrc)
    const whole = bytes.subarray(0, endOfWholeRecords(bytes))
    rest = bytes.subarray(whole.length)
    if (isSecondHalf) renumber(whole, partition.before)
    yield { bytes: whole, crc: checksumOf(headCrc, secondHalfCrc) }
  }
}

/**
 * A range's checksum, from those of its extents in either file; that of none is 0, and the other one is the range's. One
 * is multiplied first: in the XOR alone, damage alike in both would cancel out.
 */
export const checksumOf = (head: number, tail: number): number =>
  tail === 0 ? head : (Math.imul(head, 0x9e3779b1) ^ tail) >>> 0

/** Throws ImportError `chunk_damaged` where what was read of a chunk has another checksum than what was written. */
export function refuseDamaged(chunk: Pick<ChunkDocument, '_id' | 'crc32'>, checksum: number): void {
  if (checksum === chunk.crc32) return
  throw new ImportError(
    'chunk_damaged',
    `chunk ${chunk._id} isn't what was written when the file was split (its checksum differs): was DATA_DIR/staging changed, or is the disk faulty?`,
  )
}

/** From numbers and lines of the tail to those of the source. Beyond 2^32 they begin again, as in any header. */
function renumber(bytes: Buffer, before: { records: number; lines: number }): void {
  for (let at = 0; at + headerLength <= bytes.length; at = endOfRecordAt(bytes, at)) {
    putUint32(bytes, at, uint32At(bytes, at) + before.records)
    putUint32(bytes, at + 4, uint32At(bytes, at + 4) + before.lines)
  }
}

function endOfWholeRecords(bytes: Buffer): number {
  let at = 0
  for (let record = readRecordAt(bytes, at); record !== null; record = readRecordAt(bytes, at))
    at = record.end
  return at
}
