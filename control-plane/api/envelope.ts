import { STATUS_CODES } from 'node:http'
import type { ErrorRequestHandler, RequestHandler, Response } from 'express'
import { retryReasonOfDriver } from '../../shared/database.ts'
import { RequestError } from '../../shared/errors.ts'
import { drain } from './body/body-pieces.ts'
import type { Paging, TokenPaging, WholePaging } from './endpoint.ts'
import { JsonRecords } from './json-page.ts'
import { writePieces } from './pieces.ts'
import { localsOf } from './request-locals.ts'

/** The one shape of every JSON reply, and the one place where errors become replies. */

/** Larger replies are written in pieces as the client takes them. */
const maxPieceBytes = 256 * 1024

export async function sendData(
  response: Response,
  data: unknown,
  paging?: Paging | TokenPaging | WholePaging,
): Promise<void> {
  const rest = JSON.stringify({ error_code: null, error_message: null, ...paging }).slice(1)
  const body = Buffer.from(`{"success":true,"data":${jsonOf(data)},${rest}`)
  response.type('application/json')
  if (body.length <= maxPieceBytes) response.send(body)
  else {
    response.set('Content-Length', String(body.length))
    await writePieces(response, piecesOf(body))
  }
}

function* piecesOf(body: Buffer): Iterable<Buffer> {
  for (let start = 0; start < body.length; start += maxPieceBytes)
    yield body.subarray(start, start + maxPieceBytes)
}

/** Data that requests share (shared-read.ts) are written as JSON once for all of them. */
const known = new WeakMap<object, string>()

function jsonOf(data: unknown): string {
  if (data instanceof JsonRecords) return `[${data.texts.join(',')}]`
  if (typeof data !== 'object' || data === null) return JSON.stringify(data ?? null)
  let text = known.get(data)
  if (text === undefined) known.set(data, (text = JSON.stringify(data)))
  return text
}

function sendError(response: Response, error: RequestError): void {
  localsOf(response).state.errorCode = error.code
  response.status(error.status).set(error.headers)
  response.json({ success: false, data: null, error_code: error.code, error_message: error.message })
}

export const notAnEndpoint: RequestHandler = (request, response) => {
  sendError(
    response,
    new RequestError('not_found', `there is no endpoint at ${request.path}`, { status: 404 }),
  )
}

/** Express knows an error handler by its four parameters. */
export const errorHandler: ErrorRequestHandler = (error: unknown, request, response, _next) => {
  const { id, log } = localsOf(response).state
  const refusal = toRequestError(error, id)
  drain(request)
  // Of a stop, or of many who want the same at once: nothing is broken.
  const isExpected = error instanceof RequestError && error.status === 503
  if (refusal.code === 'internal_error')
    log[isExpected ? 'info' : 'error']({ err: error }, 'a request could not be answered')
  // A reply that has begun can't be mended; a cut connection tells the client that it isn't whole.
  if (response.headersSent) response.destroy()
  else sendError(response, refusal)
}

/** What the router and the driver throw, said in the API's words. Nothing of theirs is passed on. */
function toRequestError(error: unknown, requestId: string): RequestError {
  if (error instanceof RequestError) return error
  const { status } = error as { status?: number }
  if (error instanceof URIError || status === 400)
    return new RequestError('not_found', 'the path is no valid URL path', { status: 404 })
  if (retryReasonOfDriver(error) !== null) {
    return new RequestError(
      'internal_error',
      `the database can't be reached just now, try again (request ${requestId})`,
      { status: 503, headers: { 'Retry-After': '5' } },
    )
  }
  return new RequestError(
    'internal_error',
    `${STATUS_CODES[500]!}: nothing that you sent explains it; the log has more under request ${requestId}`,
    { status: 500 },
  )
}
