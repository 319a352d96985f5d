import { isUtf8 } from 'node:buffer'
import { ImportError } from '../../shared/errors.ts'
import { readCells } from '../../shared/records/csv-cells.ts'
import { checkedRecords, contentStart, mostlyInvalid } from '../../shared/records/file-beginning.ts'
import { IdentityReader } from '../../shared/records/identity-reader.ts'
import { readInPieces, readRecordAt } from '../../shared/records/partition-file.ts'
import { dialectBytes, RecordScanner, type ScannedRecord } from '../../shared/records/record-scanner.ts'
import type { FileFormat, ImportPlan } from '../../shared/schemas/import.ts'
import type { StagedFile, StagedWriter } from '../../shared/staging/staging.ts'
import { FileWarnings } from './file-warnings.ts'
import { PartitionOutput, RangeWriter, type Range, type RecordToWrite } from './range-writer.ts'
import { bordersOf, IdentitySample, sampleIdentities } from './sampling.ts'

/**
 * Splits an import's file into chunks: one scan that hands every record to the range of its identity, so that all
 * records of one identity, first and later ones, end up in one chunk and in file order. Memory doesn't grow with the
 * file: a buffer a range, and for huge files fewer bytes a buffer.
 *
 * Ranges come from a sample, so they are about as large as each other. One that is much larger all the same (one
 * identity repeated a million times, or a sample that misled) is split again by what is really in it, until it is
 * small or holds one identity alone.
 */

export interface SplitOptions {
  source: StagedFile
  output: StagedWriter
  /** Opens what was written to `output`. */
  reopen: () => Promise<StagedFile>
  plan: ImportPlan
  format: FileFormat
  signal: AbortSignal
}

export interface SplitResult {
  /** In the order of their identities, those without any last. */
  ranges: Range[]
  records: number
  header: string[] | null
  warnings: string[]
}

const targetRangeBytes = 1_500_000
const leastRangeBytes = 128_000
/** Ranges that a small file is split into, so that every lane has something to do. */
const rangesOfSmallFile = 24
const mostRanges = 4_096
const bufferMemory = 24 * 1024 * 1024
const mostBufferBytes = 64 * 1024
/** A range so many times the target is split again. */
const oversizeFactor = 4
const readBytes = 1024 * 1024
const mostRecords = 0xffffffff

/**
 * Scans the source once and appends its partition to `output`, which stays open. Throws ImportError `content_refused`
 * or `source_unreadable`, the signal's reason, and the staging's errors as they are.
 */
export async function splitFile(options: SplitOptions): Promise<SplitResult> {
  const output = new PartitionOutput(options.output)
  try {
    return await splitInto(output, options)
  } finally {
    // Whoever closes the file, and removes it, after a split that was broken off isn't to be overtaken by a write.
    await output.rest()
  }
}

async function splitInto(output: PartitionOutput, options: SplitOptions): Promise<SplitResult> {
  const { source, plan, format } = options
  const start = await contentStart(source)
  const sizes = rangeSizes(source.size)
  const identities = new IdentityReader(plan, format)
  const sample = await sampleIdentities({
    source,
    start,
    windows: Math.max(256, Math.min(1_024, sizes.ranges)),
    identities,
    format,
    wantedColumn: plan.identity.column,
  })
  const sorter = new RecordSorter({
    output,
    bufferSize: sizes.bufferSize,
    borders: bordersOf(sample, sizes.ranges),
    identities,
    plan,
    format,
    targetBytes: sizes.target,
  })

  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn: plan.identity.column,
    onRecord: (record) => sorter.take(record),
  })
  let position = start
  while (position < source.size) {
    options.signal.throwIfAborted()
    const space = scanner.space()
    const read = await source.read(space.subarray(0, Math.min(readBytes, space.length)), position)
    if (read === 0)
      throw new ImportError(
        'source_unreadable',
        `the staged file ended at byte ${position} of ${source.size}: was it changed under DATA_DIR?`,
      )
    position += read
    scanner.advance(read)
    await output.flush()
  }
  scanner.end()
  const { sorted, unidentified } = sorter.finish()
  await output.end()

  const ranges = await splitOversized(sorted, options, output, sizes)
  return {
    ranges: [...ranges, ...unidentified],
    records: sorter.records,
    header: sorter.header,
    warnings: sorter.warnings.sentences,
  }
}

interface RangeSizes {
  target: number
  ranges: number
  bufferSize: number
}

function rangeSizes(fileSize: number): RangeSizes {
  const target = Math.min(
    targetRangeBytes,
    Math.max(leastRangeBytes, Math.ceil(fileSize / rangesOfSmallFile)),
  )
  const ranges = Math.min(mostRanges, Math.max(1, Math.ceil(fileSize / target)))
  // Where the number of ranges is capped they are larger by themselves.
  return {
    target: Math.max(target, Math.ceil(fileSize / ranges)),
    ranges,
    bufferSize: Math.min(mostBufferBytes, Math.floor(bufferMemory / ranges)),
  }
}

/** Takes records as they are scanned: header, checks on the file as a whole, then each to its range. */
class RecordSorter {
  records = 0
  header: string[] | null = null
  readonly warnings: FileWarnings

