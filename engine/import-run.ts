import { randomUUID } from 'node:crypto'
import type { ClientSession } from 'mongodb'
import type { AddressGuard } from '../shared/address-guard.ts'
import {
  databaseTime,
  inTransactionOf,
  nextIds,
  retryReasonOfDriver,
  type Database,
} from '../shared/database.ts'
import { clock } from '../shared/clock.ts'
import { ImportError, messageOf } from '../shared/errors.ts'
import type { Logger } from '../shared/logger.ts'
import {
  chunkId,
  contentFormat,
  noCounts,
  recordsIn,
  type ChunkDocument,
  type ImportDocument,
  type ImportPlan,
} from '../shared/schemas/import.ts'
import { isStagingFull, stagedPartition, stagedSource, type Staging } from '../shared/staging/staging.ts'
import { countChunkStates, deleteChunks, replaceChunks, sumChunkCounts } from '../shared/store/chunks.ts'
import { ring } from '../shared/store/doorbell.ts'
import {
  beginTry,
  failImport,
  finishImport,
  postponeStep,
  releaseStep,
  scheduleRetry,
  writeInStep,
} from '../shared/store/imports.ts'
import { countAbsent, deactivateAbsent } from './deactivation.ts'
import type { EngineMetrics } from './metrics.ts'
import { makePlan, reactionsPerRecord } from './plan.ts'
import type { DownloadBounds } from './sources/download-bounds.ts'
import type { SourceContext } from './sources/source.ts'
import { sourceOf } from './sources/source-of.ts'
import type { Range } from './splitting/range-writer.ts'
import { splitFile, type SplitResult } from './splitting/split.ts'

/**
 * One import, told from its start to its end. What is here is done by one engine at a time, the holder of the
 * import's step; between `split` and `finish` the chunks are done by all engines (dispatcher.ts, workers/).
 *
 *   downloading → obtain the bytes (url) → splitting → obtain (other sources), split → importing → ... → finish → finished
 *
 * Each part may be done again from its beginning after a crash or a pause: nothing it did counts before its last,
 * guarded write.
 */
export interface StepContext {
  /** For transactions: noted with the engine, so that whoever takes over from it ends them. */
  session: ClientSession
  database: Database
  staging: Staging
  dataFolder: string
  /** Says which addresses downloads may reach. */
  guard: AddressGuard
  bounds: DownloadBounds
  stripe: string
  metrics: EngineMetrics
  log: Logger
  /** Aborted when the import is paused, cancelled or no longer this engine's. */
  signal: AbortSignal
}

interface Step {
  id: number
  token: string
}

const progressEveryMs = 1_000
/** Of a step for a reason that nobody foresaw. */
const mostStepFailures = 5

/** Takes the import as far as this engine can in one go. The step is released at its end, whatever happened. */
export async function runStep(document: ImportDocument, token: string, context: StepContext): Promise<void> {
  const step = { id: document._id, token }
  const { collections } = context.database
  const log = context.log.child({ import_id: document._id })
  try {
    if (document.state === 'importing') await finish(document, step, context)
    else await prepare(document, step, context)
  } catch (error) {
    if (context.signal.aborted) log.debug('the step was interrupted')
    else await endInFailure(error, document, step, { ...context, log })
  } finally {
    await releaseStep(collections, step.id, token)
    await ring(collections, 'step')
  }
}

async function prepare(document: ImportDocument, step: Step, context: StepContext): Promise<void> {
  const { collections } = context.database
  const plan = document.plan ?? (await makePlan(collections, document))
  const state = document.state
  if (document.plan === null && !(await writeInStep(collections, { ...step, state }, { $set: { plan } })))
    return
  if (document.state === 'downloading') {
    const progress = await timed(context, 'obtain', () => download(document, step, context))
    if (progress === null) return
    const next = { state: 'splitting' as const, 'download.next_attempt_at': null, ...progress }
    if (!(await writeInStep(collections, { ...step, state: 'downloading' }, { $set: next }))) return
  } else if (document.source.type !== 'url' && !(await isStaged(document, context))) {
    await timed(context, 'obtain', () => obtain(document, context))
  }
  await timed(context, 'split', () => split(document, plan, step, context))
}

/** A split that starts over works on the file as it was when the import began. */
async function isStaged(document: ImportDocument, { staging }: StepContext): Promise<boolean> {
  const file = await staging.open(stagedSource(document._id))
  await file?.close()
  return file !== null
}

