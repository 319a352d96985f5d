import { crc32 } from 'node:zlib'
import { ImportError } from '../contract/errors.ts'
import type { ChunkDocument, ImportDocument } from '../contract/schemas/import.ts'
import type { StagedFile, Staging } from '../storage/staging/staging.ts'

/**
 * The partition file has the records of an import, grouped by range of identities. A range consists of pieces: buffers
 * of whole records, each appended to the file when it was full. Its pieces in their order give its records in file
 * order.
 *
 * A record is a header of four little-endian uint32, its identity, and its bytes without the line end:
 *   record number, from 1 | first line | length + flags << 24 | length of the identity
 */
export const headerLength = 16

/** Flat pairs, as they are stored: offset, length, offset, length, ... */
export type Pieces = number[]

/**
 * A record in a buffer of partition bytes: `identityStart`, `start` and `end` are offsets into that buffer.
 */
export interface PartitionedRecord {
  number: number
  line: number
  flags: number
  identityStart: number
  /** Start of the record's own bytes, which follow its identity. */
  start: number
  end: number
}

/** Writes `headerLength` bytes at `at`. Lengths are in bytes; that of the record must be below 2 ** 24. */
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

/** Written by hand: Buffer's methods check their arguments first, and these run several times for every record. */
function putUint32(target: Buffer, at: number, value: number): void {
  target[at] = value
  target[at + 1] = value >>> 8
  target[at + 2] = value >>> 16
  target[at + 3] = value >>> 24
}

/** `at` must be in the buffer. */
const byteAt = (bytes: Buffer, at: number): number => bytes[at]!

const uint32At = (bytes: Buffer, at: number): number =>
  (byteAt(bytes, at) |
    (byteAt(bytes, at + 1) << 8) |
    (byteAt(bytes, at + 2) << 16) |
    (byteAt(bytes, at + 3) << 24)) >>>
  0

const uint48BigEndianAt = (bytes: Buffer, at: number): number =>
  (byteAt(bytes, at) * 0x100 + byteAt(bytes, at + 1)) * 0x1_0000_0000 +
  (((byteAt(bytes, at + 2) << 24) |
    (byteAt(bytes, at + 3) << 16) |
    (byteAt(bytes, at + 4) << 8) |
    byteAt(bytes, at + 5)) >>>
    0)

/** The record at `at`, or null when it isn't whole in `bytes`. The next record begins at its end. */
export function readRecordAt(bytes: Buffer, at: number): PartitionedRecord | null {
  if (at + headerLength > bytes.length) return null
  const record = recordAt(bytes, at)
  return record.end > bytes.length ? null : record
}

/** The record at `at`, which must be whole in `bytes`. */
export function recordAt(bytes: Buffer, at: number): PartitionedRecord {
  const lengthAndFlags = uint32At(bytes, at + 8)
  const identityStart = at + headerLength
  const start = identityStart + uint32At(bytes, at + 12)
  return {
    number: uint32At(bytes, at),
    line: uint32At(bytes, at + 4),
    flags: lengthAndFlags >>> 24,
    identityStart,
    start,
    end: start + (lengthAndFlags & 0xffffff),
  }
}

/** End of the record at `at`, which must be whole in `bytes`. */
export function endOfRecordAt(bytes: Buffer, at: number): number {
  return at + headerLength + identityLengthAt(bytes, at) + recordLengthAt(bytes, at)
}

/** Length of the record's own bytes, which are those of the imported file without the line end. */
const recordLengthAt = (bytes: Buffer, at: number): number => uint32At(bytes, at + 8) & 0xffffff

/** In bytes, of the record at `at`. */
export const identityLengthAt = (bytes: Buffer, at: number): number => uint32At(bytes, at + 12)

/** The first six bytes of an identity as a number that sorts as the bytes do. Missing bytes count as zeros. */
export function identityPrefix(bytes: Buffer, start: number, length: number): number {
  if (length >= 6) return uint48BigEndianAt(bytes, start)
  let prefix = 0
  for (let i = 0; i < 6; i += 1) prefix = prefix * 256 + (i < length ? byteAt(bytes, start + i) : 0)
  return prefix
}

/** In bytes. */
export const piecesLength = (pieces: Pieces): number =>
  pieces.reduce((sum, value, index) => (index % 2 === 1 ? sum + value : sum), 0)

/** Throws ImportError `chunk_damaged` when the file is missing. */
export async function openPartition(
  staging: Staging,
  { partition }: Pick<ImportDocument, 'partition'>,
): Promise<StagedFile> {
  const file = partition === null ? null : await staging.open(partition)
  if (file !== null) return file
  throw new ImportError(
    'chunk_damaged',
    `the staged partition ${partition} is missing: check whether it was removed from DATA_DIR/staging`,
    { isMissing: true },
  )
}

/**
 * Reads a whole range, into `buffer` when that is large enough. The result is shorter than the pieces when the file ends
 * early, so the caller must compare the checksum.
 */
export async function readAllPieces(
  partition: StagedFile,
  pieces: Pieces,
  buffer: Buffer = Buffer.alloc(0),
): Promise<{ bytes: Buffer; crc: number }> {
  const length = piecesLength(pieces)
  const target = length <= buffer.length ? buffer.subarray(0, length) : Buffer.allocUnsafeSlow(length)
  let at = 0
  for (const { offset, length } of eachPiece(pieces))
    at += await partition.read(target.subarray(at, at + length), offset)
  const bytes = target.subarray(0, at)
  return { bytes, crc: crc32(bytes) }
}

function* eachPiece(pieces: Pieces): Generator<{ offset: number; length: number }> {
  for (let i = 0; i < pieces.length; i += 2) yield { offset: pieces[i]!, length: pieces[i + 1]! }
}

/**
 * Reads a range of any size piece by piece. Each result has whole records only. `crc` of the last one is the checksum of
 * the range.
 */
export async function* readInPieces(
  partition: StagedFile,
  pieces: Pieces,
): AsyncGenerator<{ bytes: Buffer; crc: number }> {
  let rest: Buffer = Buffer.alloc(0)
  let crc = 0
  for (const { offset, length } of eachPiece(pieces)) {
    const piece = Buffer.allocUnsafeSlow(rest.length + length)
    rest.copy(piece)
    const read = await partition.read(piece.subarray(rest.length), offset)
    const bytes = piece.subarray(0, rest.length + read)
    crc = crc32(bytes.subarray(rest.length), crc)
    const whole = bytes.subarray(0, endOfWholeRecords(bytes))
    rest = bytes.subarray(whole.length)
    yield { bytes: whole, crc }
  }
}

/** Throws ImportError `chunk_damaged` when the bytes read of a chunk have another checksum than those written. */
export function refuseDamaged(chunk: Pick<ChunkDocument, '_id' | 'crc32'>, checksum: number): void {
  if (checksum === chunk.crc32) return
  throw new ImportError(
    'chunk_damaged',
    `the staged chunk ${chunk._id} has changed since the file was split (its checksum differs): check whether DATA_DIR/staging was changed or the disk is faulty`,
  )
}

function endOfWholeRecords(bytes: Buffer): number {
  let at = 0
  for (let record = readRecordAt(bytes, at); record !== null; record = readRecordAt(bytes, at))
    at = record.end
  return at
}
