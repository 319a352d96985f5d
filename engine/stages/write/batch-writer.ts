import { deflateSync } from 'node:zlib'
import type { ClientSession, Db } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import { databaseTime } from '../../../shared/runtime/database.ts'
import { batchRecords, identitiesOf, type Batch } from '../../../shared/csv/chunk-records.ts'
import { endOfRecordAt } from '../../../shared/csv/partition-file.ts'
import type { ExistingSubscriber } from '../../../shared/csv/row-decision.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import {
  outcomeId,
  type ChunkDocument,
  furtherCounts,
  logKinds,
  type ImportCounts,
  type LogKind,
} from '../../../shared/contract/schemas/import.ts'
import { advanceChunk } from '../../../shared/store/chunks.ts'
import { dropReactionsInList, noteTriggered } from '../../../shared/store/reactions.ts'
import { countMovesOfLane } from '../../../shared/store/subscriber-counts.ts'
import { findValueSizes, isDocumentTooLarge, type ValueSizes } from '../../../shared/store/value-bytes.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import { BatchDraft, BatchTooLarge, longRowBytes, recordsWithin, type BatchBuffers } from './batch-draft.ts'
import { insertBson, updateBson } from './bson-commands.ts'
import { ChunkQuota, QuotaMissing } from './chunk-quota.ts'
import { findExisting } from './existing-subscribers.ts'
import type { ImportContext } from './import-context.ts'
import { BatchAbandoned, runTransaction, TooManyConflicts, type RetryReason } from './transaction.ts'

export interface BatchWriterOptions {
  db: Db
  collections: Collections
  session: ClientSession
  /** The counter stripe that no other lane writes. */
  stripe: string
  /** The lane's memory for what a batch writes. */
  buffers: BatchBuffers
  context: ImportContext
  chunk: ChunkDocument & { token: string }
  /** Reads the organization's subscriber limit. */
  limit: () => Promise<number | null>
  isStopped: () => boolean
  /** Asks the database. */
  isImporting: () => Promise<boolean>
  onCommit: (report: BatchReport) => void
}

/** A committed batch, for the metrics. Plain values, which cross threads. */
export interface BatchReport {
  counts: ImportCounts
  /** Bytes of its records in the import's file, line ends left out. */
  bytes: number
  /** From its first read to its commit. */
  writeMs: number
  /** Attempts that were aborted before, by reason. */
  retries: Partial<Record<RetryReason, number>>
}

/** The lease is renewed with every batch; a batch that takes longer than this is given up before it runs out. */
const batchTimeoutMs = 40_000

/** Longer than that without a commit: the process may have been suspended, and the import paused unheard. */
const suspiciousGapMs = 1_000

/** Attempts of a batch that fail because others write the same rows, before it is cut into smaller ones. */
const maxConflictRetries = 2

/**
 * Writes the batches of one chunk, one after the other, each in one transaction: the subscribers, the lane's stripe
 * of the counts, the log lines, and the chunk's own progress under its token. They commit together or not at all, so
 * a batch that is done again after a crash finds either everything of its first time or nothing.
 */
export class BatchWriter {
  readonly #options: BatchWriterOptions
  readonly #quota: ChunkQuota
  #chunkCounts: ImportCounts
  #readsExisting: boolean
  #readsReactions = false
  /** Identity of the last record that was written. */
  #lastIdentity: string | null = null
  /** Records of the chunk before the batch: their subscriber ids are spoken for. */
  #position = 0
  /** Records of the next batch at most: fewer for a while after conflicts. */
  #size = batchRecords
  /** Records of any further batch of the chunk at most, by what they write. */
  #largest = batchRecords
  /** Attempts since the last commit that were in vain, by reason. */
  #retries: BatchReport['retries'] = {}
  /**
   * When the last commit was sent, not when it was answered: a suspended process reads the answer long after. Before the
   * first one it is long ago: the process may have been suspended between the claim of the chunk and its beginning.
   */
  #lastCommitAt = -Infinity
  /** When all of the batch was written but the commit, on the monotonic clock. */
  #readyAt = 0

  constructor(options: BatchWriterOptions) {
    this.#options = options
    this.#quota = new ChunkQuota(options)
    this.#chunkCounts = options.chunk.counts
    this.#readsExisting = !options.context.plan.list_was_empty
    const { updated } = options.context.defaultBytes
    if (updated > longRowBytes) this.#size = this.#largest = recordsWithin(updated)
  }

  /** Goes on after so many records of the chunk, which are done; `lastIdentity` is that of the last of them. */
  resumeAfter(records: number, lastIdentity: string | null): void {
    this.#lastIdentity = lastIdentity
    this.#position = records
  }

