import { isCommandTimeout, driverRetryReason } from '../../shared/runtime/driver-errors.ts'
import { ImportError, errorMessage } from '../../shared/contract/errors.ts'
import type { ImportState } from '../../shared/contract/import-state.ts'
import { FolderUnavailable } from '../../shared/storage/staging/marked-folder.ts'
import { isStagingFull } from '../../shared/storage/staging/staging.ts'
import { delayStep, postponeStep, scheduleRetry } from '../../shared/store/import-steps.ts'
import { failImport } from '../../shared/store/imports.ts'
import type { FailureReason } from '../metrics.ts'
import { leaveAloneMs } from './missed-files.ts'
import { logFailedImport } from './failed-import.ts'
import { deathsMessage } from './quarantine.ts'
import { QuotaInUse } from '../stages/obtain/source.ts'
import { downloadTimeLeft, type StepRun } from './step.ts'

/** What becomes of an import whose step threw: another try at once, another after a stored wait, or `failed`. */

/** With this number of failures of a step, for an unexpected reason or a timeout, the import fails. */
export const maxStepFailures = 5
const spaceWaitMs = 10_000
const quotaWaitMs = 2_000
const spaceWarning = 'the import had to wait: the disk that has its files was full'
const quotaWarning =
  "the import had to wait: the files of the organization's other imports took its quota (UPLOAD_MAX_MB)"

/**
 * Decides by the error what becomes of an import whose step threw it. Throws the database's errors.
 *   DATA_DIR isn't available here                    → left to other engines; no failure of the import
 *   a staged file is missing                         → a failed try; this engine leaves the import alone for a while (missed-files.ts)
 *   a download failed in a way that may pass         → tried again after a stored wait, until attempts or time are used up
 *   the disk or the organization's quota is full     → tried again after a stored wait
 *   another ImportError                              → the import fails
 *   the database is away                             → tried again at once
 *   anything else, or a command that timed out       → tried again after growing stored waits, up to `maxStepFailures`
 */
export async function endAfterError(error: unknown, run: StepRun): Promise<void> {
  if (await isFolderProblem(error, run)) {
    run.log.warn(
      `the step is left to other engines, as DATA_DIR isn't available here: ${errorMessage(error)}`,
    )
  } else if (error instanceof ImportError && error.isMissing && run.folder.isUsed) {
    await endMissing(error, run)
  } else if (error instanceof ImportError && error.retryable && error.code === 'source_unavailable') {
    await endFailedDownload(error, run)
  } else if (isStagingFull(error)) {
    run.log.warn(`the import waits for space on the disk: ${errorMessage(error)}`)
    await delayStep(run.database.collections, run.step, { waitMs: spaceWaitMs, warning: spaceWarning })
  } else if (error instanceof QuotaInUse) {
    run.log.info("the import waits: the organization's other imports take the quota for staged files")
    await delayStep(run.database.collections, run.step, { waitMs: quotaWaitMs, warning: quotaWarning })
  } else if (error instanceof ImportError) {
    await fail(run, error.code, error.message)
  } else if (driverRetryReason(error) !== null && !isCommandTimeout(error)) {
    run.log.warn(`the step broke off and is tried again: ${errorMessage(error)}`)
  } else {
    await endBrokenStep(error, run)
  }
}

/** Whether the error comes from a DATA_DIR that isn't available here. For errors that may, the folder is checked now. */
async function isFolderProblem(error: unknown, { folder }: StepRun): Promise<boolean> {
  if (error instanceof FolderUnavailable) return true
  const isMissing = error instanceof ImportError && error.isMissing
  return (isMissing || isSystemError(error)) && (await folder.check()) !== null
}

const isSystemError = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && error.syscall !== undefined

async function endMissing(error: ImportError, run: StepRun): Promise<void> {
  const { document, step, missedFiles, log } = run
  const failures = document.lease.tries + 1
  if (failures < maxStepFailures) {
    missedFiles.record(step.id)
    log.warn(missingText(failures, error.message))
  }
  await countTry(run, { waitMs: 0, reason: error.code, message: error.message })
}

