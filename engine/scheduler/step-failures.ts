import { isCommandTimeout, retryReasonOfDriver } from '../../shared/runtime/database.ts'
import { ImportError, messageOf } from '../../shared/contract/errors.ts'
import type { ImportState } from '../../shared/contract/import-state.ts'
import { DiskReserveReached } from '../../shared/storage/staging/disk-reserve.ts'
import { FolderUnavailable } from '../../shared/storage/staging/marked-folder.ts'
import { isStagingFull } from '../../shared/storage/staging/staging.ts'
import { delayStep, postponeStep, scheduleRetry, waitForUpload } from '../../shared/store/import-steps.ts'
import { failImport } from '../../shared/store/imports.ts'
import { findingOf, recheckDelayMs, noteMissingOfStep, type MissingOutcome } from '../store/missing-files.ts'
import type { FailureReason } from '../metrics.ts'
import { deathsMessage } from './quarantine.ts'
import { QuotaTaken, StillWritten } from '../stages/obtain/source.ts'
import { downloadTimeLeft, type StepRun } from './step.ts'

/** What becomes of an import whose step broke off: it is taken again, now or after a stored wait, or the import fails. */

/** Of a step for a reason that nobody foresaw, or at a timeout. */
export const maxStepFailures = 5
/** Between two looks at a file that is still being written, and how long it is looked at. */
const uploadRecheckDelayMs = 3_000
const longestWaitMinutes = 15
/** Until a step that found no space is taken again. */
const spaceWaitMs = 10_000
const quotaWaitMs = 2_000
const waitsForQuota =
  "the import had to wait: the files of the organization's other imports took its quota (UPLOAD_MAX_MB)"

/**
 * `error` is whatever the step threw. What this engine's folder is to blame for is none of the import's failures, and a
 * missing file is one when another engine misses it too. Any other ImportError fails the import, unless a later try of
 * its download may go well or its file is still being written; so does a staging without space. A database that is away
 * is only logged, and the step taken again at once; anything else has a few tries, also a command that took too long, as
 * the next may take as long. Throws the database's errors.
 */
export async function endInFailure(error: unknown, run: StepRun): Promise<void> {
  if (await isOfFolder(error, run)) {
    run.log.warn(`the step is left to other engines, as DATA_DIR isn't available here: ${messageOf(error)}`)
  } else if (error instanceof ImportError && error.isMissing && run.folder.isUsed) {
    await noteMissing(error, run)
  } else if (error instanceof ImportError && error.retryable && error.code === 'source_unavailable') {
    await endFailedTry(error, run)
  } else if (error instanceof StillWritten) {
    await recheckLater(error, run)
  } else if (error instanceof DiskReserveReached) {
    run.log.warn(`the import waits for space on the disk: ${error.message}`)
    await delayStep(run.database.collections, run.step, { waitMs: spaceWaitMs })
  } else if (error instanceof QuotaTaken) {
    run.log.info("the import waits: the organization's other imports take the quota for staged files")
    await delayStep(run.database.collections, run.step, { waitMs: quotaWaitMs, warning: waitsForQuota })
  } else if (error instanceof ImportError) {
    await fail(run, error.code, error.message)
  } else if (isStagingFull(error)) {
    await fail(
      run,
      'staging_full',
      `no space is left for the import's files under DATA_DIR/staging (${messageOf(error)}): free some and create the import again`,
    )
  } else if (retryReasonOfDriver(error) !== null && !isCommandTimeout(error)) {
    run.log.warn(`the step broke off and is taken again: ${messageOf(error)}`)
  } else {
    await endBrokenStep(error, run)
  }
}

/** Whether the step met a folder that isn't available, or may have: then the folder is looked at. */
async function isOfFolder(error: unknown, { folder }: StepRun): Promise<boolean> {
  if (error instanceof FolderUnavailable) return true
  const isMissing = error instanceof ImportError && error.isMissing
  const isOfSystem = (error as NodeJS.ErrnoException).syscall !== undefined
  return (isMissing || isOfSystem) && (await folder.check()) !== null
}

