import path from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { ImportError, messageOf } from '../contract/errors.ts'

export const isGzipName = (name: string): boolean => path.extname(name).toLowerCase() === '.gz'

/** Of what is unpacked at a time: a sixteenth of the objects that the usual 16 kB would make. */
const chunkSize = 256 * 1024

/**
 * The unpacked bytes of a gzip stream. What isn't gzip, ends early, or has more behind its end than a padding of zeros
 * is an ImportError: zlib takes a zero there for the end of all, and members behind it would be missed unheard.
 */
export async function* gunzip(
  packed: AsyncIterable<Uint8Array> | Readable,
  what: string,
): AsyncGenerator<Buffer> {
  const unpacked = new PassThrough()
  let failure: unknown = null
  const gunzipping = createGunzip({ chunkSize })
  let read = 0
  let endOfData = 0
  const watched = (async function* () {
    for await (const piece of packed as AsyncIterable<Uint8Array>) {
      const length = lengthWithoutPadding(piece)
      if (length > 0) endOfData = read + length
      read += piece.length
      yield piece
    }
  })()
  const done = pipeline(watched, gunzipping, unpacked).catch((error: unknown) => {
    failure = error
  })
  try {
    for await (const piece of unpacked) yield piece as Buffer
  } catch (error) {
    failure ??= error
  } finally {
    unpacked.destroy()
    await done
  }
  const code = (failure as NodeJS.ErrnoException | null)?.code ?? ''
  if (failure === null ? endOfData > gunzipping.bytesWritten : code === 'ERR_STREAM_PUSH_AFTER_EOF')
    throw new ImportError('source_unreadable', `${what} has data behind the end of its gzip data`)
  if (failure === null) return
  if (failure instanceof ImportError) throw failure
  if (code.startsWith('Z_'))
    throw new ImportError('source_unreadable', `${what} is no intact gzip file: ${messageOf(failure)}`, {
      cause: failure,
    })
  throw failure as Error
}

function lengthWithoutPadding(piece: Uint8Array): number {
  let length = piece.length
  while (length > 0 && piece[length - 1] === 0) length -= 1
  return length
}

/** Unpacked if it is packed: servers like to say "Content-Encoding: gzip" of a `.gz` file, and then it is done already. */
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

/** Tables pack to a fifth or a twentieth; a hundredth isn't one. */
const maxRatio = 100
const alwaysUnpacked = 200 * 1000 * 1000

/**
 * The unpacked bytes of a file that has no bound of its own. A bomb ends it: more than 200 MB, and more than a hundred
 * times what was read for it.
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
    if (unpacked > alwaysUnpacked && unpacked > read * maxRatio)
      throw new ImportError(
        'content_refused',
        `${what} unpacks to more than ${maxRatio} times its size and more than ${alwaysUnpacked / 1e6} MB, which no table does: upload it unpacked`,
      )
    yield piece
  }
}
