import { clock } from '../shared/runtime/clock.ts'
import { ImportError } from '../shared/contract/errors.ts'
import { makePlan } from '../shared/store/import-plan.ts'
import { recordsIn, type ImportDocument } from '../shared/contract/schemas/import.ts'
import { downloadFailureOf, schemeOf } from '../shared/net/download-failure.ts'
import { stagedSource, type Staging } from '../shared/storage/staging/staging.ts'
import { countChunkStates, countsOfChunks } from '../shared/store/chunks.ts'
import { notifyEngines } from '../shared/store/wake-up.ts'
import { beginTry, releaseStep, writeInStep } from '../shared/store/import-steps.ts'
import { finishImport } from '../shared/store/imports.ts'
import { countAbsent, deactivateAbsent } from './stages/finish/deactivation.ts'
import { sourceOf } from './stages/obtain/source-of.ts'
import type { SourceContext } from './stages/obtain/source.ts'
import { splitImport } from './stages/split/split-import.ts'
import { maxDeaths } from './scheduler/quarantine.ts'
import { endInFailure, failAfterDeaths } from './scheduler/step-failures.ts'
import { downloadTimeLeft, type StepContext, type StepRun } from './scheduler/step.ts'
import { countingStaging, stampWhileMoving, StepProgress } from './scheduler/step-progress.ts'

/**
 * One import, told from its start to its end. What is here is done by one engine at a time, the holder of the
 * import's step; between `split` and `finish` the chunks are done by all engines (chunk-lanes.ts, workers/).
 *
 *   downloading → obtain the bytes (url) → splitting → obtain (other sources), split → importing → ... → finish → finished
 *
 * Each part may be done again from its beginning after a crash or a pause: nothing it did counts before its last,
 * guarded write.
 */

export const progressEveryMs = 1_000

/** Takes the import as far as this engine can in one go. The step is released at its end, whatever happened. */
export async function processImport(
  document: ImportDocument,
  token: string,
  context: StepContext,
): Promise<void> {
  const log = context.log.child({ import_id: document._id })
  const progress = new StepProgress()
  const run: StepRun = {
    ...{ ...context, log, document, step: { id: document._id, token } },
    ...{ progress, staging: countingStaging(context.staging, progress, context.signal) },
  }
  const { collections } = run.database
  const endStamps = stampWhileMoving(run)
  try {
    if ((document.step_deaths ?? 0) >= maxDeaths) await failAfterDeaths(run)
    else if (document.state === 'importing') await finish(run)
    else await prepare(run)
  } catch (error) {
    if (run.signal.aborted) log.debug('the step was interrupted')
    else await endInFailure(error, run)
  } finally {
    endStamps()
    await releaseStep(collections, document._id, token)
    await notifyEngines(collections, 'step')
  }
}

async function prepare(run: StepRun): Promise<void> {
  const { document, step } = run
  const { collections } = run.database
  const plan = document.plan ?? (await makePlan(collections, document))
  const state = document.state
  if (document.plan === null && !(await writeInStep(collections, { ...step, state }, { $set: { plan } })))
    return
  const source = await staged(run)
  if (source !== null) await timed(run, 'split', () => splitImport(run, plan, source))
}

/**
 * The name of the staged source, brought now if no earlier step has; null when the step isn't ours any more. The
 * import says which one counts, so a split that starts over works on the same bytes.
 */
async function staged(run: StepRun): Promise<string | null> {
  const { document, step } = run
  const { state, source } = document
  if (document.staged !== undefined) return document.staged
  if (source.type === 'json') return obtain(run, stagedSource(document._id))
  const target = stagedSource(document._id, step.token)
  const obtained = await timed(run, 'obtain', async () =>
    state === 'downloading' ? download(run, target) : { staged: await obtain(run, target) },
  )
  if (obtained === null) return null
  const isOurs = await writeInStep(
    run.database.collections,
    { ...step, state },
    { $set: { state: 'splitting', step_deaths: 0, step_failures: 0, ...obtained }, $unset: { missing: '' } },
  )
  if (!isOurs) return null
  // A failure of the split that follows in this run is its first.
  document.step_failures = 0
  if (obtained.staged === target) await countStaged(run, target)
  return obtained.staged
}

async function countStaged({ staging, metrics }: StepRun, name: string): Promise<void> {
  const file = await staging.open(name)
  if (file === null) return
  metrics.bytes('stage', file.size)
  await file.close()
}