  readonly #format: FileFormat
  readonly #identities: IdentityReader
  readonly #ranges: RangeWriter
  readonly #output: PartitionOutput
  readonly #bufferSize: number
  readonly #targetBytes: number
  readonly #unidentified: RangeWriter[] = []
  #unidentifiedBytes = Infinity
  #headerIsNext: boolean
  #badlyEncoded = 0
  readonly #item: RecordToWrite = {
    number: 0,
    line: 0,
    flags: 0,
    identity: Buffer.alloc(0),
    identityLength: 0,
    bytes: Buffer.alloc(0),
    start: 0,
    end: 0,
  }

  constructor(options: {
    output: PartitionOutput
    bufferSize: number
    borders: Buffer[]
    identities: IdentityReader
    plan: ImportPlan
    format: FileFormat
    targetBytes: number
  }) {
    this.warnings = new FileWarnings(options.plan, options.format)
    this.#format = options.format
    this.#identities = options.identities
    this.#output = options.output
    this.#bufferSize = options.bufferSize
    this.#targetBytes = options.targetBytes
    this.#headerIsNext = options.format.csv_has_headers
    this.#ranges = new RangeWriter({ ...options, within: { from: null, to: null } })
  }

  take(record: ScannedRecord): void {
    if (this.#headerIsNext) {
      this.#headerIsNext = false
      this.header = this.#cellsOf(record)
      return
    }
    this.records += 1
    if (this.records > mostRecords)
      throw new ImportError(
        'content_refused',
        `the file has more than ${mostRecords} records: split it into several files`,
      )
    if (this.records <= checkedRecords) this.#checkEncoding(record)
    if (this.records === 1 && !this.#format.csv_has_headers) this.warnings.firstRecord(this.#cellsOf(record))
    this.warnings.notice(record)

    const identityLength = this.#identities.read(record)
    const item = this.#item
    item.number = this.records
    item.line = record.line
    item.flags = record.flags
    item.bytes = record.bytes
    item.start = record.start
    item.end = record.end
    item.identity = this.#identities.identityBytes
    item.identityLength = Math.max(0, identityLength)
    if (identityLength === -1) this.#addUnidentified()
    else this.#ranges.add(item)
  }

  finish(): { sorted: Range[]; unidentified: Range[] } {
    if (this.records < checkedRecords) this.#refuseIfMostlyBad(this.records)
    const unidentified = this.#unidentified
      .flatMap((writer) => writer.finish())
      .map((range): Range => ({ ...range, kind: 'unidentified' }))
    return { sorted: this.#ranges.finish(), unidentified }
  }

  #cellsOf(record: ScannedRecord): string[] {
    const encoding = this.#format.character_set === 'utf-8' ? 'utf8' : 'latin1'
    return readCells(record.bytes.toString(encoding, record.start, record.end), this.#format)
  }

  /** Records without an identity stay in file order: theirs is the failed log. */
  #addUnidentified(): void {
    if (this.#unidentifiedBytes >= this.#targetBytes) {
      this.#unidentified.push(
        new RangeWriter({
          output: this.#output,
          bufferSize: this.#bufferSize,
          borders: [],
          within: { from: null, to: null },
        }),
      )
      this.#unidentifiedBytes = 0
    }
    this.#unidentified.at(-1)!.add(this.#item)
    this.#unidentifiedBytes += this.#item.end - this.#item.start
  }

  #checkEncoding(record: ScannedRecord): void {
    if (this.#format.character_set !== 'utf-8') return
    if (!isUtf8(record.bytes.subarray(record.start, record.end))) this.#badlyEncoded += 1
    if (this.records === checkedRecords) this.#refuseIfMostlyBad(checkedRecords)
  }

  #refuseIfMostlyBad(records: number): void {
    const refusal = mostlyInvalid(this.#badlyEncoded, records)
    if (refusal !== null) throw refusal
  }
}

async function splitOversized(
  ranges: Range[],
  options: SplitOptions,
  output: PartitionOutput,
  sizes: RangeSizes,
): Promise<Range[]> {
  const result: Range[] = []
  for (const range of ranges) {
    const isFine = range.kind === 'single_identity' || range.length <= sizes.target * oversizeFactor
    result.push(
      ...(isFine
        ? [range]
        : await splitOversized(await splitRange(range, options, output, sizes), options, output, sizes)),
    )
  }
  return result
}

/** Splits one range by a sample of its own. Any sample makes progress: one identity alone becomes a range of its own. */
async function splitRange(
  range: Range,
  options: SplitOptions,
  output: PartitionOutput,
  sizes: RangeSizes,
): Promise<Range[]> {
  const file = await options.reopen()
  try {
    const sample = new IdentitySample()
    for await (const { bytes } of readInPieces(file, range.extents)) {
      options.signal.throwIfAborted()
      for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end))
        sample.offer(bytes, record.identityStart, record.start)
    }
    const borders = bordersOf(
      sample.identities(),
      Math.min(mostRanges, Math.ceil(range.length / sizes.target)),
    )
    const writer = new RangeWriter({ output, bufferSize: sizes.bufferSize, borders, within: range })
    for await (const { bytes } of readInPieces(file, range.extents)) {
      options.signal.throwIfAborted()
      for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end)) {
        writer.add({
          ...record,
          identity: bytes.subarray(record.identityStart, record.start),
          identityLength: record.start - record.identityStart,
          bytes,
        })
      }
      await output.flush()
    }
    const parts = writer.finish()
    await output.end()
    return parts
  } finally {
    await file.close()
  }
}
