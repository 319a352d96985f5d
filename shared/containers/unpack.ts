import { ImportError } from '../contract/errors.ts'
import { decimalMegabyte } from '../values/byte-sizes.ts'
import { findContainer, headBytes, maxContainers } from './container-kind.ts'
import { decompress } from './decompress.ts'
import type { RandomAccessFile } from './random-access-file.ts'
import { unzip } from './zip.ts'

interface SpooledFile extends RandomAccessFile {
  /** Removes it. */
  close(): Promise<void>
}

export interface UnpackOptions {
  /** Names the file in messages. */
  what: string
  signal: AbortSignal
  bound: UnpackBound
  /** Stores a zip that can't be read where it is, as zips have their directory at the end. */
  spool: (content: AsyncIterable<Buffer>) => Promise<SpooledFile>
  /** The packed file itself, where it can be read at any position. */
  file?: RandomAccessFile | undefined
}

/**
 * Limits what each container unpacks to, so that one that is in another can't be a bomb either: nothing comes out of a
 * million empty gzip members.
 */
export interface UnpackBound {
  bytes: number
  error: () => ImportError
}

/**
 * Passes content on, out of at most two containers, one in the other; `depth` of them are already unpacked. Throws
 * ImportError for damaged and refused containers, and the errors of `pieces` as they are.
 *
 * Sources are unpacked while they are staged. Zips aren't read from the front, as streams: a file without its size before
 * it can't be told from what follows, and files that were deleted from the zip would come back. A zip that can't be read
 * in place is spooled to the staging and not to another folder, so that the quota and the disk reserve see it.
 */
export async function* unpacked(
  pieces: AsyncIterable<Buffer>,
  options: UnpackOptions,
  depth = 0,
): AsyncGenerator<Buffer> {
  const { what } = options
  const iterator = pieces[Symbol.asyncIterator]()
  try {
    const { head, whole } = await peek(iterator)
    const kind = findContainer(head)
    if (kind === null) {
      yield* whole
      return
    }
    if (depth === maxContainers) throw tooManyContainers(what)
    const content = kind === 'zip' ? unzipped(whole, options) : decompress(whole, kind, { what })
    yield* unpacked(limitBytes(content, options.bound), { ...options, file: undefined }, depth + 1)
  } finally {
    await iterator.return?.()
  }
}

/** Reads a zip where it is, or from its spooled copy. */
async function* unzipped(whole: AsyncIterable<Buffer>, options: UnpackOptions): AsyncGenerator<Buffer> {
  const { file, spool } = options
  if (file !== undefined) {
    yield* unzip(file, options)
    return
  }
  const spooled = await spool(whole)
  try {
    yield* unzip(spooled, options)
  } finally {
    await spooled.close()
  }
}

export const tooManyContainers = (what: string): ImportError =>
  new ImportError(
    'content_refused',
    `${what} is packed more than ${maxContainers} times (zip, gzip or zstd, one in the other): pack the table once`,
  )

/**
 * The bound of an uploaded file, whose own size has no limit. It is computed from the whole size and not from what was read
 * so far, or a table that begins with blank lines would be refused.
 */
export const uploadBound = (size: number, what: string): UnpackBound => ({
  bytes: freeBytes + size * maxRatio,
  error: () =>
    new ImportError(
      'content_refused',
      `${what} unpacks to more than ${maxRatio} times its size, which a table does not: upload it unpacked`,
    ),
})

/** Tables compress to between a fifth and a twentieth of their size. A thousandth is a sign of a bomb. */
const maxRatio = 1_000
/** What every upload may unpack to, however small it is. */
const freeBytes = 64 * decimalMegabyte

/** Passes the bytes on. Throws the bound's error when they exceed it. */
export async function* limitBytes(pieces: AsyncIterable<Buffer>, bound: UnpackBound): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const piece of pieces) {
    bytes += piece.length
    if (bytes > bound.bytes) throw bound.error()
    yield piece
  }
}

/** Reads the first bytes; `whole` has them too. */
async function peek(
  iterator: AsyncIterator<Buffer>,
): Promise<{ head: Buffer; whole: AsyncGenerator<Buffer> }> {
  let head: Buffer = Buffer.alloc(0)
  while (head.length < headBytes) {
    const next = await iterator.next()
    if (next.done === true) break
    head = Buffer.concat([head, next.value])
  }
  const whole = (async function* () {
    if (head.length > 0) yield head
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value
  })()
  return { head, whole }
}
