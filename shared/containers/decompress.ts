import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createGunzip, createInflateRaw, createZstdDecompress } from 'node:zlib'
import { ZstdFrames } from './zstd-frames.ts'
import { errorCode, ImportError, errorMessage, toError } from '../contract/errors.ts'

type Compression = 'gzip' | 'zstd' | 'deflate'

interface DecompressOptions {
  /** Names the file in messages. */
  what: string
  /** The end may be missing, and what follows it is ignored. */
  isCut?: boolean
}

/** Bytes of an unpacked piece. It makes a sixteenth of the objects that the default of 16 kB makes. */
const chunkSize = 256 * 1024

function makeDecoder(compression: Compression, isCut: boolean) {
  const gentle = isCut ? { finishFlush: constants.Z_SYNC_FLUSH } : {}
  if (compression === 'gzip') return createGunzip({ chunkSize, ...gentle })
  if (compression === 'deflate') return createInflateRaw({ chunkSize, ...gentle })
  return createZstdDecompress({ chunkSize, ...(isCut ? { finishFlush: constants.ZSTD_e_continue } : {}) })
}

/**
 * Unpacks all members of a gzip file, all frames of zstd, or the data of a file in a zip. Throws ImportError
 * `source_unreadable` for other data, a missing end, a wrong checksum, and bytes after the end other than zeros.
 */
export async function* decompress(
  packed: AsyncIterable<Uint8Array>,
  compression: Compression,
  { what, isCut = false }: DecompressOptions,
): AsyncGenerator<Buffer> {
  const decoder = makeDecoder(compression, isCut)
  const frames = compression === 'zstd' && !isCut ? new ZstdFrames() : null
  const input = new WatchedInput(packed, (piece) => frames?.add(piece))
  const unpacked = new PassThrough()
  let failure: Error | null = null
  const done = pipeline(input, decoder, unpacked).catch((error: unknown) => {
    failure = toError(error)
  })
  const pieces: AsyncIterable<Buffer> = unpacked
  try {
    try {
      yield* pieces
    } catch (error) {
      failure ??= toError(error)
    } finally {
      unpacked.destroy()
      await done
    }
    const error: Error | null = failure
    // A decoder ends at a zero behind its data, while the pipeline still has input.
    const hasEnded = error === null || errorCode(error) === 'ERR_STREAM_PREMATURE_CLOSE'
    if (hasEnded) await input.readRest()
    const hasMore = !isCut && input.endOfData > decoder.bytesWritten
    if (hasEnded ? hasMore : errorCode(error) === 'ERR_STREAM_PUSH_AFTER_EOF')
      throw new ImportError('source_unreadable', `${what} has data after the end of its ${compression} data`)
    if (!hasEnded) throw decodingError(error, compression, what)
    if (frames?.isCutInMagic === true) throw new ImportError('source_unreadable', cutOff(compression, what))
  } finally {
    await input.close()
  }
}

/** Reads pieces one by one. A consumer that ends early doesn't end them, so that the rest can be checked. */
class WatchedInput implements AsyncIterable<Uint8Array> {
  /** The bytes up to the last one that isn't zero. */
  endOfData = 0
  #read = 0
  readonly #iterator: AsyncIterator<Uint8Array>
  readonly #onPiece: (piece: Uint8Array) => void

  constructor(pieces: AsyncIterable<Uint8Array>, onPiece: (piece: Uint8Array) => void) {
    this.#iterator = pieces[Symbol.asyncIterator]()
    this.#onPiece = onPiece
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return { next: () => this.#next() }
  }

  async readRest(): Promise<void> {
    while ((await this.#next()).done !== true);
  }

  async close(): Promise<void> {
    await this.#iterator.return?.()
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    const next = await this.#iterator.next()
    if (next.done === true) return next
    const piece = next.value
    this.#onPiece(piece)
    let length = piece.length
    while (length > 0 && piece[length - 1] === 0) length -= 1
    if (length > 0) this.endOfData = this.#read + length
    this.#read += piece.length
    return next
  }
}

/** Errors of the source are thrown as they are; those of the decoder become ImportErrors. */
function decodingError(error: Error, compression: Compression, what: string): Error {
  const code = errorCode(error)
  if (error instanceof ImportError || !/^(Z_|ZSTD_)/.test(code)) return error
  return new ImportError('source_unreadable', explain(error, code, compression, what), { cause: error })
}

const cutOff = (compression: Compression, what: string): string =>
  `${what} is cut off: its ${compression} data has no end; transfer the whole file again`

function explain(error: Error, code: string, compression: Compression, what: string): string {
  const message = errorMessage(error)
  if (code === 'Z_BUF_ERROR') return cutOff(compression, what)
  if (/incorrect (data|length) check/.test(message) || code === 'ZSTD_error_checksum_wrong')
    return `${what} is damaged: its ${compression} data doesn't match its checksum; transfer the file again`
  if (/windowTooLarge/.test(code))
    return `${what} needs more memory to unpack than the 128 MB of zstd's own default: pack it without --long`
  return `${what} has no intact ${compression} data: ${message}`
}
