import type { ClientSession, Filter, UpdateFilter } from 'mongodb'
import { workingStates, type ImportState } from '../contract/import-state.ts'
import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'
import type { ImportDocument } from '../contract/schemas/import.ts'
import { releaseMs, type Claim } from './chunks.ts'

/**
 * Steps of an import, obtaining, splitting and finishing: each is done by one engine at a time, under a token that is in
 * the filter of all that its holder writes.
 */

/**
 * The import with its step taken; null when another engine has it, the import moved on, or the time of its next step,
 * or of its next try of a download, hasn't come.
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
      step: null,
      settled: false,
      // $max passes over what is null or absent.
      $expr: { $lte: [{ $max: ['$begins_at', '$step_not_before', '$download.next_attempt_at'] }, '$$NOW'] },
    },
    [{ $set: { step: { engine_id: claim.engineId, token: claim.token, moved_at: '$$NOW' } } }],
    { returnDocument: 'after' },
  )
}

/** By the step's holder, when something of it has moved since the last stamp. */
export async function stampStep(
  collections: Collections,
  step: { id: number; token: string },
): Promise<void> {
  await collections.imports.updateOne({ _id: step.id, 'step.token': step.token }, [
    { $set: { 'step.moved_at': '$$NOW' } },
  ])
}

/** What a failed import has, in a pipeline. */
export const failedWith = (message: string) => ({
  state: 'failed' as const,
  finished_at: '$$NOW',
  error_message: { $literal: message },
})

const isWorking = (state: ImportState) => (workingStates as readonly ImportState[]).includes(state)

export interface StalledStep {
  importId: number
  engineId: string
  /** What the step worked in; an ended import may have one that nobody gave back. */
  state: ImportState
  /** Since its last stamp. */
  seconds: number
  /** The import failed with it: it was the last try. */
  isLast: boolean
}

/**
 * Takes steps of which nothing has moved for `stalledMs` from their holders, for others to try again. The `maxFailures`-th
 * failure of a step fails its import, with the message.
 */
export async function takeOverStalledSteps(
  collections: Collections,
  bounds: { stalledMs: number; maxFailures: number; message: (state: ImportState) => string },
): Promise<StalledStep[]> {
  const isStalled: Filter<ImportDocument> = {
    settled: false,
    // Absent it would compare as less than any time.
    'step.moved_at': { $type: 'date' },
    $expr: { $lt: ['$step.moved_at', { $subtract: ['$$NOW', bounds.stalledMs] }] },
  }
  const stalled = await collections.imports
    .aggregate<Pick<ImportDocument, '_id' | 'state' | 'step' | 'step_failures'> & { seconds: number }>(
      [
        { $match: isStalled },
        {
          $project: {
            ...{ state: 1, step: 1, step_failures: 1 },
            seconds: { $divide: [{ $subtract: ['$$NOW', '$step.moved_at'] }, 1000] },
          },
        },
      ],
      { hint: notFinalizedIndex },
    )
    .toArray()
  const takenOver: StalledStep[] = []
  for (const { _id, state, step, step_failures: failures, seconds } of stalled) {
    const isLast = isWorking(state) && failures + 1 >= bounds.maxFailures
    const { modifiedCount } = await collections.imports.updateOne(
      { ...isStalled, _id, state, 'step.token': step!.token },
      [
        {
          $set: {
            step: null,
            step_failures: failures + 1,
            ...(isLast ? failedWith(bounds.message(state)) : {}),
          },
        },
      ],
    )
    if (modifiedCount === 1)
      takenOver.push({ importId: _id, engineId: step!.engine_id, state, seconds, isLast })
  }
  return takenOver
}

/** By the step's holder; nothing when it isn't held under that token any more. */
export async function releaseStep(collections: Collections, id: number, token: string): Promise<void> {
  await collections.imports.updateOne({ _id: id, 'step.token': token }, { $set: { step: null } })
}

/** Gives back whatever step an engine holds under a token, if any. */
export async function releaseStepUnder(collections: Collections, claim: Claim): Promise<void> {
  await collections.imports.updateOne(
    { settled: false, 'step.engine_id': claim.engineId, 'step.token': claim.token },
    { $set: { step: null } },
    { hint: notFinalizedIndex },
  )
}

