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

/** A request is refused. `code` is the API's error code, and `status` is the HTTP status, 200 by default. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  readonly code: RequestErrorCode
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: RequestErrorCode,
    message: string,
    options: { status?: number; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.status = options.status ?? 200
    this.headers = options.headers ?? {}
  }
}

/** The refusal of a method at a path that has others. `allowed` is the value of the header `Allow`. */
export const methodRefusal = (method: string, allowed: string): RequestError =>
  new RequestError('invalid_request', `${method} is not possible here, only ${allowed}`, {
    status: 405,
    headers: { Allow: allowed },
  })
