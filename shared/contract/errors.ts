/** The errors that cross a room's border. Everything else that is thrown is a defect. */
abstract class RollcallError extends Error {
  abstract readonly code: string
}

export const importErrorCodes = [
  'source_missing',
  'source_refused',
  'source_unreadable',
  'source_unavailable',
  'content_refused',
  'staging_full',
  'quota_exceeded',
  'plan_invalid',
  'chunk_damaged',
  'audit_mismatch',
  'nothing_valid',
  'secrets_unreadable',
] as const
export type ImportErrorCode = (typeof importErrorCodes)[number]

/**
 * An import can't go on as it is. `retryable` says whether the same step may succeed later; `isMissing` that a file is
 * gone for this process, which another one may see.
 */
export class ImportError extends RollcallError {
  override readonly name = 'ImportError'
  readonly code: ImportErrorCode
  readonly retryable: boolean
  readonly isMissing: boolean

  constructor(
    code: ImportErrorCode,
    message: string,
    options: { retryable?: boolean; isMissing?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? false
    this.isMissing = options.isMissing ?? false
  }
}

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

/** A request is refused; the code is one of the API's, the status is its HTTP status, 200 unless told. */
export class RequestError extends RollcallError {
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

/**
 * A process can't start; the message is the whole story, a stack would only hide it. `isLogged` says that a child
 * process has logged the reason, so that it isn't logged twice.
 */
export class StartError extends RollcallError {
  override readonly name = 'StartError'
  readonly code = 'start_failed'
  readonly isLogged: boolean

  constructor(message: string, options: { isLogged?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.isLogged = options.isLogged ?? false
  }
}

/** What an unknown thrown value says, in one line; what the database's driver says, without data. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // The lookbehind keeps it linear: a run of blanks is gone through from its beginning alone.
  const line = error.message.replaceAll(/(?<!\s)\s*\n\s*/g, ' ')
  // By its name: the command line, which uses this too, doesn't load the driver.
  if (line !== '') return error.name.startsWith('Mongo') ? withoutData(line) : line
  // Node's AggregateError (a host name with several addresses) has its texts inside.
  const inner = error instanceof AggregateError ? (error.errors as unknown[]).map(messageOf).join('; ') : ''
  return inner === '' ? error.name : inner
}

/**
 * Messages of the database quote the very record that they are about (a duplicate key, a document that is too large), so
 * addresses and keys are taken out. The lookbehind keeps it linear: what may be an address is gone through from its
 * beginning alone.
 */
export const withoutData = (text: string): string =>
  text
    .replaceAll(/(dup key|First element): .*/g, '$1: ...')
    .replaceAll(/(?<![^\s"'<>()[\]{}:,;/])[^\s"'<>()[\]{}:,;/]+@[^\s"'<>()[\]{}:,;]+/g, '...@...')
