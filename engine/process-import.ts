import { clock } from '../shared/runtime/clock.ts'
import { ImportError } from '../shared/contract/errors.ts'
import { makePlan } from '../shared/store/import-plan.ts'
import {
  recordsIn,
  type ImportCounts,
  type ImportDocument,
  type ImportPlan,
} from '../shared/contract/schemas/import.ts'
import { logImportState } from '../shared/processes/import-log.ts'
import { withContent } from '../shared/storage/staging/packed-content.ts'
import { stagedSource } from '../shared/storage/staging/staging.ts'
import { countChunkStates, sumImport } from '../shared/store/chunks.ts'
import { wakeUp } from '../shared/store/wake-up.ts'
import { releaseStep, writeInStep } from '../shared/store/import-steps.ts'
import { finishImport } from '../shared/store/imports.ts'
import { noTries } from '../shared/store/work-leases.ts'
import { countAbsentAndWarn, deactivateAbsent } from './stages/finish/deactivation.ts'
import { finalizeSmallImport } from './stages/finish/finalize-import.ts'
import { bringSource, type BroughtSource } from './stages/obtain/bring-source.ts'
import { download } from './stages/obtain/download.ts'
import { importSmall } from './stages/split/small-import.ts'
import { splitImport } from './stages/split/split-import.ts'
import { maxDeaths } from './runner/quarantine.ts'
import { countHungTry, endAfterError, failAfterDeaths } from './runner/step-failures.ts'
import type { ClaimedStep, StepOptions, StepRun } from './runner/step.ts'
import { countingStaging, StepProgress } from './runner/step-progress.ts'

/**
 * An import from its start to its end. All but the writing of chunks is done by one engine at a time, the holder of the
 * import's step:
 *
 *   downloading   obtain   the source into staging, from a URL                          stages/obtain/
 *   splitting     obtain   the source, where it is no URL; split it into chunks         stages/obtain/, stages/split/
 *                 write    a small import whole, in one transaction that finishes it     stages/write/small-import.ts
 *   importing     write    chunks, by all engines at once                               process-chunk.ts
 *                 finish   once all are done: check, deactivate the absent, fix counts  stages/finish/
 *   finished
 *
 * After a crash or a pause each part starts over, or resumes behind its last committed write. Each write is guarded by
 * the token of the step, or for chunks by that of the chunk.
 */

/** Runs the import as far as this engine can without waiting, and releases the step in any case. */
export async function processImport(claimed: ClaimedStep, options: StepOptions): Promise<void> {
  const { document, step, signal } = claimed
  const log = options.log.child({ import_id: document._id })
  const progress = new StepProgress()
  const staging = countingStaging(withContent(options.staging, document), progress, signal)
  const run: StepRun = { ...options, ...claimed, log, progress, staging }
  const { collections } = run.database
  const unwatch = options.watch({
    importId: document._id,
    name: `the step (${document.state})`,
    progress: () => progress.sample(),
    waitingFor: () => progress.waitingFor,
    giveUp: () => countHungTry(run),
  })
  let isFinalized = false
  try {
    if (document.lease.deaths >= maxDeaths) await failAfterDeaths(run)
    else if (document.state === 'importing') await finish(run)
    else isFinalized = await prepare(run)
  } catch (error) {
    if (run.signal.aborted) log.debug('the step was interrupted')
    else await endAfterError(error, run)
  } finally {
    unwatch()
    if (!isFinalized) await releaseStep(collections, step.id, step.token)
    await wakeUp(collections, { reason: isFinalized ? 'finished' : 'imports', import_id: step.id })
  }
}

/** Obtains and splits. True for a small import, which is written, finished and finalized too. */
async function prepare(run: StepRun): Promise<boolean> {
  const { document, database } = run
  const plan = document.plan ?? (await makePlan(database.collections, document))
  // A download takes its time, and the plan is that of the import's start.
  if (document.state === 'downloading' && !(await storePlan(run, plan))) return false
  const source = await obtain(run)
  if (source === null) return false
  const small = await importSmall(run, plan, source)
  if (small?.end === 'finished') {
    reportEnd(run, small.at, small.counts)
    await finalizeSmallImport(document, small, run)
    return true
  }
  if (small === null && (await storePlan(run, plan)))
    await timed(run, 'split', () => splitImport(run, plan, source))
  return false
}

