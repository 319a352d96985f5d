import type { Request } from 'express'

export const requestErrorCodes = [
  'validation_failed',
  'invalid_request',
  'requested_too_many',
  'not_found',
  'multiple_records_found',
  'not_authorized',
  'internal_error',
] as const
export type RequestErrorCode = (typeof requestErrorCodes)[number]

/**
 * A request is refused. `code` is the API's error code, and `status` is the HTTP status, 200 by default. `retryAfter` is
 * the number of seconds after which to try again, for the header Retry-After.
 */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  readonly code: RequestErrorCode
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: RequestErrorCode,
    message: string,
    options: { status?: number; headers?: Record<string, string>; retryAfter?: number; cause?: unknown } = {},
  ) {
    const { status = 200, headers = {}, retryAfter, cause } = options
    super(message, { cause })
    this.code = code
    this.status = status
    this.headers = retryAfter === undefined ? headers : { ...headers, 'Retry-After': String(retryAfter) }
  }
}

/** The whole path of a request as it was sent, without its query, which may have secrets. */
export const sentPath = ({ originalUrl }: Pick<Request, 'originalUrl'>): string =>
  originalUrl.replace(/\?.*/s, '')

/** The refusal of a method at a path that has others. `allowed` is the value of the header `Allow`. */
export const methodRefusal = (request: Request, allowed: string): RequestError =>
  new RequestError(
    'invalid_request',
    `${request.method} is not possible at ${sentPath(request)}, only ${allowed}`,
    { status: 405, headers: { Allow: allowed } },
  )

/** For paths that only have GET, and HEAD by it: throws the refusal of other methods. */
export function requireRead(request: Request): void {
  if (request.method !== 'GET' && request.method !== 'HEAD') throw methodRefusal(request, 'GET, HEAD')
}
