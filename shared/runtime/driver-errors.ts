import {
  MongoBulkWriteError,
  MongoError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
} from 'mongodb'

/**
 * `RetryableError` comes from newer servers that are overloaded and haven't executed the command. The result of a commit
 * is unknown where the other members lag.
 */
const transientLabels = [
  'TransientTransactionError',
  'UnknownTransactionCommitResult',
  'RetryableWriteError',
  'RetryableError',
]

/**
 * Errors of reads that a member refuses because it stops or the primary changes. They have no label. The driver repeats
 * such a read once, and throws the second refusal. Source: MongoDB's specification of retryable reads.
 */
const transientReadCodes = new Set<unknown>([
  6, // HostUnreachable
  7, // HostNotFound
  89, // NetworkTimeout
  91, // ShutdownInProgress
  134, // ReadConcernMajorityNotAvailableYet
  189, // PrimarySteppedDown
  262, // ExceededTimeLimit
  9_001, // SocketException
  10_107, // NotWritablePrimary
  11_600, // InterruptedAtShutdown
  11_602, // InterruptedDueToReplStateChange
  13_435, // NotPrimaryNoSecondaryOk
  13_436, // NotPrimaryOrSecondary
])

/** Errors of a member that has left the replica set. The package doesn't export the class of the first. */
const closedNames = new Set(['MongoPoolClosedError', 'MongoServerClosedError'])

/** The error of a bulk write or of `insertMany` that is not about its documents is wrapped by the driver. */
function unwrap(error: unknown): unknown {
  if (!(error instanceof MongoBulkWriteError)) return error
  const { errorResponse } = error as { errorResponse: unknown }
  return errorResponse instanceof Error ? errorResponse : error
}

/** Whether the connection failed while a command was in progress, which the server may still execute. */
export const isNetworkError = (error: unknown): boolean => unwrap(error) instanceof MongoNetworkError

/** Why an operation that the driver gave up may succeed later; null when it would not. */
export function driverRetryReason(thrown: unknown): 'network' | 'transient' | null {
  const error = unwrap(thrown)
  if (!(error instanceof MongoError)) return null
  const isNetwork = error instanceof MongoNetworkError || error instanceof MongoServerSelectionError
  if (isNetwork || closedNames.has(error.name)) return 'network'
  if (transientLabels.some((label) => error.hasErrorLabel(label))) return 'transient'
  return transientReadCodes.has(error.code) ? 'transient' : null
}

/**
 * Whether a command exceeded the socket timeout, its `maxTimeMS` or a limit of the server's own (262); the same command
 * would take as long again. False for a connection that couldn't be opened in time, because no command was sent.
 */
export function isCommandTimeout(thrown: unknown): boolean {
  const error = unwrap(thrown)
  if (!(error instanceof MongoNetworkTimeoutError)) return isMaxTimeExpired(error) || hasCode(error, 262)
  return !openingLabels.some((label) => error.hasErrorLabel(label))
}

/** The driver's labels of errors during the opening of a connection. */
const openingLabels = ['HandshakeError', 'SystemOverloadedError']

const hasCode = (error: unknown, code: number): boolean =>
  error instanceof MongoServerError && error.code === code

export const isMaxTimeExpired = (error: unknown): boolean => hasCode(error, 50)

/** Whether a commit may have taken effect although it failed. */
export const isCommitUnknown = (error: unknown): boolean =>
  error instanceof MongoError && error.hasErrorLabel('UnknownTransactionCommitResult')

/** Whether a transaction was aborted, as by a write conflict, and may succeed when it is run again. */
export const isAbortedTransaction = (error: unknown): boolean =>
  error instanceof MongoError && error.hasErrorLabel('TransientTransactionError')

/** Whether a member no longer has the cursor, because it was restarted. A read that begins anew succeeds. */
export const isCursorLost = (error: unknown): boolean => hasCode(error, 43)

/** Whether a unique index, that of `_id` or another one, already has the written value. */
export const isDuplicateKey = (error: unknown): boolean => hasCode(error, 11_000)

/** Whether another transaction wrote the same documents. */
export const isWriteConflict = (error: unknown): boolean => hasCode(error, 112)