async function timed<T>(
  context: StepContext,
  stage: 'obtain' | 'split' | 'finish',
  work: () => Promise<T>,
): Promise<T> {
  const startedAt = clock.monotonicMs()
  const result = await work()
  context.metrics.stageEnded(stage, (clock.monotonicMs() - startedAt) / 1000)
  return result
}

async function obtain(
  document: ImportDocument,
  context: StepContext,
  download: Pick<SourceContext, 'leftMs' | 'onProgress'> = { leftMs: 0, onProgress: () => undefined },
): Promise<void> {
  const { staging, dataFolder, guard, bounds, signal } = context
  await sourceOf(document)(document, { staging, dataFolder, guard, bounds, signal, ...download })
}

interface Progress {
  'download.bytes_received': number
  'download.bytes_expected': number | null
}

/** One try of a download, its progress in the import once a second. Null when the import is no longer this engine's. */
async function download(
  document: ImportDocument,
  step: Step,
  context: StepContext,
): Promise<Progress | null> {
  const { collections } = context.database
  const endsAt = await beginTry(collections, step, context.bounds.totalMs)
  if (endsAt === null) return null
  document.download.ends_at = endsAt
  const progress: Progress = { 'download.bytes_received': 0, 'download.bytes_expected': null }
  let hasMoved = false
  const onProgress = (bytes: number, expected: number | null) => {
    context.metrics.bytes('download', bytes - progress['download.bytes_received'])
    progress['download.bytes_received'] = bytes
    progress['download.bytes_expected'] = expected
    hasMoved = true
  }
  const leftMs = await downloadTimeLeft(document, context)
  const shown = setInterval(() => {
    if (!hasMoved) return
    hasMoved = false
    writeInStep(collections, { ...step, state: 'downloading' }, { $set: progress }).catch(() => undefined)
  }, progressEveryMs)
  try {
    await obtain(document, context, { leftMs, onProgress })
    context.metrics.downloadAttempt('ok')
    return progress
  } catch (error) {
    const isTry = error instanceof ImportError && !context.signal.aborted
    if (isTry) context.metrics.downloadAttempt(error.retryable ? 'failed' : 'refused')
    throw error
  } finally {
    clearInterval(shown)
  }
}

/** Of the time for all tries, in ms, by the database's clock. */
async function downloadTimeLeft({ download }: ImportDocument, { database }: StepContext): Promise<number> {
  return download.ends_at!.getTime() - (await databaseTime(database.db)).getTime()
}

async function split(
  document: ImportDocument,
  plan: ImportPlan,
  step: Step,
  context: StepContext,
): Promise<void> {
  const { staging, signal } = context
  const partition = stagedPartition(document._id, randomUUID())
  const source = await staging.open(stagedSource(document._id))
  if (source === null)
    throw new ImportError('source_missing', 'the staged file is gone: was DATA_DIR/staging emptied?')
  try {
    const output = await staging.create(partition)
    try {
      const result = await splitFile({
        source,
        output,
        reopen: () => reopen(staging, partition),
        plan,
        format: contentFormat(document),
        signal,
      })
      context.metrics.bytes('split', source.size)
      await enterImporting(document, plan, step, context, { result, partition })
    } finally {
      await output.close()
    }
  } finally {
    await source.close()
  }
}

async function reopen(staging: Staging, partition: string) {
  const file = await staging.open(partition)
  if (file === null)
    throw new ImportError(
      'source_missing',
      `the staged partition ${partition} is gone while it is written: was DATA_DIR/staging emptied?`,
    )
  return file
}

/** The chunks and the state that lets them be claimed appear together. */
async function enterImporting(
  document: ImportDocument,
  plan: ImportPlan,
  step: Step,
  context: StepContext,
  split: { result: SplitResult; partition: string },
): Promise<void> {
  const { collections } = context.database
  const { result, partition } = split
  const firstSubscriberId =
    result.records === 0 ? 1 : await nextIds(collections, 'subscriber', result.records)
  const reactions = result.records * reactionsPerRecord(plan)
  const firstReactionId = reactions === 0 ? 1 : await nextIds(collections, 'reaction', reactions)
  const chunks = chunkDocuments(document, plan, result.ranges, { firstSubscriberId, firstReactionId })
  const moved = await inTransactionOf(context.session, async (session) => {
    const set = {
      state: 'importing' as const,
      number_of_records: result.records,
      header: result.header,
      warnings: [...document.warnings, ...result.warnings],
      partition,
    }
    if (!(await writeInStep(collections, { ...step, state: 'splitting' }, { $set: set }, session)))
      return false
    await replaceChunks(collections, session, document._id, chunks)
    return true
  })
  if (moved)
    context.log.info({ import_id: document._id, records: result.records, chunks: chunks.length }, 'split')
}