  /**
   * Writes the chunk's next records, as one batch or, while others write the same rows all the time and where rows
   * become large, as smaller ones. A record whose subscriber the database finds too large is found that way too, and
   * fails.
   * False when they weren't all written: stopped, or the chunk is somebody else's now. Throws what no further attempt
   * would mend.
   */
  async write(batch: Batch, isLast: boolean): Promise<boolean> {
    const total = batch.offsets.length
    /** The record that the database refused for what its subscriber would hold. */
    let refused = -1
    for (let done = 0; done < total;) {
      if (this.#options.isStopped()) return false
      const offsets = batch.offsets.subarray(done, done + this.#size)
      const isEnd = isLast && done + offsets.length === total
      try {
        const part = { offsets, bytes: batch.bytes }
        if (!(await this.#writePart({ batch: part, isLast: isEnd, isTooLarge: done === refused })))
          return false
        done += offsets.length
        this.#size = Math.min(this.#largest, Math.ceil(this.#size * 1.25))
      } catch (error) {
        if (error instanceof BatchTooLarge) this.#size = this.#largest = error.fitting
        else if (isDocumentTooLarge(error) && offsets.length === 1 && done !== refused) refused = done
        else if (error instanceof TooManyConflicts || (isDocumentTooLarge(error) && offsets.length > 1))
          this.#size = Math.max(1, Math.floor(offsets.length / 4))
        else throw error
      }
    }
    return true
  }

  async #writePart(work: BatchWork): Promise<boolean> {
    const { collections, chunk, context, onCommit } = this.#options
    const startedAt = clock.monotonicMs()
    const records = work.batch.offsets.length
    await this.#quota.prepare(records, chunk.record_count - this.#position)
    const draft = await this.#commit(work)
    if (draft === null) return false
    this.#lastCommitAt = this.#readyAt
    this.#lastIdentity = draft.lastIdentity
    this.#position += records
    this.#chunkCounts = sumCounts(this.#chunkCounts, draft.counts)
    this.#quota.take(draft.quotaUsed)
    const writeMs = clock.monotonicMs() - startedAt
    onCommit({ counts: draft.counts, bytes: draft.bytesRead, writeMs, retries: this.#retries })
    this.#retries = {}
    // The batch is written whatever becomes of this; the next one notes it then.
    const when = { zone: context.plan.time_zone_name, at: draft.now }
    await noteTriggered(collections, draft.triggered, when).catch(() => undefined)
    return true
  }

  /** In one transaction; again, when it turns out that rows need more places than the chunk holds. */
  async #commit(work: BatchWork): Promise<BatchDraft | null> {
    for (;;) {
      try {
        return await this.#commitOnce(work)
      } catch (error) {
        if (!(error instanceof QuotaMissing)) throw error
        if (!(await this.#quota.waitFor(error.needed))) return null
      }
    }
  }

  async #commitOnce(work: BatchWork): Promise<BatchDraft | null> {
    const { session, isStopped } = this.#options
    let draft: BatchDraft | null = null
    const committed = await runTransaction({
      session,
      isStopped,
      timeoutMs: batchTimeoutMs,
      maxConflictRetries: work.batch.offsets.length === 1 ? Infinity : maxConflictRetries,
      onRetry: (reason) => {
        this.#retries[reason] = (this.#retries[reason] ?? 0) + 1
        // Somebody made a subscriber of this list since the import began: from now on every batch looks first.
        // Or a subscriber that the import has met before goes by another identity now, and has its reactions already.
        if (reason === 'duplicate_key') this.#readsExisting = this.#readsReactions = true
      },
      attempt: async () => {
        draft = null
        draft = await this.#attempt(work)
      },
    })
    return committed ? draft : null
  }

  async #attempt({ batch, isLast, isTooLarge }: BatchWork): Promise<BatchDraft> {
    const { db, collections, session, chunk, context, buffers } = this.#options
    const [existing, now] = await Promise.all([
      this.#findExisting(batch),
      // Reactions are sent by the database's clock. Else the time is only shown.
      context.reactionsPerRecord === 0 ? clock.now() : databaseTime(db),
    ])
    const draft = new BatchDraft(context, chunk, buffers, {
      now,
      position: this.#position,
      lastIdentity: this.#lastIdentity,
      existing,
      valueSizes: await this.#findValueSizes(batch, existing),
      isTooLarge,
      reactions: await this.#findReactions(existing),
      maxQuota: this.#quota.isExhausted ? this.#quota.free : Infinity,
    })
    draft.take(batch)
    if (draft.quotaUsed > this.#quota.free) throw new QuotaMissing(draft.quotaUsed)
    // First of the writes: who lost the chunk is told before he meets what the new holder wrote.
    const isOurs = await advanceChunk(collections, session, {
      chunk,
      from: this.#position,
      to: this.#position + batch.offsets.length,
      isLast,
      counts: sumCounts(this.#chunkCounts, draft.counts),
      quota: this.#quota.after(draft.quotaUsed),
    })
    if (!isOurs) throw new BatchAbandoned('the chunk has another holder')
    await insertBson({ db, collection: collections.failures, session }, draft.buffers.failures)
    const logs = compressed(draft.logs)
    if (logs !== null)
      await collections.outcomes.insertOne(
        { _id: outcomeId(chunk._id, this.#position), logs },
        { session, bypassDocumentValidation: true },
      )
    // Last of the writes: requests that meet these rows wait from here to the commit.
    if (!context.document.options.dry_run) await this.#writeSubscribers(draft)
    if (clock.monotonicMs() - this.#lastCommitAt > suspiciousGapMs && !(await this.#options.isImporting()))
      throw new BatchAbandoned('the import was paused or has ended')
    this.#readyAt = clock.monotonicMs()
    return draft
  }

  async #findExisting(batch: Batch): Promise<Map<string, ExistingSubscriber>> {
    const { db, collections, session, chunk, context } = this.#options
    if (!this.#readsExisting || chunk.kind === 'unidentified') return new Map()
    const keys: string[] = []
    let last: string | null = null
    // Records of one identity follow each other.
    for (const identity of identitiesOf(batch)) {
      if (identity !== last) keys.push(subscriberKey(context.document.mailing_list_id, identity))
      last = identity
    }
    return findExisting({ db, collections, session, keys, projection: context.decider.projection })
  }

  /**
   * Of those subscribers that long rows are about, what they hold. Short rows are spared this: only very many of them
   * make a subscriber too large, and then the database says so.
   */
  async #findValueSizes(batch: Batch, existing: Map<string, ExistingSubscriber>): Promise<ValueSizes> {
    const { collections, session, context } = this.#options
    const { options, mailing_list_id: listId } = context.document
    if (existing.size === 0 || !options.overwrite || !options.overwrite_what.custom_fields) return new Map()
    const longest = longRowBytes - context.defaultBytes.updated
    const long = batch.offsets.filter((offset) => endOfRecordAt(batch.bytes, offset) - offset > longest)
    if (long.length === 0) return new Map()
    const identities = identitiesOf({ offsets: long, bytes: batch.bytes })
    const keys = [...identities].map((identity) => subscriberKey(listId, identity))
    return findValueSizes(collections, [...new Set(keys)], { session })
  }

  /** Reactions that this import has caused already to subscribers that are there; looked for once there may be any. */
  async #findReactions(existing: Map<string, ExistingSubscriber>): Promise<Set<string>> {
    const { collections, session, context } = this.#options
    const { document, reactions, reactionsPerRecord } = context
    if (!this.#readsReactions || reactionsPerRecord === 0 || !document.options.overwrite) return new Set()
    const keys = [...existing.values()].flatMap(({ id }) => reactions.idsOfUpdate(id))
    const found = await collections.reactions
      .find({ _id: { $in: keys } }, { session, projection: { _id: 1 }, batchSize: keys.length + 1 })
      .toArray()
    return new Set(found.map(({ _id }) => _id))
  }

  async #writeSubscribers({ buffers, leaving, statusChanges }: BatchDraft): Promise<void> {
    const { db, collections, session, stripe, context } = this.#options
    const { mailing_list_id: listId, organization_id: organizationId } = context.document
    const subscribers = { db, collection: collections.subscribers, session }
    await insertBson(subscribers, buffers.subscribers)
    await insertBson({ db, collection: collections.reactions, session }, buffers.reactions)
    await updateBson(subscribers, buffers.updates)
    await dropReactionsInList(collections, session, listId, leaving)
    const moved = { organizationId, listId, changes: statusChanges }
    await countMovesOfLane(collections, session, stripe, moved)
  }
}

interface BatchWork {
  batch: Batch
  isLast: boolean
  /** Its only record would make a subscriber too large. */
  isTooLarge: boolean
}

function sumCounts(a: ImportCounts, b: ImportCounts): ImportCounts {
  const sum = { ...a }
  for (const kind of logKinds) sum[kind] += b[kind]
  for (const kind of furtherCounts) if (b[kind] !== undefined) sum[kind] = (a[kind] ?? 0) + b[kind]
  return sum
}

/** At once: on another thread the lines of a batch cost more in going there and back than they save here. */
const compressed = (logs: [LogKind, Buffer][]): Record<string, Buffer> | null =>
  logs.length === 0
    ? null
    : Object.fromEntries(logs.map(([kind, lines]) => [kind, deflateSync(lines, { level: 1 })]))
