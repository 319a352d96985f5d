import { clock } from '../shared/runtime/clock.ts'
import { isCommandTimeout } from '../shared/runtime/driver-errors.ts'
import { ImportError, errorMessage } from '../shared/contract/errors.ts'
import { identityAt, type Batch } from '../shared/csv/chunk-records.ts'
import { openPartition } from '../shared/csv/partition-file.ts'
import type { Staging } from '../shared/storage/staging/staging.ts'
import { advanceChunk, readLeasedChunk } from '../shared/store/chunks.ts'
import { readState } from '../shared/store/imports.ts'
import { isDocumentTooLarge } from '../shared/store/value-bytes.ts'
import { BatchDraft } from './stages/write/batch-draft.ts'
import { readBatchStart } from './stages/write/batch-reads.ts'
import { recordTriggeredByBatch, writeLogs, writeSubscribers } from './stages/write/batch-writer.ts'
import { readBatches, type ChunkBatch } from './stages/write/chunk-batches.ts'
import { ChunkRun, type ChunkRunOptions } from './stages/write/chunk-run.ts'
import type { ImportContext } from './stages/write/import-context.ts'
import { retryReason, runTransaction, type Attempt } from './stages/write/transaction.ts'
import type { ChunkReport, ChunkTask } from './workers/messages.ts'

/**
 * A leased chunk from its first read to its last commit, in a worker thread:
 *
 *   read      its records, those of one identity together, cut into batches     processChunk, chunk-batches.ts
 *   reserve   part of the organization's subscriber limit                        commitPart, chunk-quota.ts
 *   dedupe    the first record of an identity counts, later ones are skipped     BatchDraft.fill, batch-draft.ts
 *   decide    a row is added, updated, skipped or failed, and made a document     BatchDraft.fill, batch-draft.ts
 *   write     the chunk's progress, log lines, subscribers, reactions, counts    attemptPart, batch-writer.ts
 *   commit    all of a part or nothing                                           commitPart, transaction.ts
 *
 * Quota is reserved before the rows of a part are decided, and again when they turn out to need more.
 *
 * Each part also writes the chunk's progress, under the lease's token. So the part of a worker that lost the chunk
 * doesn't commit, and the next holder resumes behind the last part that did.
 */

export async function processChunk(options: ProcessChunkOptions): Promise<ChunkReport> {
  const { database, staging, lane, task, isStopped } = options
  try {
    const chunk = await readLeasedChunk(database.collections, task.chunkId, task.token)
    const context = await options.importContext(task.importId)
    if (chunk === null || context === null) return { end: 'lost' }
    const partition = await openPartition(staging, context.document)
    try {
      const run = new ChunkRun(options, chunk, context)
      let start = 0
      for await (const batch of readBatches(chunk, partition, lane)) {
        // A full disk stops the chunk in the middle; the next claim resumes at this batch.
        if ((await staging.spaceProblem()) !== null) return { end: 'stopped' }
        const isWritten = await writeBatch(run, batch, start)
        if (!isWritten) return { end: isStopped() ? 'stopped' : 'lost' }
        start += batch.offsets.length
      }
      return { end: 'done' }
    } finally {
      await partition.close()
    }
  } catch (error) {
    return {
      end: 'failed',
      message: errorMessage(error),
      retryable: isRetryable(error),
      code: error instanceof ImportError ? error.code : null,
      isMissing: error instanceof ImportError && error.isMissing,
    }
  }
}

/**
 * Writes the records of a batch that aren't committed yet, in parts: usually one, smaller ones after write conflicts
 * and where rows become many bytes. `start` is the batch's position in the chunk. False when the chunk was stopped or
 * lost.
 */
async function writeBatch(run: ChunkRun, batch: ChunkBatch, start: number): Promise<boolean> {
  const { offsets, bytes } = batch
  let done = Math.min(offsets.length, run.position - start)
  const lastDone = offsets[done - 1]
  if (lastDone !== undefined && run.chunk.kind !== 'unidentified')
    run.lastIdentity = identityAt(bytes, lastDone)
  /** Index of the record that the database refused because its subscriber would be too large. */
  let oversized = -1
  while (done < offsets.length) {
    if (run.isStopped()) return false
    const next = offsets.subarray(done, done + run.size.next)
    const isLast = batch.isLast && done + next.length === offsets.length
    const part = { batch: { offsets: next, bytes }, isLast, isTooLarge: done === oversized }
    const result = await commitPart(run, part)
    if (result.end === 'given_up') return false
    if (result.end === 'committed') {
      done += next.length
      run.size.grow()
    } else if (result.end === 'too_many_bytes') run.size.limitTo(result.fitting)
    else if (result.end === 'document_too_large' && next.length === 1) oversized = done
    else run.size.shrink(next.length)
  }
  return true
}