function chunkDocuments(
  document: ImportDocument,
  plan: ImportPlan,
  ranges: Range[],
  ids: { firstSubscriberId: number; firstReactionId: number },
): ChunkDocument[] {
  let records = 0
  return ranges.map((range, number) => {
    const before = records
    records += range.records
    return {
      _id: chunkId(document._id, number),
      import_id: document._id,
      organization_id: document.organization_id,
      dry_run: document.options.dry_run,
      number,
      state: 'ready',
      kind: range.kind,
      from: range.from?.toString() ?? null,
      to: range.to?.toString() ?? null,
      extents: range.extents,
      crc32: range.crc32,
      record_count: range.records,
      first_subscriber_id: ids.firstSubscriberId + before,
      first_reaction_id: ids.firstReactionId + before * reactionsPerRecord(plan),
      places_held: 0,
      places_used: 0,
      token: null,
      engine_id: null,
      attempt: 0,
      lease_until: null,
      next_record: 0,
      deactivated_to: null,
      counts: noCounts(),
    }
  })
}

async function finish(document: ImportDocument, step: Step, context: StepContext): Promise<void> {
  const { collections } = context.database
  const states = await countChunkStates(collections, document._id)
  if (states.ready + states.running > 0) return
  const startedAt = clock.monotonicMs()

  const counts = await importCounts(context, document._id)
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
    await warnOfManyAbsent(document, step, context)
    await deactivateAbsent(document, step, context)
  }
  const totals = await importCounts(context, document._id)
  if (!(await finishImport(collections, step, totals))) return
  context.metrics.stageEnded('finish', (clock.monotonicMs() - startedAt) / 1000)
  context.metrics.stageEnded('import', (Date.now() - (document.started_at?.getTime() ?? Date.now())) / 1000)
  context.log.info({ import_id: document._id, ...totals }, 'import finished')
}

/** Said before it is done. */
async function warnOfManyAbsent(document: ImportDocument, step: Step, context: StepContext): Promise<void> {
  const active = document.plan!.active_at_start
  const absent = await countAbsent(document, context, Math.floor(active / 2) + 1)
  if (absent * 2 <= active) return
  const warning = `more than half of the ${active} active subscribers of the list are not in the file, and deactivate_subscribers_not_in_import deactivates them`
  await writeInStep(
    context.database.collections,
    { ...step, state: 'importing' },
    { $addToSet: { warnings: warning } },
  )
}

async function importCounts(context: StepContext, id: number) {
  return (await sumChunkCounts(context.database.collections, [id])).get(id) ?? noCounts()
}

async function endInFailure(
  error: unknown,
  document: ImportDocument,
  step: Step,
  context: StepContext,
): Promise<void> {
  if (error instanceof ImportError && error.retryable && error.code === 'source_unavailable') {
    await endFailedTry(error, document, step, context)
  } else if (error instanceof ImportError) {
    await fail(step, error.message, context)
  } else if (isStagingFull(error)) {
    await fail(
      step,
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
    await fail(step, `${error.message} (the last of ${failed} tries)`, context)
  } else if ((await downloadTimeLeft(document, context)) <= wait) {
    const minutes = totalMs / 60_000
    await fail(step, `${error.message} (the ${minutes} minutes for all tries end before the next)`, context)
  } else {
    context.log.warn(`download failed, next try in ${wait / 1000} s: ${error.message}`)
    await scheduleRetry(context.database.collections, step, failed, wait)
  }
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
  await fail(step, `${messageOf(error)} (the last of ${failures} tries): ${advice}`, context)
}

async function fail(step: Step, message: string, context: StepContext): Promise<void> {
  context.log.warn(`import failed: ${message}`)
  await failImport(context.database.collections, step.id, message, step.token)
}

/** Clears up after an ended import for which no chunk is held any more. */
export async function removeWorkingData(
  importId: number,
  context: Pick<StepContext, 'database' | 'staging' | 'log'>,
): Promise<void> {
  await context.staging.removeImport(importId).catch((error: unknown) => {
    context.log.warn(
      { import_id: importId },
      `staged files can't be removed, the sweep tries again later: ${messageOf(error)}`,
    )
  })
  await deleteChunks(context.database.collections, importId)
}
