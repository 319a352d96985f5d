import { checkedRecords, contentStart } from '../../../shared/csv/file-beginning.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { checksumOf, readInPieces, readRecordAt, type Partition } from '../../../shared/csv/partition-file.ts'
import type { FileFormat, ImportPlan, PartitionSecondHalf } from '../../../shared/contract/schemas/import.ts'
import type { StagedFile, StagedWriter } from '../../../shared/storage/staging/staging.ts'
import { filledRanges, PartitionOutput, RangeWriter, type Range, type RangeContent } from './range-writer.ts'
import { bordersOf, IdentitySample, sampleIdentities } from './sampling.ts'
import { SourceScan } from './source-scan.ts'
import { SecondHalfScan, type HelperThread, type SecondHalfReport } from './tail-scan.ts'

/**
 * Splits an import's file into chunks: one scan that hands every record to the range of its identity, so that all
 * records of one identity, first and later ones, end up in one chunk and in file order. Memory doesn't grow with the
 * file: a buffer a range, and for huge files fewer bytes a buffer.
 *
 * Ranges come from a sample, so they are about as large as each other. One that is much larger all the same (one
 * identity repeated a million times, or a sample that misled) is split again by what is really in it, until it is
 * small or holds one identity alone.
 *
 * The tail of a large file, its second half, is scanned by another thread at the same time (tail-scan.ts), into the
 * same ranges and a file of its own.
 */

export interface SplitOptions {
  source: StagedFile
  output: StagedWriter
  /** Opens what was written to `output`, and to the tail's. */
  reopen: (secondHalf: PartitionSecondHalf | null) => Promise<Partition>
  /** Another thread, for the tail of a large source; where it's left out, this one does it all. */
  second?: HelperThread
  plan: ImportPlan
  format: FileFormat
  signal: AbortSignal
}

export interface SplitResult {
  /** In the order of their identities, those without any last. */
  ranges: Range[]
  /** Of the second file, where extents lie in there. */
  secondHalf: PartitionSecondHalf | null
  records: number
  header: string[] | null
  warnings: string[]
}

const targetRangeBytes = 1_500_000
const minRangeBytes = 128_000
/** Ranges that a small file is split into, so that every lane has something to do. */
const rangesOfSmallFile = 24
const maxRanges = 4_096
const buffersBytes = 24 * 1024 * 1024
const maxBufferBytes = 64 * 1024
/** A range so many times the target is split again. */
const oversizeFactor = 4
/** Below, a second thread has no time to be of use. */
const largeSourceBytes = 16 * 1024 * 1024
/** How far behind the middle a line's end is looked for. */
const searchedBytes = 64 * 1024

/**
 * Scans the source once and appends its partition to `output`, which stays open. Throws ImportError `content_refused`
 * or `source_unreadable`, the signal's reason, and the staging's errors as they are. When it ends, nothing is written
 * any more, by either thread.
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
  const { source, second, plan, format, signal } = options
  const start = await contentStart(source)
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
  const borders = bordersOf(sample, sizes.ranges)
  const part = { borders, bufferSize: sizes.bufferSize, targetBytes: sizes.target, plan, format }
  const scan = new SourceScan({ ...part, source, from: start, output, isSecondHalf: false })
  let report: SecondHalfReport | null = null
  if (second !== undefined && secondHalfStart !== null) {
    const secondHalf = new SecondHalfScan(second, { ...part, from: secondHalfStart, to: source.size })
    report = await scanInTwo(scan, secondHalf, secondHalfStart, signal)
    // This thread may need the space for what it goes on to write.
    if (report === null) await second.removeOutput()
  }
  if (report === null) await scan.scanTo(source.size, stoppedBy(signal))
  const secondHalf =
    report === null ? null : { name: second!.output, records: scan.sorter.records, lines: scan.lines }
  const { sorted, unidentified } = await scan.end()
  if (report !== null) scan.sorter.noteRest(report, scan.lines)

  const ranges = sorted.map((range, i) => (report === null ? range : joined(range, report.sorted[i]!)))
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
  }
}

const stoppedBy = (signal: AbortSignal) => (): boolean => {
  signal.throwIfAborted()
  return false
}

/**
 * Where a record seems to begin in the middle; null where the source isn't large, or no line ends there. The lines before
 * and behind a line feed in an enclosed cell mostly have an odd number of enclosures.
 */
