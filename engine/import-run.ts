import { randomUUID } from 'node:crypto'
import { clock } from '../shared/clock.ts'
import { inTransactionOf, nextIds } from '../shared/database.ts'
import { ImportError, messageOf } from '../shared/errors.ts'
import { makePlan, reactionsPerRecord } from '../shared/import-plan.ts'
import { openPartition, type Partition } from '../shared/records/partition-file.ts'
import {
  chunkId,
  contentFormat,
  noCounts,
  recordsIn,
  type ChunkDocument,
  type ImportDocument,
  type ImportPlan,
  type PartitionTail,
} from '../shared/schemas/import.ts'
import { downloadFailureOf, schemeOf } from '../shared/sources/download-failure.ts'
import { stagedPartition, stagedSource, type Staging } from '../shared/staging/staging.ts'
import { countChunkStates, countsOfChunks, deleteChunks, replaceChunks } from '../shared/store/chunks.ts'
import { ring } from '../shared/store/doorbell.ts'
import { beginTry, finishImport, releaseStep, writeInStep } from '../shared/store/imports.ts'
import { countAbsent, deactivateAbsent } from './deactivation.ts'
import { sourceOf } from './sources/source-of.ts'
import type { SourceContext } from './sources/source.ts'
import { refuseIfWrittenInto } from './sources/upload-directory.ts'
import type { Range } from './splitting/range-writer.ts'
import { splitFile, type SplitResult } from './splitting/split.ts'
import type { SecondThread } from './splitting/tail-scan.ts'
import { endInFailure } from './step-failures.ts'
import { downloadTimeLeft, type Step, type StepContext } from './step.ts'

/**
 * One import, told from its start to its end. What is here is done by one engine at a time, the holder of the
 * import's step; between `split` and `finish` the chunks are done by all engines (dispatcher.ts, workers/).
 *
 *   downloading → obtain the bytes (url) → splitting → obtain (other sources), split → importing → ... → finish → finished
 *
 * Each part may be done again from its beginning after a crash or a pause: nothing it did counts before its last,
 * guarded write.
 */

const progressEveryMs = 1_000

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
  const source = await staged(document, step, context)
  if (source !== null) await timed(context, 'split', () => split({ document, plan, source }, step, context))
}

/**
 * The name of the staged source, brought now if no earlier step has; null when the step isn't ours any more. The
 * import says which one counts, so a split that starts over works on the same bytes.
 */
async function staged(document: ImportDocument, step: Step, context: StepContext): Promise<string | null> {
  const { state, source } = document
  if (document.staged !== undefined) return document.staged
  if (source.type === 'json') return obtain(document, stagedSource(document._id), context)
  const target = stagedSource(document._id, step.token)
  const obtained = await timed(context, 'obtain', async () =>
    state === 'downloading'
      ? download(document, target, step, context)
      : { staged: await obtain(document, target, context) },
  )
  if (obtained === null) return null
  const isOurs = await writeInStep(
    context.database.collections,
    { ...step, state },
    { $set: { state: 'splitting', 'download.next_attempt_at': null, ...obtained } },
  )
  if (!isOurs) return null
  if (obtained.staged === target) await countStaged(target, context)
  return obtained.staged
}

async function countStaged(name: string, { staging, metrics }: StepContext): Promise<void> {
  const file = await staging.open(name)
  if (file === null) return
  metrics.bytes('stage', file.size)
  await file.close()
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
  target: string,
  context: StepContext,
  download: Pick<SourceContext, 'leftMs' | 'onProgress'> = { leftMs: 0, onProgress: () => undefined },
): Promise<string> {
  const { staging, uploads, guard, bounds, signal } = context
  return sourceOf(document)(document, { staging, target, uploads, guard, bounds, signal, ...download })
}

interface Progress {
  'download.bytes_received': number
  'download.bytes_expected': number | null
}

