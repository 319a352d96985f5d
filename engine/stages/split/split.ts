import { checkedRecords } from '../../../shared/csv/file-beginning.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import {
  combineChecksums,
  readInPieces,
  readRecordAt,
  type Partition,
} from '../../../shared/csv/partition-file.ts'
import type {
  ContentFormat,
  SourceBeginning,
  ImportPlan,
  PartitionSecondHalf,
} from '../../../shared/contract/schemas/import.ts'
import type { StagedFile, StagedWriter } from '../../../shared/storage/staging/staging.ts'
import { filledRanges, PartitionOutput, RangeWriter, type Range, type RangeContent } from './range-writer.ts'
import { chooseBorders, IdentitySample, sampleIdentities } from './sampling.ts'
import { SourceScan } from './source-scan.ts'
import { SecondHalfScan, type HelperThread, type SecondHalfReport } from './second-half-scan.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'

/**
 * Splits an import's file into chunks, as a range partition. One scan writes every record to the range of its identity,
 * so that all records of one identity are in one chunk, in file order. Memory doesn't grow with the file: each range
 * has one buffer, a smaller one in huge files.
 *
 * Borders come from a sample, so ranges are about equal in size. An identity that repeats a million times, or a
 * misleading sample, makes a range much larger. Such a range is split again by its own content, until it is small or
 * has one identity.
 *
 * In a large file a helper thread scans the second half at the same time (second-half-scan.ts), into the same ranges
 * and a second partition file.
 */

export interface SplitOptions {
  source: StagedFile
  output: StagedWriter
  /** Opens for reading what was written to `output`, and to the second half's file. */
  reopen: (secondHalf: PartitionSecondHalf | null) => Promise<Partition>
  /** A helper for the second half of a large source; without it this thread scans everything. */
  second?: HelperThread
  plan: ImportPlan
  format: ContentFormat
  /** Where the records begin. */
  beginning: Pick<SourceBeginning, 'start' | 'skipped_lines'>
  signal: AbortSignal
}

export interface SplitResult {
  /** In the order of their identities; those without an identity come last. */
  ranges: Range[]
  /** The second partition file; null when this thread scanned everything. */
  secondHalf: PartitionSecondHalf | null
  records: number
  header: string[] | null
  warnings: string[]
  /** Whether a record may have swallowed others, so that who is in the file is not known. */
  mayMissRecords: boolean
}

const targetRangeBytes = 1_500_000
const minRangeBytes = 128_000
/** A small file is split into this many ranges, or fewer of `minRangeBytes`, so that every lane has work. */
const smallFileRanges = 24
const maxRanges = 4_096
/** For the buffers of all ranges together. */
const maxBuffersBytes = 24 * binaryMegabyte
const maxBufferBytes = 64 * 1024
/** A range of more than this many times the target is split again. */
const oversizeFactor = 4
/** In a smaller source the scan ends before a second thread is of use. */
const largeSourceBytes = 16 * binaryMegabyte
/** The second half begins at a line within this distance after the middle. */
const searchedBytes = 64 * 1024

/**
 * Scans the source once and appends its partition to `output`, which stays open. Throws ImportError `content_refused`
 * or `source_unreadable`, the signal's reason, and the staging's errors as they are. When it ends, successfully or
 * not, neither thread writes any longer.
 */
export async function splitFile(options: SplitOptions): Promise<SplitResult> {
  const output = new PartitionOutput(options.output)
  try {
    return await splitInto(output, options)
  } finally {
    // After a failed split the caller closes and removes the file: no write may come later.
    await output.close()
  }
}

async function splitInto(output: PartitionOutput, options: SplitOptions): Promise<SplitResult> {
  const { source, second, plan, format, signal } = options
  const { start, skipped_lines: skippedLines } = options.beginning
  const secondHalfStart = second === undefined ? null : await findSecondHalf(source, start, format, second)
  const sizes = rangeSizes(source.size, secondHalfStart === null ? 1 : 2)
  const sample = await sampleIdentities({
    source,
    start,
    windows: Math.max(256, Math.min(1_024, sizes.ranges)),
    identities: new IdentityReader(plan, format),
    format,
    wantedColumn: plan.identity.column,
  })
  const borders = chooseBorders(sample, sizes.ranges)
  const part = { borders, bufferSize: sizes.bufferSize, targetBytes: sizes.target, plan, format }
  const scan = new SourceScan({ ...part, source, from: start, skippedLines, output, isSecondHalf: false })
  let report: SecondHalfReport | null = null
  if (second !== undefined && secondHalfStart !== null) {
    const helper = new SecondHalfScan(second, { ...part, from: secondHalfStart, to: source.size })
    report = await scanHalves(scan, helper, secondHalfStart, signal)
    // This thread may need the disk space when it scans the second half itself.
    if (report === null) await second.removeOutput()
  }
  if (report === null) await scan.scanTo(source.size, stoppedBy(signal))
  const secondHalf =
    report === null || second === undefined
      ? null
      : { name: second.output, records: scan.sorter.records, lines: scan.lines }
  const { sorted, unidentified } = await scan.end()
  if (report !== null) scan.sorter.addSecondHalf(report, scan.lines)

  const ranges = sorted.map((range, i) => joined(range, report?.sorted[i]))
  const reopen = () => options.reopen(secondHalf)
  return {
    ranges: [
      ...(await splitOversized(filledRanges(ranges), { reopen, output, sizes, signal })),
      ...unidentified,
      ...(report?.unidentified ?? []),
    ],
    secondHalf,
    records: scan.sorter.records,
    header: scan.sorter.header,
    warnings: scan.sorter.warnings.sentences,
    mayMissRecords: scan.sorter.warnings.findings.swallowing.records > 0,
  }
}