/** Reserves quota for a part and commits it, with retries. */
async function commitPart(run: ChunkRun, part: Part): Promise<PartEnd> {
  const startedAt = clock.monotonicMs()
  const records = part.batch.offsets.length
  await run.quota.prepare(records, run.chunk.record_count - run.position)
  try {
    for (;;) {
      const transaction = await runTransaction({
        session: run.lane.session,
        isStopped: run.isStopped,
        timeoutMs: batchTimeoutMs,
        isDivisible: records > 1,
        onRetry: (reason) => run.countRetry(reason),
        attempt: () => attemptPart(run, part),
      })
      if (transaction.end === 'committed') {
        run.reportCommit(transaction.value, records, startedAt)
        await recordTriggeredByBatch(run, transaction.value)
        return transaction
      }
      if (transaction.end === 'stopped') return { end: 'given_up' }
      if (transaction.end === 'conflicts') return transaction
      if (transaction.reason.end !== 'quota_missing') return transaction.reason
      if (!(await run.quota.waitFor(transaction.reason.needed))) return { end: 'given_up' }
    }
  } catch (error) {
    if (!isDocumentTooLarge(error) || part.isTooLarge) throw error
    return { end: 'document_too_large' }
  }
}

/** Everything of a part that is inside its transaction. */
async function attemptPart(
  run: ChunkRun,
  { batch, isLast, isTooLarge }: Part,
): Promise<Attempt<BatchDraft, PartAbort>> {
  const { database, lane, chunk, context, quota, position } = run
  const draft = new BatchDraft(context, chunk, lane.batchBuffers, {
    ...(await readBatchStart(run, batch)),
    position,
    lastIdentity: run.lastIdentity,
    isTooLarge,
    maxQuota: quota.isExhausted ? quota.free : Infinity,
  })
  const fitting = draft.fill(batch)
  if (fitting !== null) return { abort: { end: 'too_many_bytes', fitting } }
  if (draft.quotaUsed > quota.free) return { abort: { end: 'quota_missing', needed: draft.quotaUsed } }
  // Progress is written first, so that a worker that lost its lease fails here and not in a conflict with the new
  // holder.
  const isLeased = await advanceChunk(database.collections, lane.session, {
    chunk,
    from: position,
    to: position + batch.offsets.length,
    isLast,
    counts: run.countsWith(draft.counts),
    faults: run.faultsWith(draft.faults),
    quota: quota.after(draft.quotaUsed),
  })
  if (!isLeased) return { abort: { end: 'given_up' } }
  await writeLogs(run, draft)
  // Subscribers are written last: requests that write the same ones wait from here to the commit.
  if (!context.document.options.dry_run) await writeSubscribers(run, draft)
  const isSuspicious = clock.monotonicMs() - run.lastCommitAt > suspiciousGapMs
  if (isSuspicious && (await readState(database.collections, chunk.import_id)) !== 'importing')
    return { abort: { end: 'given_up' } }
  run.readyAt = clock.monotonicMs()
  return { commit: draft }
}

interface ProcessChunkOptions extends ChunkRunOptions {
  staging: Staging
  task: ChunkTask
  importContext: (importId: number) => Promise<ImportContext | null>
}

/** No further attempt of a part begins after this time. The lease, which commits and reservations renew, lasts longer. */
export const batchTimeoutMs = 40_000

/** After this time without a commit the process may have been suspended, and the import paused meanwhile. */
const suspiciousGapMs = 1_000

/** Records that one transaction writes. */
interface Part {
  batch: Batch
  /** With this part the chunk is done. */
  isLast: boolean
  /** The database refused its only record for its size. */
  isTooLarge: boolean
}

type PartEnd =
  | { end: 'committed' }
  /** It would write too much; its first `fitting` records would not. */
  | { end: 'too_many_bytes'; fitting: number }
  /** The database refused a subscriber for its size. */
  | { end: 'document_too_large' }
  | { end: 'conflicts' }
  /** The chunk was stopped or lost, or its import no longer runs. */
  | { end: 'given_up' }

/** Only the attempt finds out how much quota its rows need. */
type PartAbort =
  Extract<PartEnd, { end: 'too_many_bytes' | 'given_up' }> | { end: 'quota_missing'; needed: number }

/**
 * Whether another claim may succeed after the retries of a transaction didn't. A duplicate key or a command timeout would
 * come back.
 */
const isRetryable = (error: unknown): boolean => {
  const reason = retryReason(error)
  return reason !== null && reason !== 'duplicate_key' && !isCommandTimeout(error)
}
