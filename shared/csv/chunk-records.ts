import type { ChunkDocument, ContentFormat } from '../contract/schemas/import.ts'
import { characterSetName } from './character-set.ts'
import { RecordCells } from './csv-cells.ts'
import {
  endOfRecordAt,
  headerLength,
  identityPrefix,
  identityLengthAt,
  recordAt,
  type PartitionedRecord,
} from './partition-file.ts'
import { recordFlags } from './record-scanner.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'
import { TextBytes } from '../values/text-bytes.ts'

/** A record, split into cells. Its identity and cells are overwritten with the next record. */
export interface ReadRecord {
  /** Position in the file, from 1. */
  number: number
  /** Null when the record has no valid identity. */
  identity: TextBytes | null
  /** Whether the record before it in the batch has the same identity. */
  isRepeated: boolean
  cells: RecordCells
  /** Physical line of the file on which it begins, from 1. */
  line: number
  /** Why the whole record is unusable; null when its cells can be read. */
  problem: RecordProblem | null
}

interface RecordProblem {
  kind: 'unterminated' | 'too_long' | 'encoding' | 'nul'
  /** For the failed log. */
  reason: string
}

/** Limits of a batch. They depend on nothing but the chunk, so that a chunk is always cut into the same batches. */
export const batchRecords = 3_500
const batchBytes = 4 * binaryMegabyte

/**
 * Records are offsets into `bytes` and are decoded one at a time. An object for each record of a chunk would live so
 * long that garbage collection would cost more than its use.
 */
export interface Batch {
  offsets: Uint32Array
  bytes: Buffer
}

/** Offsets of the records in `bytes`, in file order. */
export function listRecords(bytes: Buffer): Uint32Array {
  const offsets: number[] = []
  for (let at = 0; at < bytes.length; at = endOfRecordAt(bytes, at)) offsets.push(at)
  return Uint32Array.from(offsets)
}

/**
 * Sorts by identity; records with equal identities stay in file order. UTF-8 bytes sort in the order of code points.
 */
export function sortedByIdentity(offsets: Uint32Array, bytes: Buffer): Uint32Array {
  const order = new Uint32Array(offsets.length)
  const prefixes = new Float64Array(offsets.length)
  for (let i = 0; i < offsets.length; i += 1) {
    order[i] = i
    prefixes[i] = prefixAt(bytes, offsets[i]!)
  }
  order.sort(
    (i, j) => prefixes[i]! - prefixes[j]! || compareIdentities(bytes, offsets[i]!, offsets[j]!) || i - j,
  )
  return order.map((i) => offsets[i]!)
}

function compareIdentities(bytes: Buffer, a: number, b: number): number {
  const startOfA = a + headerLength
  const startOfB = b + headerLength
  return bytes.compare(
    bytes,
    startOfB,
    startOfB + identityLengthAt(bytes, b),
    startOfA,
    startOfA + identityLengthAt(bytes, a),
  )
}

/** The beginnings tell nearly all apart. */
const haveSameIdentity = (bytes: Buffer, a: number, b: number): boolean =>
  prefixAt(bytes, a) === prefixAt(bytes, b) && compareIdentities(bytes, a, b) === 0

const prefixAt = (bytes: Buffer, offset: number): number =>
  identityPrefix(bytes, offset + headerLength, identityLengthAt(bytes, offset))

/**
 * Cuts records, in the given order, into batches of up to `batchRecords`. A batch ends earlier with the record that
 * brings it to `batchBytes`.
 */
export function cutBatches(offsets: Uint32Array, bytes: Buffer): Batch[] {
  const batches: Batch[] = []
  let first = 0
  let end = 0
  let size = 0
  for (const offset of offsets) {
    end += 1
    size += endOfRecordAt(bytes, offset) - offset
    const isFull = end - first === batchRecords || size >= batchBytes
    if (!isFull && end < offsets.length) continue
    batches.push({ offsets: offsets.subarray(first, end), bytes })
    first = end
    size = 0
  }
  return batches
}

/** Identity of the record at `offset`, which must be whole in `bytes`. */
export function identityAt(bytes: Buffer, offset: number): string {
  const start = offset + headerLength
  return bytes.toString('utf8', start, start + identityLengthAt(bytes, offset))
}

export function* identitiesOf({ offsets, bytes }: Batch): Generator<string> {
  for (const offset of offsets) yield identityAt(bytes, offset)
}

/** Reads the records of a batch one after the other, into the same memory. */
export class BatchReader {
  readonly #batch: Batch
  readonly #format: ContentFormat
  readonly #kind: ChunkDocument['kind']
  readonly #cells: RecordCells
  readonly #identity = new TextBytes()
  /** Bytes of the imported file, without the partition's headers and identities. */
  bytesRead = 0
  #next = 0

  constructor(batch: Batch, format: ContentFormat, kind: ChunkDocument['kind']) {
    this.#batch = batch
    this.#format = format
    this.#kind = kind
    this.#cells = new RecordCells(format)
  }

  /** The next record; null after the last one. */
  read(): ReadRecord | null {
    const { offsets, bytes } = this.#batch
    const offset = offsets[this.#next]
    if (offset === undefined) return null
    const found = recordAt(bytes, offset)
    this.bytesRead += found.end - found.start
    const before = offsets[this.#next - 1]
    this.#next += 1
    const hasIdentity = this.#kind !== 'unidentified'
    const cells = this.#cells.read(bytes, found.start, found.end, found.flags)
    return {
      number: found.number,
      line: found.line,
      identity: hasIdentity ? this.#identity.set(bytes, found.identityStart, found.start) : null,
      isRepeated: hasIdentity && before !== undefined && haveSameIdentity(bytes, before, offset),
      cells,
      problem: this.#findProblem(found, cells),
    }
  }

  #findProblem({ flags, line }: PartitionedRecord, cells: RecordCells): RecordProblem | null {
    if ((flags & recordFlags.unterminated) !== 0) {
      // The record ends with the line on which the enclosure opens, but may begin some lines earlier.
      const lineEnds = cells.string(0)!.match(/\r\n|\n|\r/g)?.length ?? 0
      return { kind: 'unterminated', reason: `unterminated enclosure, line ${line + lineEnds}` }
    }
    if ((flags & recordFlags.tooLong) !== 0)
      return {
        kind: 'too_long',
        reason: `the record at line ${line} is too long: it has more than 1 MiB, and only its beginning is shown here`,
      }
    if (!cells.isValid) {
      const name = characterSetName(this.#format.character_set)
      return { kind: 'encoding', reason: `invalid ${name} in the record at line ${line}` }
    }
    if (cells.hasNul) return { kind: 'nul', reason: `a NUL character in the record at line ${line}` }
    return null
  }
}