async function findSecondHalf(
  source: StagedFile,
  start: number,
  { csv_field_enclosure: enclosure }: FileFormat,
  { minBytes = largeSourceBytes }: HelperThread,
): Promise<number | null> {
  if (source.size < minBytes) return null
  const middle = start + Math.floor((source.size - start) / 2)
  const searched = Buffer.allocUnsafeSlow(searchedBytes)
  const lines = searched.toString('latin1', 0, await source.read(searched, middle)).split('\n')
  if (lines.length === 1) return null
  // The first line is the end of one, and the last the beginning of one.
  const isEven = lines.slice(1, -1).map((line) => line.split(enclosure).length % 2 === 1)
  const between = isEven.findIndex((is, i) => is && isEven[i + 1])
  const before = lines.slice(0, between === -1 ? 1 : between + 2)
  return middle + before.reduce((sum, line) => sum + line.length + 1, 0)
}

/**
 * Scans up to the tail while the second thread scans that. Null when what it found is of no use, and this thread has to
 * go on: the tail begins within a record, or so early that the file's beginning isn't checked yet, or its scan broke off.
 */
async function scanInTwo(
  scan: SourceScan,
  secondHalf: SecondHalfScan,
  secondHalfStart: number,
  signal: AbortSignal,
): Promise<SecondHalfReport | null> {
  const stop = () => void secondHalf.stop()
  signal.addEventListener('abort', stop)
  try {
    await scan.scanTo(secondHalfStart, stoppedBy(signal))
    const isOfUse = scan.isBetweenRecords && scan.sorter.records >= checkedRecords
    return isOfUse ? await secondHalf.report() : null
  } finally {
    signal.removeEventListener('abort', stop)
    await secondHalf.stop()
  }
}

/** The records of a range: those before the tail, then those in there. */
const joined = (range: Range, inSecondHalf: RangeContent): Range => ({
  ...range,
  extents: range.extents.concat(inSecondHalf.extents),
  length: range.length + inSecondHalf.length,
  crc32: checksumOf(range.crc32, inSecondHalf.crc32),
  records: range.records + inSecondHalf.records,
})

interface RangeSizes {
  target: number
  ranges: number
  bufferSize: number
}

function rangeSizes(fileSize: number, threads: number): RangeSizes {
  const target = Math.min(targetRangeBytes, Math.max(minRangeBytes, Math.ceil(fileSize / rangesOfSmallFile)))
  const ranges = Math.min(maxRanges, Math.max(1, Math.ceil(fileSize / target)))
  // Where the number of ranges is capped they are larger by themselves.
  return {
    target: Math.max(target, Math.ceil(fileSize / ranges)),
    ranges,
    bufferSize: Math.min(maxBufferBytes, Math.floor(buffersBytes / threads / ranges)),
  }
}

interface SplitAgain {
  reopen: () => Promise<Partition>
  output: PartitionOutput
  sizes: RangeSizes
  signal: AbortSignal
}

async function splitOversized(ranges: Range[], context: SplitAgain): Promise<Range[]> {
  const result: Range[] = []
  for (const range of ranges) {
    const isFine = range.kind === 'single_identity' || range.length <= context.sizes.target * oversizeFactor
    result.push(...(isFine ? [range] : await splitOversized(await splitRange(range, context), context)))
  }
  return result
}

/** Splits one range by a sample of its own. Any sample makes progress: one identity alone becomes a range of its own. */
async function splitRange(range: Range, { reopen, output, sizes, signal }: SplitAgain): Promise<Range[]> {
  const file = await reopen()
  try {
    const sample = new IdentitySample()
    for await (const { bytes } of readInPieces(file, range.extents)) {
      signal.throwIfAborted()
      for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end))
        sample.offer(bytes, record.identityStart, record.start)
    }
    const borders = bordersOf(
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