async function noteMissing(error: ImportError, run: StepRun): Promise<void> {
  const { document, step, database, metrics, missedFiles, log } = run
  const { collections } = database
  const finding = await findingOf(collections, document.step!.engine_id, error.message)
  const outcome = await noteMissingOfStep(collections, step, finding)
  if (outcome === 'noted') missedFiles.note(step.id)
  if (outcome === 'failed') metrics.importFailed(error.code)
  log.warn(missingText(outcome, error.message))
}

/** For the log. */
export const missingText = (outcome: MissingOutcome, message: string): string =>
  ({
    lost: `a file is missing, and another engine has the import by now: ${message}`,
    noted: `a file is missing here; the import fails when another engine misses it too, or this one again in ${recheckDelayMs / 1000} s where it is alone: ${message}`,
    failed: `import failed: ${message}`,
  })[outcome]

/** A download is tried again, unless that was the last try or the time for all of them ends before the next. */
async function endFailedTry(error: ImportError, run: StepRun): Promise<void> {
  const { document, step, bounds, database, log } = run
  const { retryAfterMs, totalMs } = bounds
  const failed = document.download.attempts + 1
  const wait = retryAfterMs[failed - 1]
  if (wait === undefined) {
    await fail(run, error.code, `${error.message} (the last of ${failed} tries)`)
  } else if ((await downloadTimeLeft(run)) <= wait) {
    const minutes = totalMs / 60_000
    const why = `the ${minutes} minutes for all tries end before the next`
    await fail(run, error.code, `${error.message} (${why})`)
  } else {
    log.warn(`download failed, next try in ${wait / 1000} s: ${error.message}`)
    await scheduleRetry(database.collections, step, { attempts: failed, waitMs: wait })
  }
}

/** The wait is stored, and the import's view says what it waits for. */
async function recheckLater({ fingerprint }: StillWritten, run: StepRun): Promise<void> {
  const { document, step } = run
  const { collections } = run.database
  const filename = JSON.stringify(document.source.filename)
  if (
    await waitForUpload(collections, step, {
      fingerprint,
      recheckDelayMs: uploadRecheckDelayMs,
      longestWaitMinutes,
      filename,
    })
  )
    return
  await fail(
    run,
    'source_unreadable',
    `${filename} was still being written ${longestWaitMinutes} minutes after the import began: create the import when the file is whole`,
  )
}

/** Whatever it was, it may pass: a few tries, with longer and longer waits, which are stored. */
async function endBrokenStep(error: unknown, run: StepRun): Promise<void> {
  const { document, step, database, log } = run
  const failures = document.step_failures + 1
  log.error({ err: error, failures }, `the step broke off: ${messageOf(error)}`)
  if (failures < maxStepFailures) {
    await postponeStep(database.collections, step, { failures, waitMs: 1_000 * 2 ** failures })
    return
  }
  await fail(run, 'broken_step', `${messageOf(error)} (the last of ${failures} tries): ${adviceOn(error)}`)
}

function adviceOn(error: unknown): string {
  if (isCommandTimeout(error))
    return 'the database took too long for a command each time: look at its load and its disk, its log has the slow commands, and create the import again'
  return (error as NodeJS.ErrnoException).syscall === undefined
    ? 'this is a defect of the engine, its log has more'
    : 'check DATA_DIR on the engine, and create the import again'
}

/** Engines died while they held the step, as many as may: it is not begun once more. */
export async function failAfterDeaths(run: StepRun): Promise<void> {
  const { step_deaths = 0, state } = run.document
  await fail(run, 'engines_died', deathsMessage(doingIn(state), step_deaths))
}

/** What an engine that held the step did. */
export const doingIn = (state: ImportState): string =>
  state === 'importing' ? 'finished the import' : `prepared the import (${state})`

async function fail(run: StepRun, reason: FailureReason, message: string): Promise<void> {
  const { step, database, log, metrics } = run
  // Whoever has lost the step may have met what its new holder did.
  if (!(await failImport(database.collections, step, message))) return
  log.warn(`import failed: ${message}`)
  metrics.importFailed(reason)
}
