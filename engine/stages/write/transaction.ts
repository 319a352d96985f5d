import { setTimeout as sleep } from 'node:timers/promises'
import { MongoError, type ClientSession } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import { isDuplicateKey, isWriteConflict, retryReasonOfDriver } from '../../../shared/runtime/database.ts'

/**
 * A transaction of who holds a chunk (a batch, or the places it is to have) or finishes an import (a deactivation).
 * Whoever writes the same rows at the same moment makes it fail; then all of it is done again on a fresh snapshot. What
 * the database forgot about a commit is asked again, never guessed: a second commit of the same transaction is answered
 * with what became of the first.
 */

export interface TransactionOptions {
  session: ClientSession
  /** Does the reads and writes; called again for every attempt. */
  attempt: () => Promise<void>
  /** Asked before every further attempt: no more when it is true. */
  isStopped: () => boolean
  /** Milliseconds after which no further attempt begins; the lease must not run out under a commit. */
  timeoutMs: number
  onRetry: (reason: RetryReason) => void
  /** Attempts that may fail because others write the same rows; then it throws TooManyConflicts. */
  maxConflictRetries?: number
}

/** Why an attempt, or a commit of one, was repeated. */
export const retryReasons = [
  'write_conflict',
  'duplicate_key',
  'network',
  'transient',
  'commit_unknown',
] as const
export type RetryReason = (typeof retryReasons)[number]

/** Thrown by an attempt to end the transaction without another try. */
export class BatchAbandoned extends Error {}

/** Thrown when attempt after attempt met somebody who writes the same rows: a smaller batch meets fewer. */
export class TooManyConflicts extends Error {}

const firstPauseMs = 4
const longestPauseMs = 500
/** Times that a key may have been taken by somebody since the attempt looked. */
const maxDuplicateKeyRetries = 20

/**
 * Resolves to true when it is committed, to false when it was given up by `isStopped` or a BatchAbandoned. Throws
 * TooManyConflicts, and what the database said last when `timeoutMs` is over.
 */
export async function runTransaction(options: TransactionOptions): Promise<boolean> {
  const { session } = options
  const deadline = clock.monotonicMs() + options.timeoutMs
  let conflicts = 0
  let keysTaken = 0
  for (let tries = 0; ; tries += 1) {
    try {
      session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } })
      await options.attempt()
      await commit(session, deadline, options.onRetry)
      return true
    } catch (error) {
      await session.abortTransaction().catch(() => undefined)
      if (error instanceof BatchAbandoned) return false
      const reason = retryReason(error)
      if (reason === null || clock.monotonicMs() > deadline) throw error
      options.onRetry(reason)
      if (reason === 'write_conflict') conflicts += 1
      if (reason === 'duplicate_key' && (keysTaken += 1) > maxDuplicateKeyRetries) throw error
      if (conflicts > (options.maxConflictRetries ?? Infinity)) throw new TooManyConflicts()
      await sleep(pauseMs(tries))
      if (options.isStopped()) return false
    }
  }
}

async function commit(
  session: ClientSession,
  deadline: number,
  onRetry: (reason: RetryReason) => void,
): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      await session.commitTransaction()
      return
    } catch (error) {
      const isUnknown = error instanceof MongoError && error.hasErrorLabel('UnknownTransactionCommitResult')
      if (!isUnknown || clock.monotonicMs() > deadline) throw error
      onRetry('commit_unknown')
      await sleep(pauseMs(tries))
    }
  }
}

/** Why another attempt may go well; null when it would not. */
export function retryReason(error: unknown): RetryReason | null {
  if (isWriteConflict(error)) return 'write_conflict'
  if (isDuplicateKey(error)) return 'duplicate_key'
  return retryReasonOfDriver(error)
}

function pauseMs(tries: number): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** tries) * (0.5 + Math.random())
}
