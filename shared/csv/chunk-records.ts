import { isUtf8 } from 'node:buffer'
import type { ChunkDocument, FileFormat } from '../contract/schemas/import.ts'
import { parseEnclosedRecords, readCells } from './csv-cells.ts'
import {
  endOfRecordAt,
  flagsAt,
  headerLength,
  identityPrefix,
  identityLengthAt,
  readRecordAt,
  type PartitionedRecord,
} from './partition-file.ts'
import { recordFlags } from './record-scanner.ts'

/** A record with its text decoded and cut into cells. */
export interface ReadRecord {
  /** From 1, in file order. */
  number: number
  /** Null for a record without a valid one. */
  identity: string | null
  cells: string[]
  /** What is wrong with the record as a whole; null when its cells may be looked at. */
  problem: string | null
}

/** Records of a batch at most, and the bytes after which no further one is taken: functions of the chunk alone. */
export const batchRecords = 3_500
const batchBytes = 4 * 1024 * 1024

/**
 * Records are known by where they begin in `bytes` and decoded one at a time: an object for each record of a chunk
 * would live long enough to cost more in garbage collection than in use.
 */
export interface Batch {
  offsets: Uint32Array
  bytes: Buffer
}

/** Where the records in `bytes` begin, in the order in which they lie there: file order. */
export function listRecords(bytes: Buffer): Uint32Array {
  const offsets: number[] = []
  for (let at = 0; at < bytes.length; at = endOfRecordAt(bytes, at)) offsets.push(at)
  return Uint32Array.from(offsets)
}

/** In the order of identities, records of the same one in file order. Bytes of UTF-8 sort as code points do. */
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
 * Cuts records, in the order given, into batches of up to `batchRecords`, ended earlier by the record that reaches
 * `batchBytes`.
 */
export function cutBatches(offsets: Uint32Array, bytes: Buffer): Batch[] {
  const batches: Batch[] = []
  let first = 0
  let size = 0
  for (let i = 0; i < offsets.length; i += 1) {
    size += endOfRecordAt(bytes, offsets[i]!) - offsets[i]!
    const isFull = i + 1 - first === batchRecords || size >= batchBytes
    if (!isFull && i + 1 < offsets.length) continue
    batches.push({ offsets: offsets.subarray(first, i + 1), bytes })
    first = i + 1
    size = 0
  }
  return batches
}

/** The identity of the record that begins at the offset. */
export function identityAt(bytes: Buffer, offset: number): string {
  const { identityStart, start } = readRecordAt(bytes, offset)!
  return bytes.toString('utf8', identityStart, start)
}

/** The identities of a batch's records, in their order. */
export function* identitiesOf({ offsets, bytes }: Batch): Generator<string> {
  for (const offset of offsets) {
    const start = offset + headerLength
    yield bytes.toString('utf8', start, start + identityLengthAt(bytes, offset))
  }
}

/**
 * Decodes a batch's records and cuts them into cells, one after the other: each is looked at and gone before the next
 * is read. Only those for csv-parse are read ahead, since a call of it costs as much as reading a dozen of them.
 */
export class BatchReader {
  readonly #batch: Batch
  readonly #format: FileFormat
  readonly #kind: ChunkDocument['kind']
  readonly #encoding: 'utf8' | 'latin1'
  /** Of the file that is imported: headers and identities are the partition's own. */
  bytesRead = 0
  #next = 0
  /** Cells of records that csv-parse has read and nobody has asked for yet, from `#nextParsed` on. */
  #parsed: string[][] = []
  #nextParsed = 0

  constructor(batch: Batch, format: FileFormat, kind: ChunkDocument['kind']) {
    this.#batch = batch
    this.#format = format
    this.#kind = kind
    this.#encoding = format.character_set === 'utf-8' ? 'utf8' : 'latin1'
  }

  /** The next record; null behind the last. */
  read(): ReadRecord | null {
    const { offsets, bytes } = this.#batch
    if (this.#next === offsets.length) return null
    const found = readRecordAt(bytes, offsets[this.#next]!)!
    this.bytesRead += found.end - found.start
    const text = bytes.toString(this.#encoding, found.start, found.end)
    const record: ReadRecord = {
      number: found.number,
      identity:
        this.#kind === 'unidentified' ? null : bytes.toString('utf8', found.identityStart, found.start),
      cells: this.#cells(found.flags, text),
      problem: problemOf(found, text, bytes, this.#format),
    }
    this.#next += 1
    return record
  }

  #cells(flags: number, text: string): string[] {
    if (flags === 0) return text.split(this.#format.csv_field_separator)
    if ((flags & recordFlags.unterminated) !== 0) return [text]
    if (!isForCsvParse(flags, text, this.#format)) return readCells(text, this.#format)
    if (this.#nextParsed === this.#parsed.length) this.#parseAhead()
    this.#nextParsed += 1
    return this.#parsed[this.#nextParsed - 1]!
  }

  /** The next record, which is one for csv-parse, and more such that follow. */
  #parseAhead(): void {
    const { offsets, bytes } = this.#batch
    const texts: string[] = []
    for (let i = this.#next; i < offsets.length && texts.length < parsedAtOnce; i += 1) {
      if (flagsAt(bytes, offsets[i]!) !== recordFlags.enclosed) continue
      const { start, end, flags } = readRecordAt(bytes, offsets[i]!)!
      const text = bytes.toString(this.#encoding, start, end)
      if (isForCsvParse(flags, text, this.#format)) texts.push(text)
    }
    this.#parsed = parseEnclosedRecords(texts, this.#format)
    this.#nextParsed = 0
  }
}

const parsedAtOnce = 128

/** Regularly enclosed, with an enclosure within. */
const isForCsvParse = (
  flags: number,
  text: string,
  { csv_field_enclosure: enclosure }: FileFormat,
): boolean => flags === recordFlags.enclosed && text.includes(enclosure + enclosure)

function problemOf(
  record: PartitionedRecord,
  text: string,
  bytes: Buffer,
  format: FileFormat,
): string | null {
  if ((record.flags & recordFlags.unterminated) !== 0) {
    // The record ends with the line on which the enclosure opens, and may have begun some lines before it.
    const lineEnds = text.match(/\r\n|\n|\r/g)?.length ?? 0
    return `unterminated enclosure, line ${record.line + lineEnds}`
  }
  if ((record.flags & recordFlags.tooLong) !== 0)
    return `the record at line ${record.line} is too long: it has more than 1 MiB, of which only the beginning is shown here`
  const badByte =
    format.character_set === 'utf-8' &&
    text.includes('\ufffd') &&
    !isUtf8(bytes.subarray(record.start, record.end))
  if (badByte)
    return `invalid UTF-8 in the record at line ${record.line}: if the file is ISO-8859-1, import it as such`
  if (text.includes('\0')) return `a NUL character in the record at line ${record.line}`
  return null
}
