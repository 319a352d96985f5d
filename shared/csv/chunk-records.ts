import type { ChunkDocument, ContentFormat } from '../contract/schemas/import.ts'
import { characterSetName, recordDecoder, undecodable, type RecordDecoder } from './character-set.ts'
import { bareCell, parseEnclosedRecords, readCells } from './csv-cells.ts'
import {
  endOfRecordAt,
  flagsAt,
  headerLength,
  identityPrefix,
  identityLengthAt,
  recordAt,
  type PartitionedRecord,
} from './partition-file.ts'
import { recordFlags } from './record-scanner.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'

/** A decoded record, split into cells. */
export interface ReadRecord {
  /** Position in the file, from 1. */
  number: number
  /** Null when the record has no valid identity. */
  identity: string | null
  cells: string[]
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
  const prefixes = Float64Array.from(offsets, (offset) =>
    identityPrefix(bytes, offset + headerLength, identityLengthAt(bytes, offset)),
  )
  const order = Uint32Array.from(offsets, (_, i) => i)
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

/**
 * Decodes the records of a batch one after the other, so that each can be collected before the next one is made. Only
 * records for csv-parse are read ahead, because one call of it costs as much as parsing a dozen records.
 */
export class BatchReader {
  readonly #batch: Batch
  readonly #format: ContentFormat
  readonly #kind: ChunkDocument['kind']
  readonly #decoder: RecordDecoder
  /** Bytes of the imported file, without the partition's headers and identities. */
  bytesRead = 0
  #next = 0
  /** Cells of records that csv-parse has parsed ahead; those from `#nextParsed` on are not returned yet. */
  #parsed: string[][] = []
  #nextParsed = 0

  constructor(batch: Batch, format: ContentFormat, kind: ChunkDocument['kind']) {
    this.#batch = batch
    this.#format = format
    this.#kind = kind
    this.#decoder = recordDecoder(format.character_set)
  }

  /** The next record; null after the last one. */
  read(): ReadRecord | null {
    const { offsets, bytes } = this.#batch
    const offset = offsets[this.#next]
    if (offset === undefined) return null
    const found = recordAt(bytes, offset)
    this.bytesRead += found.end - found.start
    const text = this.#decoder.decode(bytes, found.start, found.end)
    const record: ReadRecord = {
      number: found.number,
      line: found.line,
      identity:
        this.#kind === 'unidentified' ? null : bytes.toString('utf8', found.identityStart, found.start),
      cells: this.#cells(found.flags, text),
      problem: this.#findProblem(found, text),
    }
    this.#next += 1
    return record
  }

  #cells(flags: number, text: string): string[] {
    if ((flags & recordFlags.unterminated) !== 0) return [text]
    if ((flags & recordFlags.enclosed) === 0) return this.#bareCells(text)
    if (!isForCsvParse(flags, text, this.#format)) return readCells(text, this.#format)
    if (this.#nextParsed === this.#parsed.length) this.#parseAhead()
    this.#nextParsed += 1
    return this.#parsed[this.#nextParsed - 1]!
  }

  #bareCells(text: string): string[] {
    const cells = text.split(this.#format.csv_field_separator)
    return this.#format.csv_field_escape ? cells.map((cell) => bareCell(cell, this.#format)) : cells
  }

  /** Parses the next record and later ones of the batch that csv-parse must read too. */
  #parseAhead(): void {
    const { offsets, bytes } = this.#batch
    const texts: string[] = []
    for (const offset of offsets.subarray(this.#next)) {
      if (texts.length === maxParsedAhead) break
      if (flagsAt(bytes, offset) !== recordFlags.enclosed) continue
      const { start, end, flags } = recordAt(bytes, offset)
      const text = this.#decoder.decode(bytes, start, end)
      if (isForCsvParse(flags, text, this.#format)) texts.push(text)
    }
    this.#parsed = parseEnclosedRecords(texts, this.#format)
    this.#nextParsed = 0
  }

  #findProblem({ flags, start, end, line }: PartitionedRecord, text: string): RecordProblem | null {
    if ((flags & recordFlags.unterminated) !== 0) {
      // The record ends with the line on which the enclosure opens, but may begin some lines earlier.
      const lineEnds = text.match(/\r\n|\n|\r/g)?.length ?? 0
      return { kind: 'unterminated', reason: `unterminated enclosure, line ${line + lineEnds}` }
    }
    if ((flags & recordFlags.tooLong) !== 0)
      return {
        kind: 'too_long',
        reason: `the record at line ${line} is too long: it has more than 1 MiB, and only its beginning is shown here`,
      }
    if (text.includes(undecodable) && !this.#decoder.isValid(this.#batch.bytes, start, end)) {
      const name = characterSetName(this.#format.character_set)
      return { kind: 'encoding', reason: `invalid ${name} in the record at line ${line}` }
    }
    if (text.includes('\0')) return { kind: 'nul', reason: `a NUL character in the record at line ${line}` }
    return null
  }
}

const maxParsedAhead = 128

/** Whether all enclosed cells are regular and some enclosure is doubled. */
const isForCsvParse = (
  flags: number,
  text: string,
  { csv_field_enclosure: enclosure, csv_field_escape: escape }: ContentFormat,
): boolean => flags === recordFlags.enclosed && !escape && text.includes(enclosure + enclosure)
