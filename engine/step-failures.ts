import { retryReasonOfDriver } from '../shared/database.ts'
import { ImportError, messageOf } from '../shared/errors.ts'
import { DiskReserveReached } from '../shared/staging/disk-reserve.ts'
import { isStagingFull } from '../shared/staging/staging.ts'
import { delayStep, postponeStep, scheduleRetry, waitForUpload } from '../shared/store/import-steps.ts'
import { failImport } from '../shared/store/imports.ts'
import type { FailureReason } from './metrics.ts'
import { deathsMessage } from './quarantine.ts'
import { QuotaTaken, StillWritten } from './sources/source.ts'
import { downloadTimeLeft, type StepRun } from './step.ts'

/** What becomes of an import whose step broke off: it is taken again, now or after a stored wait, or the import fails. */

/** Of a step for a reason that nobody foresaw. */
const mostStepFailures = 5
/** Between two looks at a file that is still being written, and how long it is looked at. */
const lookAgainMs = 3_000
const longestWaitMinutes = 15
/** Until a step that found no space is taken again. */
const spaceWaitMs = 10_000
const quotaWaitMs = 2_000
const waitsForQuota =
  "the import had to wait: the files of the organization's other imports took its quota (UPLOAD_MAX_MB)"

/**
 * `error` is whatever the step threw. An ImportError fails the import, unless a later try of its download may go well or
 * its file is still being written; so does a staging without space. A failure of the database is only logged, and the
 * step taken again at once; anything else has a few tries. Throws the database's errors.
 */
export async function endInFailure(error: unknown, run: StepRun): Promise<void> {
  if (error instanceof ImportError && error.retryable && error.code === 'source_unavailable') {
    await endFailedTry(error, run)
  } else if (error instanceof StillWritten) {
    await lookAgain(error, run)
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
  } else if (retryReasonOfDriver(error) !== null) {
    run.log.warn(`the step broke off and is taken again: ${messageOf(error)}`)
  } else {
    await endBrokenStep(error, run)
  }
}

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
async function lookAgain({ fingerprint }: StillWritten, run: StepRun): Promise<void> {
  const { document, step } = run
  const { collections } = run.database
  const filename = JSON.stringify(document.source.filename)
  if (await waitForUpload(collections, step, { fingerprint, lookAgainMs, longestWaitMinutes, filename }))
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
  if (failures < mostStepFailures) {
    await postponeStep(database.collections, step, { failures, waitMs: 1_000 * 2 ** failures })
    return
  }
  const advice =
    (error as NodeJS.ErrnoException).syscall === undefined
      ? 'this is a defect of the engine, its log has more'
      : 'check DATA_DIR on the engine, and create the import again'
  await fail(run, 'broken_step', `${messageOf(error)} (the last of ${failures} tries): ${advice}`)
}

/** Engines died while they held the step, as many as may: it is not begun once more. */
export async function failAfterDeaths(run: StepRun): Promise<void> {
  const { step_deaths = 0, state } = run.document
  const doing = state === 'importing' ? 'finished the import' : `prepared the import (${state})`
  await fail(run, 'engines_died', deathsMessage(doing, step_deaths))
}

async function fail(run: StepRun, reason: FailureReason, message: string): Promise<void> {
  const { step, database, log, metrics } = run
  // Whoever has lost the step may have met what its new holder did.
  if (!(await failImport(database.collections, step.id, { message, token: step.token }))) return
  log.warn(`import failed: ${message}`)
  metrics.importFailed(reason)
}
