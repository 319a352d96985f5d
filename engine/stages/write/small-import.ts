import { errorMessage } from '../../../shared/contract/errors.ts'
import {
  maxFaults,
  noCounts,
  recordsIn,
  type FaultCount,
  type ImportCounts,
} from '../../../shared/contract/schemas/import.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { MemoryFile } from '../../../shared/storage/staging/memory-file.ts'
import { finishSmallImport } from '../../../shared/store/imports.ts'
import type { SmallImportReport, SmallImportTask } from '../../workers/messages.ts'
import { BatchDraft } from './batch-draft.ts'
import { readBatchStart } from './batch-reads.ts'
import { recordTriggeredByBatch, writeLogs, writeSubscribers } from './batch-writer.ts'
import { readBatches, type ChunkBatch } from './chunk-batches.ts'
import { addCounts, ChunkRun, type ChunkRunOptions } from './chunk-run.ts'
import { isFinalizedAtEnd } from '../finish/finalize-import.ts'
import { addFaults } from './fault-counts.ts'
import { importContext } from './import-context.ts'
import { runTransaction, type Attempt } from './transaction.ts'

/**
 * Writes a small import whole: its rows, log lines, counts and end in one transaction, under the token of its step. Its
 * chunks are never stored, so that a crash leaves an import that any engine begins anew.
 *
 * Under a subscriber limit, or where its rows become too many bytes, nothing is written so, and the import's step stores
 * chunks as for a large one.
 */
export async function writeSmallImport(
  options: ChunkRunOptions,
  task: SmallImportTask,
): Promise<SmallImportReport> {
  const { lane, isStopped } = options
  const context = importContext(task.document)
  // The task may have waited for a lane until its step was aborted. The read says that it waits no more.
  if (isStopped() || context === null) return { end: 'lost' }
  const partition = new MemoryFile(task.bytes)
  const startedAt = clock.monotonicMs()
  try {
    const parts: SmallPart[] = []
    for (const chunk of task.chunks) {
      const run = new ChunkRun(options, { ...chunk, token: task.token }, context)
      // The two chunks of an import are in memory at once, each in a buffer of its own.
      const [batch, second] = await Array.fromAsync(
        readBatches(chunk, partition, { ...lane, buffer: Buffer.alloc(0) }),
      )
      if (batch === undefined || second !== undefined)
        return { end: 'not_written', reason: 'it has several batches' }
      parts.push({ run, batch })
    }
    const transaction = await runTransaction({
      session: lane.session,
      isStopped,
      timeoutMs: smallTimeoutMs,
      onRetry: (reason) => {
        for (const { run } of parts) run.countRetry(reason)
      },
      attempt: () => attemptAll(options, task, parts),
    })
    if (transaction.end === 'aborted') return transaction.reason
    if (transaction.end !== 'committed') return { end: 'not_written', reason: transaction.end }
    const { drafts, ...ended } = transaction.value
    for (const [i, { run, batch }] of parts.entries()) {
      run.reportCommit(drafts[i]!, batch.offsets.length, startedAt)
      await recordTriggeredByBatch(run, drafts[i]!)
    }
    return { end: 'finished', ...ended }
  } catch (error) {
    return { end: 'not_written', reason: errorMessage(error) }
  }
}

/** Everything of the import that is inside its transaction. */
async function attemptAll(
  { database: { collections }, lane }: ChunkRunOptions,
  { document, token }: SmallImportTask,
  parts: SmallPart[],
): Promise<Attempt<SmallImportEnd, SmallImportReport>> {
  const { plan, beginning, number_of_records, header, warnings } = document
  const drafts: BatchDraft[] = []
  let counts = noCounts()
  let faults: FaultCount[] = []
  for (const { run, batch } of parts) {
    const draft = new BatchDraft(run.context, run.chunk, lane.batchBuffers, {
      ...(await readBatchStart(run, batch)),
      ...{ position: 0, lastIdentity: null, isTooLarge: false, maxQuota: Infinity },
    })
    if (draft.fill(batch) !== null)
      return { abort: { end: 'not_written', reason: 'its rows are too many bytes' } }
    if (draft.quotaUsed > 0 && plan?.has_subscriber_limit === true)
      return { abort: { end: 'not_written', reason: 'its organization has a limit' } }
    await writeLogs(run, draft)
    if (!document.options.dry_run) await writeSubscribers(run, draft)
    counts = addCounts(counts, draft.counts)
    faults = addFaults(faults, draft.faults.all)
    drafts.push(draft)
  }
  if (recordsIn(counts) !== number_of_records)
    return { abort: { end: 'not_written', reason: 'its counts are wrong' } }
  const ended = await finishSmallImport(
    collections,
    lane.session,
    // A limit that was set since the claim has raised its step_writes.
    { id: document._id, token, stepWrites: document.step_writes },
    { plan, beginning, number_of_records, header, warnings },
    { counts, faults: boundedFaults(faults), isFinalized: isFinalizedAtEnd(document) },
  )
  return ended === null ? { abort: { end: 'lost' } } : { commit: { drafts, counts, ...ended } }
}

/** As the sums of stored chunks are cut. */
const boundedFaults = (faults: FaultCount[]): FaultCount[] =>
  faults.sort((a, b) => b.rows - a.rows || a.first.record - b.first.record).slice(0, maxFaults)

interface SmallImportEnd {
  drafts: BatchDraft[]
  at: Date
  counts: ImportCounts
  keptBytes: number
}

interface SmallPart {
  run: ChunkRun
  batch: ChunkBatch
}

/** No further attempt begins after this time. */
const smallTimeoutMs = 10_000
