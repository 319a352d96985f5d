import { retryReasonOfDriver } from '../shared/database.ts'
import { ImportError, messageOf } from '../shared/errors.ts'
import type { ImportDocument } from '../shared/schemas/import.ts'
import { isStagingFull } from '../shared/staging/staging.ts'
import { failImport, postponeStep, scheduleRetry, waitForUpload } from '../shared/store/imports.ts'
import type { FailureReason } from './metrics.ts'
import { StillWritten } from './sources/source.ts'
import { downloadTimeLeft, type Step, type StepContext } from './step.ts'

/** What becomes of an import whose step broke off: it is taken again, now or after a stored wait, or the import fails. */

/** Of a step for a reason that nobody foresaw. */
const mostStepFailures = 5
/** Between two looks at a file that is still being written, and how long it is looked at. */
const lookAgainMs = 3_000
const longestWaitMinutes = 15

export async function endInFailure(
  error: unknown,
  document: ImportDocument,
  step: Step,
  context: StepContext,
): Promise<void> {
  if (error instanceof ImportError && error.retryable && error.code === 'source_unavailable') {
    await endFailedTry(error, document, step, context)
  } else if (error instanceof StillWritten) {
    await lookAgain(error, document, step, context)
  } else if (error instanceof ImportError) {
    await fail(step, error.code, error.message, context)
  } else if (isStagingFull(error)) {
    await fail(
      step,
      'staging_full',
      `no space is left for the import's files under DATA_DIR/staging (${messageOf(error)}): free some and create the import again`,
      context,
    )
  } else if (retryReasonOfDriver(error) !== null) {
    context.log.warn(`the step broke off and is taken again: ${messageOf(error)}`)
  } else {
    await endBrokenStep(error, document, step, context)
  }
}

/** A download is tried again, unless that was the last try or the time for all of them ends before the next. */
async function endFailedTry(
  error: ImportError,
  document: ImportDocument,
  step: Step,
  context: StepContext,
): Promise<void> {
  const { retryAfterMs, totalMs } = context.bounds
  const failed = document.download.attempts + 1
  const wait = retryAfterMs[failed - 1]
  if (wait === undefined) {
    await fail(step, error.code, `${error.message} (the last of ${failed} tries)`, context)
  } else if ((await downloadTimeLeft(document, context)) <= wait) {
    const minutes = totalMs / 60_000
    const why = `the ${minutes} minutes for all tries end before the next`
    await fail(step, error.code, `${error.message} (${why})`, context)
  } else {
    context.log.warn(`download failed, next try in ${wait / 1000} s: ${error.message}`)
    await scheduleRetry(context.database.collections, step, failed, wait)
  }
}

/** The wait is stored, and the import's view says what it waits for. */
async function lookAgain(
  { fingerprint }: StillWritten,
  document: ImportDocument,
  step: Step,
  context: StepContext,
): Promise<void> {
  const { collections } = context.database
  const filename = JSON.stringify(document.source.filename)
  // A copy that met a write.
  await context.staging.removeImport(document._id, { keep: [document.upload?.pin?.reference ?? ''] })
  if (await waitForUpload(collections, step, { fingerprint, lookAgainMs, longestWaitMinutes, filename }))
    return
  await fail(
    step,
    'source_unreadable',
    `${filename} was still being written ${longestWaitMinutes} minutes after the import began: create the import when the file is whole`,
    context,
  )
}

/** Whatever it was, it may pass: a few tries, with longer and longer waits, which are stored. */
async function endBrokenStep(
  error: unknown,
  document: ImportDocument,
  step: Step,
  context: StepContext,
): Promise<void> {
  const failures = document.step_failures + 1
  context.log.error({ err: error, failures }, `the step broke off: ${messageOf(error)}`)
  if (failures < mostStepFailures) {
    await postponeStep(context.database.collections, step, failures, 1_000 * 2 ** failures)
    return
  }
  const advice =
    (error as NodeJS.ErrnoException).syscall === undefined
      ? 'this is a defect of the engine, its log has more'
      : 'check DATA_DIR on the engine, and create the import again'
  await fail(step, 'broken_step', `${messageOf(error)} (the last of ${failures} tries): ${advice}`, context)
}

async function fail(step: Step, reason: FailureReason, message: string, context: StepContext): Promise<void> {
  // Whoever has lost the step may have met what its new holder did.
  if (!(await failImport(context.database.collections, step.id, message, step.token))) return
  context.log.warn(`import failed: ${message}`)
  context.metrics.importFailed(reason)
}
