import type { IncomingMessage } from 'node:http'
import { pipeline, type Transform } from 'node:stream'
import zlib from 'node:zlib'
import { RequestError } from '../../../shared/contract/errors.ts'
import { pieceBytes } from '../pieces.ts'
import { refusedBody } from './json-text.ts'

/** For how long, and how many bytes of it, the rest of a body is taken from a client that was refused already. */
const drainMs = 10_000
const drainBytes = 64 * 1024 * 1024

/** How a body is waited for when the process stops. Less in all than requests under way have, so that it is answered. */
export interface BodyTimeouts {
  stopping: AbortSignal
  /** From one piece to the next. */
  stalledMs?: number
  /** From the beginning of the stop to the end of the body. */
  arrivingMs?: number
}

/**
 * A request's body as it arrives, decompressed. Throws 413 as soon as it is known to have more than `limit` bytes, as
 * sent or decompressed; 415 for an unknown Content-Encoding; `invalid_request` where it breaks off; 503 where it doesn't
 * come while the process stops. Whoever stops early leaves the request as it is, so that a reply can still be read.
 */
export async function* bodyPieces(
  request: IncomingMessage,
  limit: number,
  timeouts: BodyTimeouts,
): AsyncGenerator<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit)
  const decompressor = decompressorOf(request)
  const sent = bounded(withTimeouts(request.iterator({ destroyOnReturn: false }), timeouts), limit)
  try {
    if (decompressor === null) yield* sent
    else yield* bounded(decompressed(sent, decompressor), limit)
  } catch (error) {
    throw toRefusal(error)
  }
}

/** The pieces as they come, and without an end to the patience as long as the process doesn't stop. */
async function* withTimeouts(
  pieces: AsyncIterator<unknown, undefined>,
  { stopping, stalledMs = 3_000, arrivingMs = 6_500 }: BodyTimeouts,
): AsyncGenerator {
  const over = Promise.withResolvers<never>()
  const giveUp = () => over.reject(notWaitedFor())
  over.promise.catch(() => undefined)
  let stalled: NodeJS.Timeout | undefined
  let arriving: NodeJS.Timeout | undefined
  const beginStop = () => {
    stalled = setTimeout(giveUp, stalledMs)
    arriving = setTimeout(giveUp, arrivingMs)
  }
  if (stopping.aborted) beginStop()
  else stopping.addEventListener('abort', beginStop, { once: true })
  try {
    for (;;) {
      stalled?.refresh()
      const { done, value } = await Promise.race([pieces.next(), over.promise])
      if (done === true) return
      yield value
    }
  } finally {
    stopping.removeEventListener('abort', beginStop)
    clearTimeout(stalled)
    clearTimeout(arriving)
    // So that the rest can be drained. Where the next piece is still waited for, it ends with that one or the request.
    void pieces.return?.()?.catch(() => undefined)
  }
}

const notWaitedFor = (): RequestError =>
  new RequestError(
    'internal_error',
    'the service is stopping and the body had not arrived, so nothing was done: send the request again',
    { status: 503, headers: { 'Retry-After': '1' } },
  )

async function* bounded(pieces: AsyncIterable<unknown>, limit: number): AsyncGenerator<Buffer> {
  let size = 0
  for await (const piece of pieces as AsyncIterable<Buffer>) {
    size += piece.length
    if (size > limit) throw tooLarge(limit)
    yield piece
  }
}

async function* decompressed(pieces: AsyncIterable<Buffer>, into: Transform): AsyncGenerator<Buffer> {
  // What fails is thrown by the iteration; the pipeline only has to be told that somebody listens.
  pipeline(pieces, into, () => undefined)
  try {
    yield* into as AsyncIterable<Buffer>
  } finally {
    into.destroy()
  }
}

function decompressorOf(request: IncomingMessage): Transform | null {
  switch ((request.headers['content-encoding'] ?? 'identity').toLowerCase()) {
    case 'identity':
      return null
    case 'gzip':
      return zlib.createGunzip({ chunkSize: pieceBytes })
    case 'deflate':
      return zlib.createInflate({ chunkSize: pieceBytes })
    case 'br':
      return zlib.createBrotliDecompress({ chunkSize: pieceBytes })
    case 'zstd':
      return zlib.createZstdDecompress({ chunkSize: pieceBytes })
    default:
      throw new RequestError(
        'invalid_request',
        'the body must be JSON in UTF-8, plain or with Content-Encoding gzip, deflate, br or zstd',
        { status: 415 },
      )
  }
}

export const tooLarge = (limit: number): RequestError =>
  new RequestError(
    'invalid_request',
    `the body is too large for this endpoint, which takes ${limit / 1024 / 1024} MB`,
    { status: 413 },
  )

function toRefusal(error: unknown): unknown {
  if (error instanceof RequestError) return error
  const { code = '' } = error as NodeJS.ErrnoException
  const isOfTheBody =
    /^(Z_|ERR__ERROR_|ERR_BROTLI|ERR_PADDING|ZSTD_|ECONNRESET|ERR_STREAM_PREMATURE_CLOSE)/.test(code)
  return isOfTheBody
    ? refusedBody("couldn't be read: it is shorter than announced, or not what its Content-Encoding says")
    : error
}

/**
 * Takes what a refused request still sends, so that its client gets to read the reply: who closes on one that is
 * sending resets the connection. Not for ever; then the connection is cut.
 */
export function drain(request: IncomingMessage, limits = { ms: drainMs, bytes: drainBytes }): void {
  if (request.complete || request.destroyed) return
  let size = 0
  const cut = () => request.socket.destroy()
  const timer = setTimeout(cut, limits.ms).unref()
  request.on('data', (piece: Buffer) => {
    size += piece.length
    if (size > limits.bytes) cut()
  })
  request
    .once('error', () => undefined)
    .once('close', () => {
      clearTimeout(timer)
    })
  request.resume()
}