/** One try of a download, its progress in the import once a second. Null when the import is no longer this engine's. */
async function download(
  document: ImportDocument,
  target: string,
  step: Step,
  context: StepContext,
): Promise<(Progress & { staged: string }) | null> {
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
    const staged = await obtain(document, target, context, { leftMs, onProgress })
    context.metrics.downloadAttempt('ok')
    return { ...progress, staged }
  } catch (error) {
    const isTry = error instanceof ImportError && !context.signal.aborted
    if (isTry) {
      context.metrics.downloadAttempt(error.retryable ? 'failed' : 'refused')
      context.metrics.downloadFailed(schemeOf(document.source.url!), downloadFailureOf(error))
    }
    throw error
  } finally {
    clearInterval(shown)
  }
}

async function split(
  work: { document: ImportDocument; plan: ImportPlan; source: string },
  step: Step,
  context: StepContext,
): Promise<void> {
  const { document, plan } = work
  const { staging, pool, log, signal } = context
  await refuseIfWrittenInto(document, work.source, context.uploads)
  const partition = stagedPartition(document._id, randomUUID())
  const second: SecondThread = {
    source: work.source,
    output: `${partition}-tail`,
    leastBytes: context.twoThreadsFrom,
    scan: (task) => pool.runTail(task),
    onBrokenOff: (error) => {
      if (!signal.aborted)
        log.warn(`a worker's part of a split broke off, it is done without: ${messageOf(error)}`)
    },
  }
  const source = await staging.open(work.source)
  if (source === null)
    throw new ImportError('source_missing', 'the staged file is gone: was DATA_DIR/staging emptied?')
  try {
    const output = await staging.create(partition)
    try {
      const result = await splitFile({
        source,
        output,
        reopen: (tail) => reopen(staging, partition, tail),
        second,
        plan,
        format: contentFormat(document),
        signal,
        // Whatever came of it, it came of another file if this one was written into.
      }).finally(() => refuseIfWrittenInto(document, work.source, context.uploads))
      context.metrics.bytes('split', source.size)
      await enterImporting(document, plan, step, context, { result, partition })
    } finally {
      await output.close()
    }
  } finally {
    await source.close()
  }
  await leaveOnly(partition, document._id, context)
}

/** The source, and what was left of tries that were killed, is of no use once there are chunks. */
async function leaveOnly(partition: string, importId: number, context: StepContext): Promise<void> {
  const { staging, uploads, log, signal } = context
  if (signal.aborted) return
  const current = await context.database.collections.imports.findOne(
    { _id: importId },
    { projection: { partition: 1, partition_tail: 1 } },
  )
  if (current?.partition !== partition) return
  const keep = [partition, ...(current.partition_tail === undefined ? [] : [current.partition_tail.name])]
  await staging.removeImport(importId, { keep }).catch((error: unknown) => {
    log.debug({ import_id: importId }, `a staged source stays until the import's end: ${messageOf(error)}`)
  })
  await uploads.unpin(importId).catch(() => undefined)
}

async function reopen(staging: Staging, partition: string, tail: PartitionTail | null): Promise<Partition> {
  const file = await openPartition(staging, { partition, ...(tail === null ? {} : { partition_tail: tail }) })
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
      ...(result.tail === null ? {} : { partition_tail: result.tail }),
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

  const counts = await countsOfChunks(context.database.collections, document._id)
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
  const totals = await countsOfChunks(context.database.collections, document._id)
  if (!(await finishImport(collections, step, totals))) return
  context.metrics.stageEnded('finish', (clock.monotonicMs() - startedAt) / 1000)
  // The beginning was told by the database's clock.
  const wholeMs = clock.now().getTime() - (document.started_at?.getTime() ?? Infinity)
  context.metrics.stageEnded('import', Math.max(0, wholeMs) / 1000)
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

/** Clears up after an ended import for which no chunk is held any more. */
export async function removeWorkingData(
  importId: number,
  context: Pick<StepContext, 'database' | 'staging' | 'uploads' | 'log'>,
): Promise<void> {
  const { staging, uploads } = context
  await Promise.all([staging.removeImport(importId), uploads.unpin(importId)]).catch((error: unknown) => {
    context.log.warn(
      { import_id: importId },
      `staged files can't be removed, the sweep tries again later: ${messageOf(error)}`,
    )
  })
  await deleteChunks(context.database.collections, importId)
}
