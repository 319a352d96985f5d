import {
  MongoBulkWriteError,
  MongoError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
} from 'mongodb'

/** `RetryableError` comes from newer servers that are overloaded and haven't executed the command. */
const transientLabels = ['TransientTransactionError', 'RetryableWriteError', 'RetryableError']

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
  9_001, // SocketException
  10_107, // NotWritablePrimary
  11_600, // InterruptedAtShutdown
  11_602, // InterruptedDueToReplStateChange
  13_435, // NotPrimaryNoSecondaryOk
  13_436, // NotPrimaryOrSecondary
])

/**
 * Whether the connection failed while a command was in progress, which the server may still execute. The driver throws
 * the error of a bulk write or of `insertMany` as a MongoBulkWriteError, which has only its own properties.
 */
export const isNetworkError = (error: unknown): boolean =>
  error instanceof MongoNetworkError || (error instanceof MongoBulkWriteError && 'beforeHandshake' in error)

/** Whether no primary was found in time. A bulk write's error is recognized as above. */
const isSelectionError = (error: unknown): boolean =>
  error instanceof MongoServerSelectionError || (error instanceof MongoBulkWriteError && 'reason' in error)

/** Why an operation that the driver gave up may succeed later; null when it would not. */
export function driverRetryReason(error: unknown): 'network' | 'transient' | null {
  if (isNetworkError(error) || isSelectionError(error)) return 'network'
  if (error instanceof MongoError && transientLabels.some((label) => error.hasErrorLabel(label)))
    return 'transient'
  if (error instanceof MongoServerError && transientReadCodes.has(error.code)) return 'transient'
  return null
}

/**
 * Whether a command exceeded the socket timeout or its `maxTimeMS`; the same command would take as long again. False
 * for a connection that couldn't be opened in time, because no command was sent.
 */
export function isCommandTimeout(error: unknown): boolean {
  if (!(error instanceof MongoNetworkTimeoutError)) return isMaxTimeExpired(error)
  return !openingLabels.some((label) => error.hasErrorLabel(label))
}

/** The driver's labels of errors during the opening of a connection. */
const openingLabels = ['HandshakeError', 'SystemOverloadedError']

export const isMaxTimeExpired = (error: unknown): boolean =>
  error instanceof MongoServerError && error.code === 50

/** Whether a unique index, that of `_id` or another one, already has the written value. */
export function isDuplicateKey(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === 11000
}

/** Whether another transaction wrote the same documents. */
export function isWriteConflict(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === 112
}
