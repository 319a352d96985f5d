import { STATUS_CODES } from 'node:http'
import type { ErrorRequestHandler, RequestHandler, Response } from 'express'
import { retryReasonOfDriver } from '../../shared/runtime/database.ts'
import { RequestError } from '../../shared/contract/errors.ts'
import { FolderUnavailable } from '../../shared/storage/staging/marked-folder.ts'
import { isDocumentTooLarge } from '../../shared/store/value-bytes.ts'
import { drain } from './body/body-pieces.ts'
import type { DataReply } from './endpoint.ts'
import { JsonRecords, largeBytes } from './json-page.ts'
import { nextPiece, pieceBytes, writePieces } from './pieces.ts'
import { localsOf } from './request-locals.ts'

/** The one shape of every JSON reply, and the one place where errors become replies. */

/** A large reply waits for its turn. Throws what `beginLarge` does. */
export async function sendData(
  response: Response,
  { data, paging }: DataReply,
  beginLarge: (bytes: number) => Promise<void>,
): Promise<void> {
  const rest = JSON.stringify({ error_code: null, error_message: null, ...paging }).slice(1)
  const texts = [
    '{"success":true,"data":',
    ...(data instanceof JsonRecords ? data.jsonTexts() : [jsonOf(data)]),
    `,${rest}`,
  ]
  const length = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  response.type('application/json')
  if (length <= largeBytes) response.send(Buffer.from(texts.join('')))
  else {
    await beginLarge(length)
    response.set('Content-Length', String(length))
    await writePieces(response, piecesOf(texts))
  }
}

/** The texts as bytes, in pieces; a text that is larger alone is cut. */
async function* piecesOf(texts: readonly string[]): AsyncIterable<Buffer> {
  let next: string[] = []
  let length = 0
  for (const text of texts) {
    next.push(text)
    length += text.length
    if (length < pieceBytes) continue
    yield* cut(Buffer.from(next.join('')))
    ;[next, length] = [[], 0]
  }
  if (next.length > 0) yield Buffer.from(next.join(''))
}

async function* cut(bytes: Buffer): AsyncIterable<Buffer> {
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    yield bytes.subarray(start, start + pieceBytes)
    await nextPiece()
  }
}

/** Data that requests share (single-flight.ts) are written as JSON once for all of them. */
const known = new WeakMap<object, string>()

function jsonOf(data: unknown): string {
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
  const isExpected =
    error instanceof FolderUnavailable || (error instanceof RequestError && error.status === 503)
  if (refusal.code === 'internal_error')
    log[isExpected ? 'info' : 'error']({ err: error }, 'a request could not be answered')
  // A reply that has begun can't be mended; a cut connection tells the client that it isn't whole.
  if (response.headersSent) response.destroy()
  else sendError(response, refusal)
}

export const folderRefusal =
  "the folder where uploads and the content of imports are kept can't be reached just now, and nothing was created or changed: send the request again later, or tell the operator"

/** What the router and the driver throw, said in the API's words. Nothing of theirs is passed on. */
function toRequestError(error: unknown, requestId: string): RequestError {
  if (error instanceof RequestError) return error
  if (error instanceof FolderUnavailable)
    return new RequestError('internal_error', folderRefusal, {
      status: 503,
      headers: { 'Retry-After': '30' },
      cause: error,
    })
  const { status } = error as { status?: number }
  if (error instanceof URIError || status === 400)
    return new RequestError('not_found', 'the path is no valid URL path', { status: 404 })
  if (isDocumentTooLarge(error))
    return new RequestError(
      'validation_failed',
      'the record would have more than the 16 MB that the database takes for one, with what others wrote to it at the same moment: make it smaller',
    )
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