const stoppedBy = (signal: AbortSignal) => (): boolean => {
  signal.throwIfAborted()
  return false
}

/**
 * The offset of a line in the middle at which a record probably begins; null when the source isn't large, or no line
 * ends there. Around a line feed inside an enclosed cell, both lines mostly have an odd number of enclosures.
 */
async function findSecondHalf(
  source: StagedFile,
  start: number,
  { csv_field_enclosure: enclosure }: ContentFormat,
  { minBytes = largeSourceBytes }: HelperThread,
): Promise<number | null> {
  if (source.size < minBytes) return null
  const middle = start + Math.floor((source.size - start) / 2)
  const searched = Buffer.allocUnsafeSlow(searchedBytes)
  const lines = searched.toString('latin1', 0, await source.read(searched, middle)).split('\n')
  if (lines.length === 1) return null
  // The first and the last line are cut off.
  const isEven = lines.slice(1, -1).map((line) => line.split(enclosure).length % 2 === 1)
  const between = isEven.findIndex((is, i) => is && isEven[i + 1])
  const before = lines.slice(0, between === -1 ? 1 : between + 2)
  return middle + before.reduce((sum, line) => sum + line.length + 1, 0)
}

/**
 * Scans the first half while the helper scans the second one. Null when the helper's result can't be used: the second
 * half begins within a record, or before the end of the records that are checked first, or its scan failed.
 */
async function scanHalves(
  scan: SourceScan,
  helper: SecondHalfScan,
  secondHalfStart: number,
  signal: AbortSignal,
): Promise<SecondHalfReport | null> {
  const stop = () => void helper.stop()
  signal.addEventListener('abort', stop)
  try {
    await scan.scanTo(secondHalfStart, stoppedBy(signal))
    const isUsable = scan.isBetweenRecords && scan.sorter.records >= checkedRecords
    return isUsable ? await helper.report() : null
  } finally {
    signal.removeEventListener('abort', stop)
    await helper.stop()
  }
}

/** A range's records in file order: those of the first half, then those of the second. */
const joined = (range: Range, secondHalf: RangeContent | undefined): Range =>
  secondHalf === undefined
    ? range
    : {
        ...range,
        extents: range.extents.concat(secondHalf.extents),
        length: range.length + secondHalf.length,
        crc32: combineChecksums(range.crc32, secondHalf.crc32),
        records: range.records + secondHalf.records,
      }

function rangeSizes(fileSize: number, threads: number) {
  const target = Math.min(targetRangeBytes, Math.max(minRangeBytes, Math.ceil(fileSize / smallFileRanges)))
  const ranges = Math.min(maxRanges, Math.max(1, Math.ceil(fileSize / target)))
  // Where the number of ranges is capped, each is larger.
  return {
    target: Math.max(target, Math.ceil(fileSize / ranges)),
    ranges,
    bufferSize: Math.min(maxBufferBytes, Math.floor(maxBuffersBytes / threads / ranges)),
  }
}

interface SplitContext {
  reopen: () => Promise<Partition>
  output: PartitionOutput
  sizes: ReturnType<typeof rangeSizes>
  signal: AbortSignal
}

async function splitOversized(ranges: Range[], context: SplitContext): Promise<Range[]> {
  const result: Range[] = []
  for (const range of ranges) {
    const isSmall = range.kind === 'single_identity' || range.length <= context.sizes.target * oversizeFactor
    result.push(...(isSmall ? [range] : await splitOversized(await splitRange(range, context), context)))
  }
  return result
}

/**
 * Splits a range by a sample of its content. Any sample makes progress, as a single identity becomes a range of its
 * own.
 */
async function splitRange(range: Range, { reopen, output, sizes, signal }: SplitContext): Promise<Range[]> {
  const file = await reopen()
  try {
    const sample = new IdentitySample()
    for await (const { bytes } of readInPieces(file, range.extents)) {
      signal.throwIfAborted()
      for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end))
        sample.offer(bytes, record.identityStart, record.start)
    }
    const borders = chooseBorders(
      sample.identities(),
      Math.min(maxRanges, Math.ceil(range.length / sizes.target)),
    )
    const writer = new RangeWriter({ output, bufferSize: sizes.bufferSize, borders, within: range })
    for await (const { bytes } of readInPieces(file, range.extents)) {
      signal.throwIfAborted()
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
    const parts = filledRanges(writer.finish())
    await output.end()
    return parts
  } finally {
    await file.close()
  }
}
