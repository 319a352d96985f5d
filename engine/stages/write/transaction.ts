import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import {
  driverRetryReason,
  isCommitUnknown,
  isDuplicateKey,
  isWriteConflict,
} from '../../../shared/runtime/driver-errors.ts'

/**
 * Transactions under a lease: a batch of a chunk, its quota reservation, or a deactivation. A write conflict aborts all
 * of it, and the next attempt starts on a fresh snapshot. A commit with an unknown result is sent again, never guessed:
 * the database answers a second commit with the result of the first.
 */

interface TransactionOptions<Value, Reason> {
  session: ClientSession
  /** Does the reads and writes; called again for every attempt. An error that no retry mends is thrown on. */
  attempt: () => Promise<Attempt<Value, Reason>>
  /** Asked before every further attempt, which doesn't begin when it is true. */
  isStopped: () => boolean
  /** Milliseconds after which no further attempt begins: the lease must not run out during a commit. */
  timeoutMs: number
  onRetry?: (reason: RetryReason) => void
  /** The caller can cut the transaction into smaller ones, and does so at the end `conflicts`. */
  isDivisible?: boolean
}

/** What an attempt asks for: a commit, or an abort without another attempt. */
export type Attempt<Value, Reason = never> = { commit: Value } | { abort: Reason }

type TransactionEnd<Value, Reason = never> =
  | { end: 'committed'; value: Value }
  | { end: 'aborted'; reason: Reason }
  | { end: 'stopped' }
  /** A divisible transaction had too many write conflicts: a smaller one conflicts with fewer others. */
  | { end: 'conflicts' }

/** Why an attempt, or a commit of one, was repeated. */
export const retryReasons = [
  'write_conflict',
  'duplicate_key',
  'network',
  'transient',
  'commit_unknown',
] as const
export type RetryReason = (typeof retryReasons)[number]

const pauses = { firstMs: 4, maxMs: 500 }
/** Retries after write conflicts of a transaction that can be cut; another one has no limit but its timeout. */
export const maxConflictRetries = 2
/** Duplicate keys: each means that another writer inserted the key after the attempt's snapshot. */
export const maxDuplicateKeyRetries = 20

/** Throws what the database said last when `timeoutMs` is over, and what no retry mends. */
export async function runTransaction<Value, Reason = never>(
  options: TransactionOptions<Value, Reason>,
): Promise<TransactionEnd<Value, Reason>> {
  const { session, onRetry, isDivisible = false } = options
  const deadline = clock.monotonicMs() + options.timeoutMs
  let conflicts = 0
  let duplicateKeys = 0
  for (let tries = 0; ; tries += 1) {
    try {
      session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } })
      const result = await options.attempt()
      if ('abort' in result) {
        await abort(session)
        return { end: 'aborted', reason: result.abort }
      }
      await commit(session, deadline, onRetry)
      return { end: 'committed', value: result.commit }
    } catch (error) {
      await abort(session)
      const reason = retryReason(error)
      if (reason === null || clock.monotonicMs() > deadline) throw error
      onRetry?.(reason)
      if (reason === 'write_conflict') conflicts += 1
      if (reason === 'duplicate_key' && (duplicateKeys += 1) > maxDuplicateKeyRetries) throw error
      if (isDivisible && conflicts > maxConflictRetries) return { end: 'conflicts' }
      await sleep(retryDelayMs(tries, pauses))
      if (options.isStopped()) return { end: 'stopped' }
    }
  }
}

/** An abort that fails changes nothing: the next transaction of the session ends this one. */
const abort = (session: ClientSession): Promise<void> => session.abortTransaction().catch(() => undefined)

async function commit(
  session: ClientSession,
  deadline: number,
  onRetry?: (reason: RetryReason) => void,
): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      await session.commitTransaction()
      return
    } catch (error) {
      if (!isCommitUnknown(error) || clock.monotonicMs() > deadline) throw error
      onRetry?.('commit_unknown')
      await sleep(retryDelayMs(tries, pauses))
    }
  }
}

/** Why another attempt may succeed; null when none would. */
export function retryReason(error: unknown): RetryReason | null {
  if (isWriteConflict(error)) return 'write_conflict'
  if (isDuplicateKey(error)) return 'duplicate_key'
  return driverRetryReason(error)
}

/** Exponential backoff: `firstMs`, doubled for each of the earlier `tries` up to `maxMs`. Jitter makes it up to half more or less. */
export function retryDelayMs(tries: number, { firstMs, maxMs }: { firstMs: number; maxMs: number }): number {
  return Math.min(maxMs, firstMs * 2 ** tries) * (0.5 + Math.random())
}
