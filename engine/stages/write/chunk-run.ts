import { clock } from '../../../shared/runtime/clock.ts'
import { batchRecords } from '../../../shared/csv/chunk-records.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import {
  furtherCounts,
  logKinds,
  type FaultCount,
  type ImportCounts,
} from '../../../shared/contract/schemas/import.ts'
import type { HeldChunk } from '../../../shared/store/chunks.ts'
import { longRowBytes, recordsWithin, type BatchDraft } from './batch-draft.ts'
import { ChunkQuota } from './chunk-quota.ts'
import { addFaults, type FaultCounts } from './fault-counts.ts'
import type { ImportContext } from './import-context.ts'
import type { Lane } from './lane.ts'
import type { RetryReason } from './transaction.ts'

/** A committed batch, for the metrics. Plain values, which cross threads. */
export interface BatchReport {
  counts: ImportCounts
  /** Bytes of its records in the imported file, without line ends. */
  bytes: number
  /** From its first read to its commit. */
  writeMs: number
  /** Repeated attempts and repeated commits before this commit, by reason. */
  retries: Partial<Record<RetryReason, number>>
}

export interface ChunkRunOptions {
  database: Database
  lane: Lane
  isStopped: () => boolean
  onBatch: (report: BatchReport) => void
}

/** A leased chunk while it is written: what its batches share, and how far they got. */
export class ChunkRun {
  readonly database: Database
  readonly lane: Lane
  readonly chunk: HeldChunk
  readonly context: ImportContext
  readonly quota: ChunkQuota
  readonly size: BatchSize
  readonly isStopped: () => boolean
  readonly #onBatch: (report: BatchReport) => void
  /** Records of the chunk that are committed; their subscriber ids are used up. */
  position: number
  /** Identity of the last of them. */
  lastIdentity: string | null = null
  #counts: ImportCounts
  #faults: FaultCount[]
  /**
   * Whether batches read the existing subscribers. False while none can exist: the list was empty at the import's
   * start, and no duplicate key has shown one since.
   */
  readsExisting: boolean
  /** Batches read the reactions that this import has queued already. */
  readsReactions = false
  /** Repeated attempts and repeated commits since the last commit, by reason. */
  #retries: BatchReport['retries'] = {}
  /**
   * When the last commit was sent, on the monotonic clock; a suspended process reads its reply much later. It starts in
   * the far past, because the process may have been suspended since it claimed the chunk.
   */
  lastCommitAt = -Infinity
  /** When everything of the current attempt but the commit was written. */
  readyAt = 0

  constructor(options: ChunkRunOptions, chunk: HeldChunk, context: ImportContext) {
    const { database, lane, isStopped, onBatch } = options
    this.database = database
    this.lane = lane
    this.chunk = chunk
    this.context = context
    this.quota = new ChunkQuota({
      collections: database.collections,
      session: lane.session,
      chunk,
      isStopped,
    })
    const { updated } = context.defaultBytes
    this.size = new BatchSize(updated > longRowBytes ? recordsWithin(updated) : batchRecords)
    this.isStopped = isStopped
    this.#onBatch = onBatch
    this.position = chunk.next_record
    this.#counts = chunk.counts
    this.readsExisting = !context.plan.list_was_empty
    this.#faults = chunk.faults ?? []
  }

  countRetry(reason: RetryReason): void {
    this.#retries[reason] = (this.#retries[reason] ?? 0) + 1
    // Another writer has added a subscriber to this list since the import began. Or a subscriber that the import has
    // written before goes by another identity now, and has its reactions already.
    if (reason === 'duplicate_key') this.readsExisting = this.readsReactions = true
  }

  /** The chunk's counts once a batch with these is committed. */
  countsWith(counts: ImportCounts): ImportCounts {
    return addCounts(this.#counts, counts)
  }

  /** The chunk's faults once a batch with these is committed; null where the batch adds none. */
  faultsWith({ all }: FaultCounts): FaultCount[] | null {
    return all.length === 0 ? null : addFaults(this.#faults, all)
  }

  /** Moves on by the committed batch of `records`, which was begun at `startedAt`, and reports it. */
  reportCommit(
    { counts, faults, lastIdentity, quotaUsed, bytesRead }: BatchDraft,
    records: number,
    startedAt: number,
  ): void {
    this.lastCommitAt = this.readyAt
    this.lastIdentity = lastIdentity
    this.position += records
    this.#counts = this.countsWith(counts)
    this.#faults = this.faultsWith(faults) ?? this.#faults
    this.quota.use(quotaUsed)
    const writeMs = clock.monotonicMs() - startedAt
    this.#onBatch({ counts, bytes: bytesRead, writeMs, retries: this.#retries })
    this.#retries = {}
  }
}

/** The sums of both. */
export function addCounts(counted: ImportCounts, added: ImportCounts): ImportCounts {
  const sum = { ...counted }
  for (const kind of logKinds) sum[kind] += added[kind]
  for (const kind of furtherCounts)
    if (added[kind] !== undefined) sum[kind] = (counted[kind] ?? 0) + added[kind]
  return sum
}

/** How many records the next part of a batch has. */
class BatchSize {
  #next: number
  #max: number

  constructor(max: number) {
    this.#next = this.#max = max
  }

  get next(): number {
    return this.#next
  }

  /** After a commit. */
  grow(): void {
    this.#next = Math.min(this.#max, Math.ceil(this.#next * 1.25))
  }

  /** After a batch of `records` failed with write conflicts or for a subscriber that is too large. */
  shrink(records: number): void {
    this.#next = Math.max(1, Math.floor(records / 4))
  }

  /** For the rest of the chunk. */
  limitTo(records: number): void {
    this.#next = this.#max = records
  }
}
