import type { IncomingMessage } from 'node:http'
import { pipeline, type Transform } from 'node:stream'
import zlib from 'node:zlib'
import { RequestError } from '../request-error.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { contentEncodings } from '../../../shared/net/content-encoding.ts'
import { gatheredPieces } from '../../../shared/runtime/gathered-pieces.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import { Stopping } from '../stopping.ts'
import { refusedBody } from './json-text.ts'

/** Bounds on reading the rest of a body whose request was refused. */
const drainMs = 10_000
const drainBytes = 64 * binaryMegabyte

/**
 * How long a body may still take at a stop. It is less than the grace of requests in flight, so that a reply is sent.
 */
export interface BodyTimeouts {
  stopping: AbortSignal
  /** Maximum time between two pieces. */
  stalledMs?: number
  /** Maximum time from the abort of `stopping` to the end of the body. */
  arrivingMs?: number
  /** The message of the 503 when the body has not arrived. */
  stoppingMessage?: string
  /** Ends the reading with its reason. */
  signal?: AbortSignal
}

export const notAFile =
  'the body must be the file itself, as curl -T sends it: without multipart/form-data, Content-Encoding, or a Transfer-Encoding other than chunked'

export const notJson = (type: string): string =>
  `the body must be sent with Content-Type: application/json, in UTF-8, not with ${JSON.stringify(type)}`

/**
 * Streams a body as it is sent, without a limit, to be stored. Throws 503 when it doesn't arrive during a stop, and
 * `invalid_request` when it breaks off.
 */
export async function* rawPieces(request: IncomingMessage, timeouts: BodyTimeouts): AsyncGenerator<Buffer> {
  try {
    yield* withTimeouts(request, timeouts)
  } catch (error) {
    throw request.complete || !request.destroyed ? error : refusedBody('ended early')
  }
}

/**
 * Streams a request's body, decompressed. Throws 413 (its message ends with `hint`) once it has more than `limit` bytes,
 * as sent or decompressed, and 415 for an unknown Content-Encoding. Throws `invalid_request` when it breaks off, and 503
 * when it doesn't arrive while the process stops. Ending the iteration early doesn't destroy the request, so that its
 * client can still read a reply.
 */
export async function* bodyPieces(
  request: IncomingMessage,
  limit: number,
  timeouts: BodyTimeouts,
  hint?: string,
): AsyncGenerator<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit, hint)
  const decompressor = createDecompressor(request)
  const sent = bounded(withTimeouts(request, timeouts), limit, hint)
  try {
    if (decompressor === null) yield* sent
    else yield* bounded(decompressed(sent, decompressor), limit, hint)
  } catch (error) {
    throw toRefusal(error)
  }
}

/** Counts from the end of `idleGraceMs`, and leaves half a second for the refusal until `graceMs` (http-server.ts). */
const stopArrivingMs = 6_000

/** Gathers the pieces and passes them on. The timeouts count only while the process stops. */
async function* withTimeouts(
  request: IncomingMessage,
  {
    stopping,
    stalledMs = 3_000,
    arrivingMs = stopArrivingMs,
    stoppingMessage = notArrived,
    signal,
  }: BodyTimeouts,
): AsyncGenerator<Buffer> {
  const ended = new AbortController()
  const giveUp = () => ended.abort(stoppingError(stoppingMessage))
  const interrupt = () => ended.abort(signal?.reason)
  let stalled: NodeJS.Timeout | undefined
  let arriving: NodeJS.Timeout | undefined
  const keepWaiting = () => void stalled?.refresh()
  const beginStop = () => {
    const passedMs = stopping.reason instanceof Stopping ? clock.monotonicMs() - stopping.reason.at : 0
    stalled = setTimeout(giveUp, stalledMs)
    arriving = setTimeout(giveUp, arrivingMs - passedMs)
    request.on('data', keepWaiting)
  }
  if (signal?.aborted === true) interrupt()
  signal?.addEventListener('abort', interrupt, { once: true })
  if (stopping.aborted) beginStop()
  else stopping.addEventListener('abort', beginStop, { once: true })
  try {
    yield* gatheredPieces(request, ended.signal)
  } finally {
    stopping.removeEventListener('abort', beginStop)
    signal?.removeEventListener('abort', interrupt)
    clearTimeout(stalled)
    clearTimeout(arriving)
    request.off('data', keepWaiting)
  }
}

const notArrived =
  'the service is stopping and the body had not arrived, so nothing was done: send the request again'

const stoppingError = (message: string): RequestError =>
  new RequestError('internal_error', message, { status: 503, retryAfter: 1 })

async function* bounded(pieces: AsyncIterable<Buffer>, limit: number, hint?: string): AsyncGenerator<Buffer> {
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > limit) throw tooLarge(limit, hint)
    yield piece
  }
}

async function* decompressed(pieces: AsyncIterable<Buffer>, decompressor: Transform): AsyncGenerator<Buffer> {
  // The iteration throws the errors. Without a callback the pipeline would report them as unhandled.
  pipeline(pieces, decompressor, () => undefined)
  const output: AsyncIterable<Buffer> = decompressor
  try {
    yield* output
  } finally {
    decompressor.destroy()
  }
}

/** Bytes that a decompressor gives at once. */
const chunkSize = 64 * 1024

function createDecompressor(request: IncomingMessage): Transform | null {
  switch (contentEncodings(request.headers['content-encoding'] ?? '').join()) {
    case '':
      return null
    case 'gzip':
      return zlib.createGunzip({ chunkSize })
    case 'deflate':
      return zlib.createInflate({ chunkSize })
    case 'br':
      return zlib.createBrotliDecompress({ chunkSize })
    case 'zstd':
      return zlib.createZstdDecompress({ chunkSize })
    default:
      throw new RequestError(
        'invalid_request',
        'the body must be JSON in UTF-8, plain or with Content-Encoding gzip, deflate, br or zstd',
        { status: 415 },
      )
  }
}

export const tooLarge = (limit: number, hint = ''): RequestError =>
  new RequestError(
    'invalid_request',
    `the body is too large: this endpoint accepts at most ${limit / binaryMegabyte} MiB${hint}`,
    { status: 413 },
  )

function toRefusal(error: unknown): unknown {
  if (error instanceof RequestError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const isBodyFault =
    /^(Z_|ERR__ERROR_|ERR_BROTLI|ERR_PADDING|ZSTD_|ECONNRESET|ERR_STREAM_PREMATURE_CLOSE)/.test(code)
  return isBodyFault
    ? refusedBody("couldn't be read: it ended early, or isn't in the format of its Content-Encoding")
    : error
}

/**
 * Reads and drops the rest of a refused request's body, so that its client can read the reply. Closing while the client
 * sends would reset the connection. Above the limits the connection is cut.
 */
export function drain(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return
  let size = 0
  const cut = () => request.socket.destroy()
  const timer = setTimeout(cut, drainMs).unref()
  request.on('data', (piece: Buffer) => {
    size += piece.length
    if (size > drainBytes) cut()
  })
  request.once('error', () => undefined).once('close', () => clearTimeout(timer))
  request.resume()
}