/** Gives back the steps of an engine that stopped, or died, perhaps of one of them; resolves to how many. */
export async function releaseStepsOf(
  collections: Collections,
  engineId: string,
  { died }: { died: boolean },
): Promise<number> {
  const { modifiedCount } = await collections.imports.updateMany(
    { settled: false, 'step.engine_id': engineId },
    { $set: { step: null }, ...(died ? { $inc: { step_deaths: 1 } } : {}) },
    { hint: notFinalizedIndex, maxTimeMS: releaseMs },
  )
  return modifiedCount
}

/** The imports of which an engine holds the step. */
export async function importsOfStepsLeasedBy({ imports }: Collections, engineId: string): Promise<number[]> {
  const found = await imports
    .find({ settled: false, 'step.engine_id': engineId }, { projection: { _id: 1 } })
    .hint(notFinalizedIndex)
    .toArray()
  return found.map(({ _id }) => _id)
}

/** The engines that hold steps. */
export async function holdersOfSteps(collections: Collections): Promise<string[]> {
  const found = await collections.imports
    .find({ settled: false, step: { $ne: null } }, { projection: { 'step.engine_id': 1 } })
    .hint(notFinalizedIndex)
    .toArray()
  return found.map(({ step }) => step!.engine_id)
}

/** A write by the holder of a step while the import is in the state that the step works in. False: not ours any more. */
export async function writeInStep(
  collections: Collections,
  step: { id: number; token: string; state: ImportState },
  update: UpdateFilter<ImportDocument> | Record<string, unknown>[],
  session?: ClientSession,
): Promise<boolean> {
  const { matchedCount } = await collections.imports.updateOne(
    { _id: step.id, state: step.state, 'step.token': step.token },
    update,
    session === undefined ? {} : { session },
  )
  return matchedCount === 1
}

/**
 * The holder begins a try of a download; the time for all of them, `totalMs`, runs from the first one on. Resolves to
 * when it is over, null when the import is no longer the holder's.
 */
export async function beginTry(
  collections: Collections,
  step: { id: number; token: string },
  totalMs: number,
): Promise<Date | null> {
  const begun = await collections.imports.findOneAndUpdate(
    { _id: step.id, state: 'downloading', 'step.token': step.token },
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
 * The holder's try of a download failed, the `attempts`-th one to do so, and is followed by another after `waitMs`, by
 * the database's clock; also by an engine of tomorrow. Written twice it counts once.
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
      'step.token': step.token,
      'download.attempts': attempts - 1,
    },
    [{ $set: { 'download.attempts': attempts, 'download.next_attempt_at': { $add: ['$$NOW', waitMs] } } }],
  )
}

/** The holder's step broke off and is taken again after `waitMs`, by the database's clock. */
export async function postponeStep(
  collections: Collections,
  step: { id: number; token: string },
  { failures, waitMs }: { failures: number; waitMs: number },
): Promise<void> {
  await collections.imports.updateOne({ _id: step.id, 'step.token': step.token }, [
    { $set: { step_failures: failures, step_not_before: { $add: ['$$NOW', waitMs] } } },
  ])
}

/** The holder's step has to wait for others, by the database's clock; that is no failure. The warning is said once. */
export async function delayStep(
  collections: Collections,
  step: { id: number; token: string },
  { waitMs, warning }: { waitMs: number; warning?: string },
): Promise<void> {
  await collections.imports.updateOne({ _id: step.id, 'step.token': step.token }, [
    {
      $set: {
        step_not_before: { $add: ['$$NOW', waitMs] },
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

/**
 * The holder's step found the upload still being written and is taken again after a while. False when it has been
 * waited for as long as it is, or the step isn't held any more.
 */
export async function waitForUpload(
  collections: Collections,
  step: { id: number; token: string },
  wait: { fingerprint: string; recheckDelayMs: number; longestWaitMinutes: number; filename: string },
): Promise<boolean> {
  const since = { $ifNull: ['$upload.waiting.since', '$$NOW'] }
  const warning = `${wait.filename} was still being written when the import began: it is taken when it has stopped changing`
  const { matchedCount } = await collections.imports.updateOne(
    {
      _id: step.id,
      'step.token': step.token,
      $expr: { $gte: [{ $add: [since, wait.longestWaitMinutes * 60_000] }, '$$NOW'] },
    },
    [
      {
        $set: {
          // Whole: there is none yet when the file couldn't be kept at the start.
          upload: {
            pin: { $ifNull: ['$upload.pin', null] },
            waiting: { since, fingerprint: { $literal: wait.fingerprint } },
          },
          step_not_before: { $add: ['$$NOW', wait.recheckDelayMs] },
          warnings: withWarning(warning),
        },
      },
    ],
  )
  return matchedCount === 1
}