/** The log line about a missing file. */
export const missingText = (failures: number, message: string): string =>
  `a file is missing here (try ${failures} of ${maxStepFailures}); this engine leaves the import alone for ${leaveAloneMs / 1000} s: ${message}`

/** Schedules another attempt, unless this was the last one or the time for all attempts ends before the next. */
async function endFailedDownload(error: ImportError, run: StepRun): Promise<void> {
  const { document, step, bounds, database, log } = run
  const { retryAfterMs, totalMs } = bounds
  const failed = document.download.attempts + 1
  const wait = retryAfterMs[failed - 1]
  if (wait === undefined) {
    await fail(run, error.code, `${error.message} (the last of ${failed} tries)`)
  } else if ((await downloadTimeLeft(run)) <= wait) {
    const minutes = totalMs / 60_000
    const reason = `the next try would begin after the ${minutes} minutes that all tries have`
    await fail(run, error.code, `${error.message} (${reason})`)
  } else {
    log.warn(`download failed, next try in ${wait / 1000} s: ${error.message}`)
    await scheduleRetry(database.collections, step, { attempts: failed, waitMs: wait })
  }
}

/** An unexpected error may pass: the step is tried again after growing waits, which are stored. */
async function endBrokenStep(error: unknown, run: StepRun): Promise<void> {
  const { document, log } = run
  const failures = document.lease.tries + 1
  log.error({ err: error, failures }, `the step broke off: ${errorMessage(error)}`)
  await countTry(run, {
    waitMs: 1_000 * 2 ** failures,
    reason: 'broken_step',
    message: `${errorMessage(error)} (the last of ${failures} tries): ${advise(error)}`,
  })
}

function advise(error: unknown): string {
  if (isCommandTimeout(error))
    return 'the database took too long for a command each time: check its load and its disk (its log has the slow commands), and create the import again'
  return isSystemError(error)
    ? 'check DATA_DIR on the engine, and create the import again'
    : 'this is a defect of the engine, its log has more'
}

/** Counts the try of a step that hangs, because its process ends now. Throws the database's errors. */
export async function countHungTry(run: StepRun): Promise<void> {
  const { lease, state } = run.document
  await countTry(run, {
    waitMs: 0,
    reason: 'broken_step',
    message: `nothing moved for minutes while an engine ${stepActivity(state)}: no byte of its files was read or written and no subscriber changed (the last of ${lease.tries + 1} tries). Check that the disk or file server of DATA_DIR answers on every engine, and create the import again`,
  })
}

/** Counts a failed try of the step. It is tried again after `waitMs`; after its last try the import fails. */
async function countTry(
  run: StepRun,
  { waitMs, reason, message }: { waitMs: number; reason: FailureReason; message: string },
): Promise<void> {
  const failures = run.document.lease.tries + 1
  if (failures >= maxStepFailures) await fail(run, reason, message)
  else await postponeStep(run.database.collections, run.step, { failures, waitMs })
}

/** For a step on which `maxDeaths` engines died: it is not begun again. */
export async function failAfterDeaths(run: StepRun): Promise<void> {
  const { lease, state } = run.document
  await fail(run, 'engines_died', deathsMessage(stepActivity(state), lease.deaths))
}

/** What an engine with the step of an import in this state was doing. */
const stepActivity = (state: ImportState): string =>
  state === 'importing' ? 'finished the import' : `prepared the import (${state})`

async function fail(run: StepRun, reason: FailureReason, message: string): Promise<void> {
  const { document, step, database, log, metrics } = run
  // The error of an engine that has lost the step may be caused by the engine that has it now, and is ignored.
  if (!(await failImport(database.collections, step, message))) return
  metrics.importFailed(reason)
  await logFailedImport({ database, log }, step.id, { from: document.state, message, reason })
}
