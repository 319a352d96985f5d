import path from 'node:path'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { errorCode, ImportError, errorMessage, toError } from '../contract/errors.ts'
import { decimalMegabyte } from '../values/byte-sizes.ts'

export const isGzipName = (name: string): boolean => path.extname(name).toLowerCase() === '.gz'

/** Bytes of an unpacked piece. It makes a sixteenth of the objects that the default of 16 kB makes. */
const chunkSize = 256 * 1024

/**
 * Unpacks a gzip stream. Throws ImportError `source_unreadable` for other data, a truncated stream, and data after
 * the end other than zeros. At a zero there zlib stops without an error, so later members of the file would be lost.
 */
export async function* gunzip(packed: AsyncIterable<Uint8Array>, what: string): AsyncGenerator<Buffer> {
  const unpacked = new PassThrough()
  let failure: Error | null = null
  const gunzipping = createGunzip({ chunkSize })
  let read = 0
  let endOfData = 0
  const watched = (async function* () {
    for await (const piece of packed) {
      const length = lengthWithoutPadding(piece)
      if (length > 0) endOfData = read + length
      read += piece.length
      yield piece
    }
  })()
  const done = pipeline(watched, gunzipping, unpacked).catch((error: unknown) => {
    failure = toError(error)
  })
  const pieces: AsyncIterable<Buffer> = unpacked
  try {
    yield* pieces
  } catch (error) {
    failure ??= toError(error)
  } finally {
    unpacked.destroy()
    await done
  }
  const code = errorCode(failure)
  if (failure === null ? endOfData > gunzipping.bytesWritten : code === 'ERR_STREAM_PUSH_AFTER_EOF')
    throw new ImportError('source_unreadable', `${what} has data after the end of its gzip data`)
  if (failure === null) return
  if (failure instanceof ImportError) throw failure
  if (code.startsWith('Z_'))
    throw new ImportError('source_unreadable', `${what} is no intact gzip file: ${errorMessage(failure)}`, {
      cause: failure,
    })
  throw failure
}

function lengthWithoutPadding(piece: Uint8Array): number {
  let length = piece.length
  while (length > 0 && piece[length - 1] === 0) length -= 1
  return length
}

/**
 * Unpacks only gzip data: many servers send a `.gz` file with "Content-Encoding: gzip", and it is decoded already.
 */
export async function* gunzipIfPacked(pieces: AsyncIterable<Buffer>, what: string): AsyncGenerator<Buffer> {
  const iterator = pieces[Symbol.asyncIterator]()
  let head: Buffer = Buffer.alloc(0)
  while (head.length < 2) {
    const next = await iterator.next()
    if (next.done === true) break
    head = Buffer.concat([head, next.value])
  }
  const whole = (async function* () {
    yield head
    yield* { [Symbol.asyncIterator]: () => iterator }
  })()
  if (head[0] === 0x1f && head[1] === 0x8b) yield* gunzip(whole, what)
  else yield* whole
}

/** Tables compress to between a fifth and a twentieth of their size. A hundredth is a sign of a bomb. */
const maxRatio = 100
const minCheckedBytes = 200 * 1000 * 1000

/**
 * Unpacks an uploaded file, whose size has no limit. Throws ImportError `content_refused` for a decompression bomb:
 * more than 200 MB, and more than a hundred times the packed bytes.
 */
export async function* gunzipUpload(packed: AsyncIterable<Uint8Array>, what: string): AsyncGenerator<Buffer> {
  let read = 0
  let unpacked = 0
  const counted = (async function* () {
    for await (const piece of packed) {
      read += piece.length
      yield piece
    }
  })()
  for await (const piece of gunzip(counted, what)) {
    unpacked += piece.length
    if (unpacked > minCheckedBytes && unpacked > read * maxRatio)
      throw new ImportError(
        'content_refused',
        `${what} unpacks to more than ${maxRatio} times its size and more than ${minCheckedBytes / decimalMegabyte} MB, which a table does not: upload it unpacked`,
      )
    yield piece
  }
}