/** A step that starts over uses the stored plan. False when the step is lost. */
async function storePlan({ document, step, database }: StepRun, plan: ImportPlan): Promise<boolean> {
  if (document.plan !== null) return true
  const isLeased = await writeInStep(
    database.collections,
    { ...step, state: document.state },
    { $set: { plan } },
  )
  if (isLeased) document.plan = plan
  return isLeased
}

/**
 * Resolves to the name of the staged source, null when the step is lost. The import stores the name and what the file's
 * beginning said, so that a split that starts over reads the same bytes in the same way.
 */
async function obtain(run: StepRun): Promise<string | null> {
  const { document, step } = run
  const { state, source } = document
  if (document.staged !== undefined) return document.staged
  // Inline content came with the import's creation, under a name of its own.
  if (source.type === 'json')
    return addBeginning(document, await bringSource(run, stagedSource(document._id)))
  const target = stagedSource(document._id, step.token)
  const obtained = await timed(run, 'obtain', async () =>
    state === 'downloading'
      ? download(run, target)
      : { brought: await bringSource(run, target), progress: {} },
  )
  if (obtained === null) return null
  const { staged, beginning, warnings } = obtained.brought
  const isLeased = await writeInStep(
    run.database.collections,
    { ...step, state },
    {
      $set: {
        ...{ state: 'splitting', ...noTries, staged, beginning },
        ...obtained.progress,
      },
      $push: { warnings: { $each: warnings } },
    },
  )
  if (!isLeased) return null
  // The split that follows in this run counts its failures from zero.
  document.lease.tries = 0
  if (state === 'downloading') {
    document.state = 'splitting'
    logImportState(run.log, document, { from: state, to: document.state, by: { by: 'service' } })
  }
  addBeginning(document, obtained.brought)
  if (staged === target) await countStaged(run, target)
  return staged
}

function addBeginning(document: ImportDocument, { staged, beginning, warnings }: BroughtSource): string {
  document.beginning = beginning
  document.warnings = [...document.warnings, ...warnings]
  return staged
}

async function countStaged({ document, staging, metrics }: StepRun, name: string): Promise<void> {
  const file = await staging.open(name)
  if (file === null) return
  metrics.bytes('stage', document.beginning?.source_bytes ?? file.size)
  await file.close()
}

async function finish(run: StepRun): Promise<void> {
  const { document, step, metrics } = run
  const { collections } = run.database
  const states = await countChunkStates(collections, document._id)
  if (states.ready + states.running > 0) return
  const startedAt = clock.monotonicMs()

  checkCounts((await sumImport(collections, document._id)).counts, document)
  const deactivates = document.options.deactivate_subscribers_not_in_import && document.keeps_absent !== true
  if (deactivates && (await countAbsentAndWarn(run)) > 0) await deactivateAbsent(run)
  const sums = await sumImport(collections, document._id)
  const finishedAt = await finishImport(collections, step, sums)
  if (finishedAt === null) return
  metrics.stageEnded('finish', (clock.monotonicMs() - startedAt) / 1000)
  reportEnd(run, finishedAt, sums.counts)
}

function reportEnd({ document, metrics, log }: StepRun, finishedAt: Date, counts: ImportCounts): void {
  const wholeMs = finishedAt.getTime() - (document.started_at?.getTime() ?? Infinity)
  metrics.stageEnded('import', Math.max(0, wholeMs) / 1000)
  logImportState(log, document, {
    ...{ from: document.state, to: 'finished', by: { by: 'service' } },
    end: { at: finishedAt, counts },
  })
}

function checkCounts(counts: ImportCounts, { number_of_records, options }: ImportDocument): void {
  const records = number_of_records ?? 0
  if (recordsIn(counts) !== records)
    throw new ImportError(
      'audit_mismatch',
      `the counts sum up to ${recordsIn(counts)} of ${records} records, which is a defect of the engine: the rows that are counted are written, and the logs name them`,
    )
  if (options.deactivate_subscribers_not_in_import && counts.failed === records)
    throw new ImportError(
      'nothing_valid',
      'no record of the file is valid, so no subscriber was deactivated for not being in it: correct the file or its mapping',
    )
}

async function timed<T>(run: StepRun, stage: 'obtain' | 'split', work: () => Promise<T>): Promise<T> {
  const startedAt = clock.monotonicMs()
  const result = await work()
  run.metrics.stageEnded(stage, (clock.monotonicMs() - startedAt) / 1000)
  return result
}
