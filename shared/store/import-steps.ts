import type { ClientSession, UpdateFilter } from 'mongodb'
import type { ImportState } from '../contract/import-state.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { ImportDocument } from '../contract/schemas/import.ts'
import { claimedBy, noHolder, type Claim } from './work-leases.ts'

/**
 * Steps of an import: obtaining, splitting and finishing. One engine at a time has the lease of a step. All its
 * writes filter by the token of that lease.
 */

/**
 * Claims the step of an import, and resolves to the import. Null when another engine has it, the import is in another
 * state, or the next step or download attempt isn't due yet.
 */
export function claimStep(
  collections: Collections,
  id: number,
  state: ImportState,
  claim: Claim,
): Promise<ImportDocument | null> {
  return collections.imports.findOneAndUpdate(
    {
      _id: id,
      state,
      'lease.token': null,
      finalized: false,
      ...stepIsDue,
    },
    [{ $set: claimedBy(claim, null) }],
    { returnDocument: 'after' },
  )
}

/** When an import's next step, or next attempt of one, may begin. $max ignores null and absent fields. */
export const stepDueAt = { $max: ['$begins_at', '$lease.not_before', '$download.next_attempt_at'] }

/** Matches imports whose next step, or next attempt of one, may begin now. */
export const stepIsDue = { $expr: { $lte: [stepDueAt, '$$NOW'] } }

/** Fields of a failed import, for an update pipeline. */
export const failedWith = (message: string) => ({
  state: 'failed' as const,
  finished_at: '$$NOW',
  error_message: { $literal: message },
})

/** Releases a step; changes nothing when the token's lease is lost. */
export async function releaseStep(collections: Collections, id: number, token: string): Promise<void> {
  await collections.imports.updateOne({ _id: id, 'lease.token': token }, { $set: noHolder })
}

/** A write by the engine of a step, while the import is in the step's state. False when lease or state is lost. */
export async function writeInStep(
  collections: Collections,
  step: { id: number; token: string; state: ImportState },
  update: UpdateFilter<ImportDocument> | Record<string, unknown>[],
  session?: ClientSession,
): Promise<boolean> {
  const { matchedCount } = await collections.imports.updateOne(
    { _id: step.id, state: step.state, 'lease.token': step.token },
    update,
    session === undefined ? {} : { session },
  )
  return matchedCount === 1
}

/**
 * Begins an attempt to download. `totalMs` is the time for all attempts from the beginning of the first one. Resolves
 * to its end; null when the lease is lost.
 */
export async function beginAttempt(
  collections: Collections,
  step: { id: number; token: string },
  totalMs: number,
): Promise<Date | null> {
  const begun = await collections.imports.findOneAndUpdate(
    { _id: step.id, state: 'downloading', 'lease.token': step.token },
    [
      {
        $set: {
          'download.ends_at': { $ifNull: ['$download.ends_at', { $add: ['$$NOW', totalMs] }] },
          'download.next_attempt_at': null,
          'download.bytes_received': 0,
          'download.bytes_expected': null,
        },
      },
    ],
    { projection: { download: 1 }, returnDocument: 'after' },
  )
  return begun?.download.ends_at ?? null
}

/**
 * Records the `attempts`-th failed attempt of a download and schedules the next after `waitMs`, by the database's
 * clock. Any engine may make that one. Idempotent: written twice it counts once.
 */
export async function scheduleRetry(
  collections: Collections,
  step: { id: number; token: string },
  { attempts, waitMs }: { attempts: number; waitMs: number },
): Promise<void> {
  await collections.imports.updateOne(
    {
      _id: step.id,
      state: { $in: ['downloading', 'paused'] },
      'lease.token': step.token,
      'download.attempts': attempts - 1,
    },
    [{ $set: { 'download.attempts': attempts, 'download.next_attempt_at': { $add: ['$$NOW', waitMs] } } }],
  )
}

/** Records that the step broke off. It can be claimed again after `waitMs`, by the database's clock. */
export async function postponeStep(
  collections: Collections,
  step: { id: number; token: string },
  { failures, waitMs }: { failures: number; waitMs: number },
): Promise<void> {
  await collections.imports.updateOne({ _id: step.id, 'lease.token': step.token }, [
    { $set: { 'lease.tries': failures, 'lease.not_before': { $add: ['$$NOW', waitMs] } } },
  ])
}

/** Delays the step by the database's clock, without counting a failure. The import gets the warning once. */
export async function delayStep(
  collections: Collections,
  step: { id: number; token: string },
  { waitMs, warning }: { waitMs: number; warning?: string },
): Promise<void> {
  await collections.imports.updateOne({ _id: step.id, 'lease.token': step.token }, [
    {
      $set: {
        'lease.not_before': { $add: ['$$NOW', waitMs] },
        warnings: warning === undefined ? '$warnings' : withWarning(warning),
      },
    },
  ])
}

const withWarning = (warning: string) => ({
  $cond: [
    { $in: [{ $literal: warning }, '$warnings'] },
    '$warnings',
    { $concatArrays: ['$warnings', [{ $literal: warning }]] },
  ],
})
