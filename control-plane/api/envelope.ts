import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express'
import { driverRetryReason, isCommitUnknown, isCursorLost } from '../../shared/runtime/driver-errors.ts'
import { BusyError, errorMessage } from '../../shared/contract/errors.ts'
import { RequestError, sentPath, type RequestErrorCode } from './request-error.ts'
import { FolderUnavailable } from '../../shared/storage/staging/marked-folder.ts'
import { isDocumentTooLarge } from '../../shared/store/value-bytes.ts'
import { drain } from './body/body-pieces.ts'
import type { DataReply } from './endpoint.ts'
import { pieceBytes, JsonRecords, largeBytes } from './json-page.ts'
import type { PiecePacer } from './piece-pacer.ts'
import { writePieces } from './pieces.ts'
import { requestLocals } from './request-locals.ts'
import { Stopping } from './stopping.ts'
import { isHash } from './validation.ts'

/**
 * The envelope of replies: success here, failures by `failureBody`. Errors of the application become replies here.
 * http-server.ts refuses what never reaches the application, with the same `failureBody`.
 */

/** Sends a success. A large reply first waits for a slot, and the errors of `acquireLarge` are thrown. */
export async function sendData(
  response: Response,
  { data, paging }: DataReply,
  pacer: PiecePacer,
  acquireLarge: () => Promise<void>,
): Promise<void> {
  const rest = JSON.stringify({ error_code: null, error_message: null, ...paging }).slice(1)
  const records = data instanceof JsonRecords ? `[${data.texts.join()}]` : toJson(data)
  const bytes = Buffer.from(`{"success":true,"data":${records},${rest}`)
  response.type('application/json')
  if (bytes.length <= largeBytes) response.send(bytes)
  else {
    await acquireLarge()
    response.set('Content-Length', String(bytes.length))
    await writePieces(response, pacedPieces(bytes, pacer))
  }
}

/** In pieces, because one write of 8 MB takes the event loop from all other requests meanwhile. */
async function* pacedPieces(bytes: Buffer, pacer: PiecePacer): AsyncIterable<Buffer> {
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    await pacer.nextPiece()
    yield bytes.subarray(start, start + pieceBytes)
  }
}

/** The JSON of data that requests share (single-flight.ts), so that it is made once for all of them. */
const jsonCache = new WeakMap<object, string>()

function toJson(data: unknown): string {
  if (typeof data !== 'object' || data === null) return JSON.stringify(data ?? null)
  let text = jsonCache.get(data)
  if (text === undefined) jsonCache.set(data, (text = JSON.stringify(data)))
  return text
}

export const failureBody = (code: RequestErrorCode, message: string) => ({
  success: false,
  data: null,
  error_code: code,
  error_message: message,
})

function sendError(response: Response, error: RequestError): void {
  requestLocals(response).state.errorCode = error.code
  response.status(error.status).set(error.headers)
  response.json(failureBody(error.code, error.message))
}

export const notAnEndpoint: RequestHandler = (request, response) => {
  sendError(
    response,
    new RequestError('not_found', `there is no endpoint at ${sentPath(request)}`, { status: 404 }),
  )
}

/** Express recognizes an error handler by its four parameters. */
export const errorHandler: ErrorRequestHandler = (error: unknown, request, response, _next) => {
  const { id, log } = requestLocals(response).state
  const refusal = toRequestError(error, request, id)
  drain(request)
  // A 503 comes from a stop or from overload. Nothing is broken, so it isn't logged as an error.
  const isExpected =
    error instanceof FolderUnavailable ||
    error instanceof BusyError ||
    error instanceof Stopping ||
    (error instanceof RequestError && error.status === 503)
  if (refusal.code === 'internal_error') {
    const said = 'a request could not be answered'
    if (isExpected) log.info({ reason: errorMessage(error) }, said)
    else log.error({ err: error }, said)
  }
  // A reply that has begun can't be replaced. Cutting the connection tells the client that it is incomplete.
  if (response.headersSent) response.destroy()
  else sendError(response, refusal)
}

export const folderRefusal =
  "the folder where uploads and the content of imports are kept can't be reached just now, and nothing was created or changed: send the request again later, or tell the operator"

/** Maps errors of the router and the database driver to the API's. Their own messages are not passed on. */
function toRequestError(error: unknown, request: Request, requestId: string): RequestError {
  if (error instanceof RequestError) return error
  if (error instanceof BusyError) return unavailable(error.message, error.retryAfter, error)
  if (error instanceof FolderUnavailable) return unavailable(folderRefusal, 30, error)
  if (error instanceof Stopping) return unavailable(error.message, 1, error)
  const status = isHash(error) ? error['status'] : undefined
  if (error instanceof URIError || status === 400)
    return new RequestError(
      'not_found',
      `${sentPath(request)} is no valid path of a URL: its %-escapes must be UTF-8`,
      { status: 404 },
    )
  if (isDocumentTooLarge(error))
    return new RequestError(
      'validation_failed',
      'the record would be larger than 16 MB, the maximum of the database, with what other requests wrote to it at the same time: make it smaller',
    )
  if (isCommitUnknown(error))
    return unavailable(
      `the database has not confirmed a change, so the request may be done: look before you send it again (request ${requestId})`,
      5,
      error,
    )
  if (driverRetryReason(error) !== null || isCursorLost(error))
    return unavailable(`the database can't be reached just now, try again (request ${requestId})`, 5, error)
  return new RequestError('internal_error', internalErrorMessage(requestId), { status: 500 })
}

/** The same request may succeed after `retryAfter` seconds. */
const unavailable = (message: string, retryAfter: number, cause: unknown): RequestError =>
  new RequestError('internal_error', message, { status: 503, retryAfter, cause })

export const internalErrorMessage = (requestId: string): string =>
  `Internal Server Error: the request is not the cause; the log has the details under request ${requestId}`