async function timed<T>(
  { metrics }: StepRun,
  stage: 'obtain' | 'split' | 'finish',
  work: () => Promise<T>,
): Promise<T> {
  const startedAt = clock.monotonicMs()
  const result = await work()
  metrics.stageEnded(stage, (clock.monotonicMs() - startedAt) / 1000)
  return result
}

async function obtain(
  run: StepRun,
  target: string,
  download: Pick<SourceContext, 'leftMs' | 'onProgress'> = { leftMs: 0, onProgress: () => undefined },
): Promise<string> {
  const { document, uploads, secrets, guard, bounds, signal } = run
  const within = document.source.type === 'url' ? 'all' : 'staged'
  const staging: Staging = {
    ...run.staging,
    write: (name, content) => run.staging.write(name, run.quota.reserved(document, content, within)),
  }
  return sourceOf(document)(document, {
    ...{ staging, target, uploads, secrets, guard, bounds, signal },
    ...download,
  })
}

interface Progress {
  'download.bytes_received': number
  'download.bytes_expected': number | null
}

/** One try of a download, its progress in the import once a second. Null when the import is no longer this engine's. */
async function download(run: StepRun, target: string): Promise<(Progress & { staged: string }) | null> {
  const { document, step, bounds, metrics, signal } = run
  const { collections } = run.database
  const endsAt = await beginTry(collections, step, bounds.totalMs)
  if (endsAt === null) return null
  document.download.ends_at = endsAt
  const progress: Progress = { 'download.bytes_received': 0, 'download.bytes_expected': null }
  let hasMoved = false
  const onProgress = (bytes: number, expected: number | null) => {
    metrics.bytes('download', bytes - progress['download.bytes_received'])
    progress['download.bytes_received'] = bytes
    progress['download.bytes_expected'] = expected
    hasMoved = true
  }
  const leftMs = await downloadTimeLeft(run)
  const shown = setInterval(() => {
    if (!hasMoved) return
    hasMoved = false
    writeInStep(collections, { ...step, state: 'downloading' }, { $set: progress }).catch(() => undefined)
  }, progressEveryMs)
  try {
    const staged = await obtain(run, target, { leftMs, onProgress })
    metrics.downloadAttempt('ok')
    return { ...progress, staged }
  } catch (error) {
    const isTry = error instanceof ImportError && !signal.aborted
    if (isTry) {
      metrics.downloadAttempt(error.retryable ? 'failed' : 'refused')
      metrics.downloadFailed(schemeOf(document.source.url!), downloadFailureOf(error))
    }
    throw error
  } finally {
    clearInterval(shown)
  }
}

async function finish(run: StepRun): Promise<void> {
  const { document, step, metrics, log } = run
  const { collections } = run.database
  const states = await countChunkStates(collections, document._id)
  if (states.ready + states.running > 0) return
  const startedAt = clock.monotonicMs()

  const counts = await countsOfChunks(collections, document._id)
  const records = document.number_of_records ?? 0
  if (recordsIn(counts) !== records) {
    throw new ImportError(
      'audit_mismatch',
      `the counts sum up to ${recordsIn(counts)} of ${records} records: this is a defect of the engine; the rows that are counted are written, the logs say which`,
    )
  }
  if (document.options.deactivate_subscribers_not_in_import) {
    if (counts.failed === records)
      throw new ImportError(
        'nothing_valid',
        'no record of the file is valid, so nobody was deactivated for not being in it: correct the file or its mapping',
      )
    if ((await countAbsentAndWarn(run)) > 0) await deactivateAbsent(run)
  }
  const totals = await countsOfChunks(collections, document._id)
  const finishedAt = await finishImport(collections, step, totals)
  if (finishedAt === null) return
  metrics.stageEnded('finish', (clock.monotonicMs() - startedAt) / 1000)
  const wholeMs = finishedAt.getTime() - (document.started_at?.getTime() ?? Infinity)
  metrics.stageEnded('import', Math.max(0, wholeMs) / 1000)
  log.info(totals, 'import finished')
}

/** A warning is said before it is done. Resolves to 0 only where nobody is absent. */
async function countAbsentAndWarn(run: StepRun): Promise<number> {
  const { document, step, database } = run
  const active = document.plan!.active_at_start
  const absent = await countAbsent(run, Math.floor(active / 2) + 1)
  if (absent * 2 <= active) return absent
  const warning = `more than half of the ${active} active subscribers of the list are not in the file, and deactivate_subscribers_not_in_import deactivates them`
  await writeInStep(
    database.collections,
    { ...step, state: 'importing' },
    { $addToSet: { warnings: warning } },
  )
  return absent
}
