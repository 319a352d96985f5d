import { isUtf8 } from 'node:buffer'
import type { ChunkDocument, FileFormat } from '../../shared/schemas/import.ts'
import { readRecordAt, type PartitionedRecord } from '../splitting/partition-file.ts'
import { recordFlags } from '../splitting/record-scanner.ts'
import { parseEnclosedRecords, readCells } from './csv-cells.ts'

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
export const batchRecords = 1_000
const batchBytes = 4 * 1024 * 1024

export interface Batch {
  records: PartitionedRecord[]
  /** What the records lie in. */
  bytes: Buffer
}

/**
 * Cuts records that lie in `bytes` into batches. `from` and the returned rest let a chunk that is read piece by piece
 * be cut as if it were one.
 */
export function cutBatches(records: readonly PartitionedRecord[], bytes: Buffer): Batch[] {
  const batches: Batch[] = []
  let current: PartitionedRecord[] = []
  let size = 0
  for (const record of records) {
    current.push(record)
    size += record.end - record.start
    if (current.length < batchRecords && size < batchBytes) continue
    batches.push({ records: current, bytes })
    current = []
    size = 0
  }
  if (current.length > 0) batches.push({ records: current, bytes })
  return batches
}

/** The records in `bytes`, in the order in which they lie there: file order. */
export function listRecords(bytes: Buffer): PartitionedRecord[] {
  const records: PartitionedRecord[] = []
  for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end))
    records.push(record)
  return records
}

/** In the order of identities, records of the same one in file order. Bytes of UTF-8 sort as code points do. */
export function sortedByIdentity(records: readonly PartitionedRecord[], bytes: Buffer): PartitionedRecord[] {
  const prefixes = Float64Array.from(records, (record) => prefixOf(bytes, record))
  const order = Uint32Array.from(records, (_, i) => i)
  order.sort((i, j) => prefixes[i]! - prefixes[j]! || compareKeys(bytes, records[i]!, records[j]!) || i - j)
  return Array.from(order, (i) => records[i]!)
}

function compareKeys(bytes: Buffer, a: PartitionedRecord, b: PartitionedRecord): number {
  return bytes.compare(bytes, b.keyStart, b.start, a.keyStart, a.start)
}

function prefixOf(bytes: Buffer, record: PartitionedRecord): number {
  const length = record.start - record.keyStart
  if (length >= 6) return bytes.readUIntBE(record.keyStart, 6)
  let prefix = 0
  for (let i = 0; i < 6; i += 1) prefix = prefix * 256 + (i < length ? bytes[record.keyStart + i]! : 0)
  return prefix
}

/** Decodes a batch's records and cuts them into cells. */
export function readBatch(batch: Batch, format: FileFormat, kind: ChunkDocument['kind']): ReadRecord[] {
  const { bytes } = batch
  const encoding = format.character_set === 'utf-8' ? 'utf8' : 'latin1'
  const enclosed: { record: ReadRecord; text: string }[] = []
  const result = batch.records.map((place) => {
    const text = bytes.toString(encoding, place.start, place.end)
    const record: ReadRecord = {
      number: place.number,
      identity: kind === 'unidentified' ? null : bytes.toString('utf8', place.keyStart, place.start),
      cells: [],
      problem: problemOf(place, text, bytes, format),
    }
    const { flags } = place
    if (flags === 0) record.cells = text.split(format.csv_field_separator)
    else if ((flags & recordFlags.unterminated) !== 0) record.cells = [text]
    else if (flags === recordFlags.enclosed) enclosed.push({ record, text })
    else record.cells = readCells(text, format)
    return record
  })
  if (enclosed.length > 0) {
    const cells = parseEnclosedRecords(
      enclosed.map(({ text }) => text),
      format,
    )
    enclosed.forEach(({ record }, i) => (record.cells = cells[i]!))
  }
  return result
}

function problemOf(place: PartitionedRecord, text: string, bytes: Buffer, format: FileFormat): string | null {
  if ((place.flags & recordFlags.unterminated) !== 0) return `unterminated enclosure, line ${place.line}`
  if ((place.flags & recordFlags.tooLong) !== 0)
    return `the record at line ${place.line} is too long: it has more than 1 MiB, of which only the beginning is shown here`
  const badByte =
    format.character_set === 'utf-8' &&
    text.includes('\ufffd') &&
    !isUtf8(bytes.subarray(place.start, place.end))
  if (badByte)
    return `invalid UTF-8 in the record at line ${place.line}: if the file is ISO-8859-1, import it as such`
  if (text.includes('\0')) return `a NUL character in the record at line ${place.line}`
  return null
}
