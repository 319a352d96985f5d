import { crc32 } from 'node:zlib'
import {
  headerLength,
  identityPrefix,
  writeHeader,
  type Extents,
} from '../../../shared/csv/partition-file.ts'
import type { ChunkDocument } from '../../../shared/contract/schemas/import.ts'
import type { StagedWriter } from '../../../shared/storage/staging/staging.ts'

/** One range of identities [from, to) and where its records lie; null is open. The future chunk. */
export interface Range {
  kind: ChunkDocument['kind']
  from: Buffer | null
  to: Buffer | null
  extents: Extents
  /** Bytes in its extents. */
  length: number
  crc32: number
  records: number
}

/** Plain values, which cross threads. */
export type RangeContent = Pick<Range, 'extents' | 'length' | 'crc32' | 'records'>

export interface RecordToWrite {
  number: number
  line: number
  flags: number
  /** Its first `identityLength` bytes are the identity; none of them where the record has none. */
  identity: Buffer
  identityLength: number
  bytes: Buffer
  start: number
  end: number
}

/** The end of the partition file: buffers queue up while a block is scanned, and are written in one go during the next. */
export class PartitionOutput {
  readonly #file: StagedWriter
  #position: number
  #queue: Buffer[] = []
  #writing: Promise<void> = Promise.resolve()
  /** Of `#bufferSize` each, as many as may lie in wait at once; the buffers of longer records aren't kept. */
  readonly #free: Buffer[] = []
  #bufferSize = 0

  /** `position`: the offset at which the file begins. */
  constructor(file: StagedWriter, position = 0) {
    this.#file = file
    this.#position = position
  }

  /** Takes a buffer over and returns the offset at which it will lie. */
  enqueue(bytes: Buffer): number {
    const offset = this.#position
    this.#position += bytes.length
    this.#queue.push(bytes)
    return offset
  }

  /** One to fill and to enqueue, which comes back when it is written. Content is whatever it held before. */
  takeBuffer(size: number): Buffer {
    if (size !== this.#bufferSize) this.#free.length = 0
    this.#bufferSize = size
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(size)
  }

  /** Begins to write what lies in wait, once what was before it is written. */
  async flush(): Promise<void> {
    const buffers = this.#queue
    this.#queue = []
    await this.#writing
    this.#writing = this.#write(buffers)
    // Told by the next flush, or the end.
    this.#writing.catch(() => undefined)
  }

  /** Resolves when all of it is written. */
  async end(): Promise<void> {
    await this.flush()
    await this.#writing
  }

  /** Resolves when nothing is being written any more, whatever became of it; the memory is given back. */
  async rest(): Promise<void> {
    await this.#writing.catch(() => undefined)
    for (const { buffer } of this.#free) giveBack(buffer)
    this.#free.length = 0
  }

  async #write(buffers: Buffer[]): Promise<void> {
    if (buffers.length === 0) return
    await this.#file.append(buffers)
    for (const { buffer } of buffers) {
      if (buffer.byteLength === this.#bufferSize && this.#free.length < maxFreeBuffers)
        this.#free.push(Buffer.from(buffer))
      else giveBack(buffer)
    }
  }
}

/** At once: ranges fill up together, and what they leave was 100 MB before the garbage collector came by. */
const giveBack = (buffer: ArrayBufferLike): void => {
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

const maxFreeBuffers = 64

interface OpenRange extends Range {
  buffer: Buffer | null
  fill: number
}

/**
 * Hands records to their ranges. Which range: a binary search over the borders, by the first six bytes of the
 * identity as one number, and by all of it where those are equal.
 */
export class RangeWriter {
  readonly #output: PartitionOutput
  readonly #bufferSize: number
  readonly #borders: Buffer[]
  readonly #prefixes: Float64Array
  readonly #ranges: OpenRange[]

  /** `borders`: ascending; range i is [borders[i-1], borders[i]), the outer two are bounded by `within`. */
  constructor(options: {
    output: PartitionOutput
    bufferSize: number
    borders: Buffer[]
    within: { from: Buffer | null; to: Buffer | null }
  }) {
    const { borders, within } = options
    this.#output = options.output
    this.#bufferSize = options.bufferSize
    this.#borders = borders
    this.#prefixes = Float64Array.from(borders, (border) => identityPrefix(border, 0, border.length))
    this.#ranges = Array.from({ length: borders.length + 1 }, (_, i) =>
      openRange(borders[i - 1] ?? within.from, borders[i] ?? within.to),
    )
  }

  add(record: RecordToWrite): void {
    this.#append(this.#ranges[this.#indexOf(record.identity, record.identityLength)]!, record)
  }

  /** Ends the ranges and returns them all. */
  finish(): Range[] {
    for (const range of this.#ranges) this.#spill(range)
    return this.#ranges
  }

  #indexOf(identity: Buffer, length: number): number {
    const prefix = identityPrefix(identity, 0, length)
    let low = 0
    let high = this.#prefixes.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const border = this.#prefixes[middle]!
      const isBelow =
        prefix === border
          ? identity.compare(this.#borders[middle]!, 0, this.#borders[middle]!.length, 0, length) < 0
          : prefix < border
      if (isBelow) high = middle
      else low = middle + 1
    }
    return low
  }

  #append(range: OpenRange, record: RecordToWrite): void {
    const { start, end, identityLength } = record
    const length = headerLength + identityLength + end - start
    if (range.fill + length > this.#bufferSize) this.#spill(range)
    range.records += 1
    const fits = length <= this.#bufferSize
    if (fits) range.buffer ??= this.#output.takeBuffer(this.#bufferSize)
    const target = fits ? range.buffer! : Buffer.allocUnsafeSlow(length)
    const at = fits ? range.fill : 0
    writeHeader(target, at, {
      number: record.number,
      line: record.line,
      flags: record.flags,
      identityLength,
      length: end - start,
    })
    record.identity.copy(target, at + headerLength, 0, identityLength)
    record.bytes.copy(target, at + headerLength + identityLength, start, end)
    if (fits) range.fill += length
    else this.#store(range, target)
  }

  #spill(range: OpenRange): void {
    if (range.buffer === null || range.fill === 0) return
    const bytes = range.buffer.subarray(0, range.fill)
    range.buffer = null
    range.fill = 0
    this.#store(range, bytes)
  }

  #store(range: OpenRange, bytes: Buffer): void {
    range.crc32 = crc32(bytes, range.crc32)
    range.extents.push(this.#output.enqueue(bytes), bytes.length)
    range.length += bytes.length
  }
}

/** Those that hold records; borders between them are moved together. */
export function filledRanges(ranges: Range[]): Range[] {
  const filled = ranges.filter((range) => range.records > 0)
  filled.forEach((range, i) => {
    range.from = i === 0 ? ranges[0]!.from : range.from
    range.to = filled[i + 1]?.from ?? ranges.at(-1)!.to
  })
  return filled
}

function openRange(from: Buffer | null, to: Buffer | null): OpenRange {
  const isPoint = from !== null && to !== null && to.equals(successor(from))
  return {
    kind: isPoint ? 'single_identity' : 'sorted',
    from,
    to,
    extents: [],
    length: 0,
    crc32: 0,
    records: 0,
    buffer: null,
    fill: 0,
  }
}

/** The least identity above it: a range [identity, successor) holds that one alone. */
export const successor = (identity: Buffer): Buffer => Buffer.concat([identity, Buffer.alloc(1)])
