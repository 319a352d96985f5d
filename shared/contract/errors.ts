/**
 * The errors of imports, of busy records and of starts, which many parts throw. The class of another expected error is
 * beside the code that throws it.
 */

export const importErrorCodes = [
  'source_missing',
  'source_refused',
  'source_unreadable',
  'source_unavailable',
  'content_refused',
  'quota_exceeded',
  'plan_invalid',
  'chunk_damaged',
  'audit_mismatch',
  'nothing_valid',
  'secrets_unreadable',
] as const
export type ImportErrorCode = (typeof importErrorCodes)[number]

/**
 * An import can't continue as it is. `retryable`: the same step may succeed later. `isMissing`: a staged file
 * isn't found, although the folder has the mark of the installation. `isNoTable`: no setting makes a table of the file.
 */
export class ImportError extends Error {
  override readonly name = 'ImportError'
  readonly code: ImportErrorCode
  readonly retryable: boolean
  readonly isMissing: boolean
  readonly isNoTable: boolean

  constructor(
    code: ImportErrorCode,
    message: string,
    options: { retryable?: boolean; isMissing?: boolean; isNoTable?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? false
    this.isMissing = options.isMissing ?? false
    this.isNoTable = options.isNoTable ?? false
  }
}

/** Other work has what a request or an upload needs for longer than clients wait. The same may succeed later. */
export class BusyError extends Error {
  override readonly name = 'BusyError'
  readonly code = 'busy'
  /** Seconds after which another try makes sense. */
  readonly retryAfter: number

  constructor(message: string, options: { retryAfter: number; cause?: unknown }) {
    super(message, { cause: options.cause })
    this.retryAfter = options.retryAfter
  }
}

/**
 * A process can't start. Only the message is logged, because a stack would hide the cause. `isLogged`: a child process
 * has already logged the reason.
 */
export class StartError extends Error {
  override readonly name = 'StartError'
  readonly code = 'start_failed'
  readonly isLogged: boolean

  constructor(message: string, options: { isLogged?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.isLogged = options.isLogged ?? false
  }
}

/** The message of any thrown value, in one line. Data in messages of the MongoDB driver is left out. */
export function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // The lookbehind keeps the time linear: a run of blanks is searched only from its beginning.
  const line = error.message.replaceAll(/(?<!\s)\s*\n\s*/g, ' ')
  // `instanceof` would need the driver, which the command line doesn't load.
  if (line !== '') return error.name.startsWith('Mongo') ? withoutData(line) : line
  // Node's AggregateError, for a host name with several addresses, has no message of its own.
  const inner = error instanceof AggregateError ? error.errors.map(errorMessage).join('; ') : ''
  return inner === '' ? error.name : inner
}

/** The `code` of a caught error, as the system, TLS and undici set it (`ENOENT`); empty where it has no such text. */
export function errorCode(error: unknown): string {
  const hasCode = typeof error === 'object' && error !== null && 'code' in error
  return hasCode && typeof error.code === 'string' ? error.code : ''
}

/** Wraps a caught value that is no Error, for callers that need one. */
export const toError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown))

/**
 * Removes email addresses and keys from a message of the database. Such messages quote the record with the error, for
 * example a duplicate key. The lookbehind keeps the time linear: a possible address is searched only from its
 * beginning.
 */
export const withoutData = (text: string): string =>
  text
    .replaceAll(/(dup key|First element): .*/g, '$1: ...')
    .replaceAll(/(?<![^\s"'<>()[\]{}:,;/])[^\s"'<>()[\]{}:,;/]+@[^\s"'<>()[\]{}:,;]+/g, '...@...')
