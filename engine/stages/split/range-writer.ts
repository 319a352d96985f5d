import { crc32 } from 'node:zlib'
import { headerLength, identityPrefix, writeHeader, type Pieces } from '../../../shared/csv/partition-file.ts'
import type { ChunkDocument } from '../../../shared/contract/schemas/import.ts'
import type { StagedWriter } from '../../../shared/storage/staging/staging.ts'

/** A future chunk: the identities [from, to), null for an open end, and their records' places in the partition. */
export interface Range {
  kind: ChunkDocument['kind']
  from: Buffer | null
  to: Buffer | null
  pieces: Pieces
  /** Total bytes of its pieces. */
  length: number
  crc32: number
  records: number
}

export interface RecordToWrite {
  number: number
  line: number
  flags: number
  /** The identity is its first `identityLength` bytes; 0 for a record without one. */
  identity: Buffer
  identityLength: number
  bytes: Buffer
  start: number
  end: number
}

/**
 * Appends buffers to the partition file. They queue up while a piece is scanned, and one write takes them all while the
 * next piece is scanned.
 */
export class PartitionOutput {
  readonly #file: StagedWriter
  #position = 0
  #queue: Buffer[] = []
  #writing: Promise<void> = Promise.resolve()
  /** Written buffers of `#bufferSize` bytes, for reuse. Buffers of longer records are released instead. */
  readonly #free: Buffer[] = []
  #bufferSize = 0

  constructor(file: StagedWriter) {
    this.#file = file
  }

  /** Queues a buffer, which the caller no longer uses, and returns its offset in the partition. */
  enqueue(bytes: Buffer): number {
    const offset = this.#position
    this.#position += bytes.length
    this.#queue.push(bytes)
    return offset
  }

  /** A buffer to fill and enqueue; it is reused when it is written. Its content is undefined. */
  getBuffer(size: number): Buffer {
    if (size !== this.#bufferSize) this.#free.length = 0
    this.#bufferSize = size
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(size)
  }

  /** Begins to write the queue after the previous write has ended, and throws that one's error. */
  async flush(): Promise<void> {
    const buffers = this.#queue
    this.#queue = []
    await this.#writing
    this.#writing = this.#write(buffers)
    // The next flush, or the end, throws it.
    this.#writing.catch(() => undefined)
  }

  /** Resolves when everything is written. */
  async end(): Promise<void> {
    await this.flush()
    await this.#writing
  }

  /** Resolves when no write is in progress, failed or not, and releases the memory. */
  async close(): Promise<void> {
    await this.#writing.catch(() => undefined)
    for (const { buffer } of this.#free) release(buffer)
    this.#free.length = 0
  }

  async #write(buffers: Buffer[]): Promise<void> {
    if (buffers.length === 0) return
    await this.#file.append(buffers)
    for (const { buffer } of buffers) {
      if (buffer.byteLength === this.#bufferSize && this.#free.length < maxFreeBuffers)
        this.#free.push(Buffer.from(buffer))
      else release(buffer)
    }
  }
}

/** Frees the memory now: ranges fill up together, and their buffers came to 100 MB before a garbage collection. */
const release = (buffer: ArrayBufferLike): void => {
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

const maxFreeBuffers = 64

interface OpenRange extends Range {
  buffer: Buffer | null
  fill: number
}

/**
 * Writes each record to the range of its identity. A binary search over the borders compares the first six bytes of the
 * identity as one number, and all bytes only where those are equal.
 */
export class RangeWriter {
  readonly #output: PartitionOutput
  readonly #bufferSize: number
  readonly #borders: Buffer[]
  readonly #prefixes: Float64Array
  readonly #ranges: OpenRange[]

  /** `borders` are ascending; range i is [borders[i-1], borders[i]), and `within` bounds the outer two. */
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
      const borderPrefix = this.#prefixes[middle]!
      const isBelow =
        prefix === borderPrefix ? isLess(identity, length, this.#borders[middle]!) : prefix < borderPrefix
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
    const target = fits
      ? (range.buffer ??= this.#output.getBuffer(this.#bufferSize))
      : Buffer.allocUnsafeSlow(length)
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
    if (range.buffer === null) return
    const bytes = range.buffer.subarray(0, range.fill)
    range.buffer = null
    range.fill = 0
    this.#store(range, bytes)
  }

  #store(range: OpenRange, bytes: Buffer): void {
    range.crc32 = crc32(bytes, range.crc32)
    range.pieces.push(this.#output.enqueue(bytes), bytes.length)
    range.length += bytes.length
  }
}

const isLess = (identity: Buffer, length: number, border: Buffer): boolean =>
  identity.compare(border, 0, border.length, 0, length) < 0

/** The ranges that have records, with their borders moved so that no gap is between them. */
export function filledRanges(ranges: Range[]): Range[] {
  const filled = ranges.filter((range) => range.records > 0)
  filled.forEach((range, i) => {
    if (i === 0) range.from = ranges[0]?.from ?? null
    range.to = filled[i + 1]?.from ?? ranges.at(-1)?.to ?? null
  })
  return filled
}

function openRange(from: Buffer | null, to: Buffer | null): OpenRange {
  const isPoint = from !== null && to !== null && to.equals(successor(from))
  return {
    kind: isPoint ? 'single_identity' : 'sorted',
    from,
    to,
    pieces: [],
    length: 0,
    crc32: 0,
    records: 0,
    buffer: null,
    fill: 0,
  }
}

/** The next greater identity: the range [identity, successor) contains the identity alone. */
export const successor = (identity: Buffer): Buffer => Buffer.concat([identity, Buffer.alloc(1)])
