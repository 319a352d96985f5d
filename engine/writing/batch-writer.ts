import { promisify } from 'node:util'
import { deflate } from 'node:zlib'
import type { AnyBulkWriteOperation, ClientSession } from 'mongodb'
import type { Collections } from '../../shared/schemas/collections.ts'
import {
  failureId,
  noCounts,
  outcomeId,
  type ChunkDocument,
  type FailureDocument,
  type ImportCounts,
  type ImportOptions,
  type LogKind,
} from '../../shared/schemas/import.ts'
import {
  subscriberStatuses,
  type SubscriberDocument,
  type SubscriberStatus,
} from '../../shared/schemas/subscriber.ts'
import { advanceChunk } from '../../shared/store/chunks.ts'
import { subscriberKey } from '../../shared/values/identity.ts'
import { writeLine } from '../../shared/values/csv-line.ts'
import type { ReadRecord } from '../rows/chunk-records.ts'
import type { ExistingSubscriber, RowDecider } from '../rows/row-decision.ts'
import type { Row, RowReader } from '../rows/row-reader.ts'
import { BatchAbandoned, retryReason, runTransaction } from './transaction.ts'

/**
 * Writes the batches of one chunk, one after the other, each in one transaction: the subscribers, the lane's stripe
 * of the counts, the log lines, and the chunk's own progress under its token. They commit together or not at all, so
 * a batch that is done again after a crash finds either everything of its first time or nothing.
 */
export interface BatchWriterOptions {
  collections: Collections
  session: ClientSession
  /** The counter stripe that no other lane writes. */
  stripe: string
  importId: number
  organizationId: number
  mailingListId: number
  options: ImportOptions
  listWasEmpty: boolean
  columnCount: number
  reader: RowReader
  decider: RowDecider
  chunk: ChunkDocument & { token: string }
  isStopped: () => boolean
}

/** What a batch's commit took, for the metrics. */
export interface BatchCommit {
  counts: ImportCounts
  writeMs: number
  retries: Record<string, number>
}

/** A record that is neither a duplicate nor faulty: what becomes of it depends on the database. */
interface Candidate {
  record: ReadRecord
  identity: string
  key: string
  row: Row
  newId: number
}

/** A record whose fate is known before the database is asked, or a candidate, in the batch's order. */
type Entry =
  | { candidate: Candidate }
  | { record: ReadRecord; result: 'skipped_duplicate' }
  | { record: ReadRecord; result: 'failed'; reason: string }

/** The lease is renewed with every batch; a batch that takes longer than this is given up before it runs out. */
const batchPatienceMs = 40_000

export class BatchWriter {
  readonly #options: BatchWriterOptions
  #chunkCounts: ImportCounts
  #looksForExisting: boolean
  /** Identity of the last record looked at: records of one identity follow each other, also across batches. */
  #lastIdentity: string | null = null
  /** Records of the chunk before the batch: their subscriber ids are spoken for. */
  #position = 0

  constructor(options: BatchWriterOptions) {
    this.#options = options
    this.#chunkCounts = options.chunk.counts
    this.#looksForExisting = !options.listWasEmpty
  }

  /** Passes over a batch that committed before; `lastIdentity` is that of its last record. */
  skip(records: number, lastIdentity: string | null): void {
    this.#lastIdentity = lastIdentity
    this.#position += records
  }

  /**
   * Writes a batch. Null when it wasn't written: stopped, or the chunk is somebody else's now. Throws what no further
   * attempt would mend.
   */
  async write(batch: number, records: readonly ReadRecord[], isLast: boolean): Promise<BatchCommit | null> {
    const { session, isStopped } = this.#options
    const entries = records.map((record, i) =>
      this.#judge(record, this.#options.chunk.first_subscriber_id + this.#position + i),
    )
    const retries: Record<string, number> = {}
    const startedAt = performance.now()
    let counts = noCounts()
    const committed = await runTransaction({
      session,
      isStopped,
      patienceMs: batchPatienceMs,
      onRetry: (reason) => {
        retries[reason] = (retries[reason] ?? 0) + 1
        // Somebody made a subscriber of this list since the import began: from now on every batch looks first.
        if (reason === retryReasons.duplicateKey) this.#looksForExisting = true
      },
      attempt: async () => {
        counts = await this.#attempt(batch, entries, isLast)
      },
    })
    if (!committed) return null
    this.#position += records.length
    this.#chunkCounts = sumCounts(this.#chunkCounts, counts)
    return { counts, writeMs: performance.now() - startedAt, retries }
  }

  /** What can be said of a record without the database. */
  #judge(record: ReadRecord, newId: number): Entry {
    const { identity } = record
    if (identity !== null && identity === this.#lastIdentity) return { record, result: 'skipped_duplicate' }
    this.#lastIdentity = identity
    if (record.problem !== null) return { record, result: 'failed', reason: record.problem }
    if (identity === null)
      return { record, result: 'failed', reason: this.#options.reader.identityProblem(record.cells) }
    const row = this.#options.reader.read(record.cells)
    if (typeof row === 'string') return { record, result: 'failed', reason: row }
    return {
      candidate: { record, identity, key: subscriberKey(this.#options.mailingListId, identity), row, newId },
    }
  }

  async #attempt(batch: number, entries: Entry[], isLast: boolean): Promise<ImportCounts> {
    const { collections, session, chunk, options } = this.#options
    const existing = await this.#findExisting(entries)
    const changes = this.#decide(entries, existing)
    // First of the writes: who lost the chunk is told before he meets what the new holder wrote.
    const isOurs = await advanceChunk(collections, session, {
      chunk,
      batch,
      isLast,
      counts: sumCounts(this.#chunkCounts, changes.counts),
    })
    if (!isOurs) throw new BatchAbandoned('the chunk has another holder')
    if (!options.dry_run) await this.#writeSubscribers(changes)
    if (changes.failures.length > 0)
      await collections.failures.insertMany(changes.failures, {
        session,
        ordered: true,
        bypassDocumentValidation: true,
      })
    const logs = await compressLogs(changes.logs)
    if (logs !== null)
      await collections.outcomes.insertOne(
        { _id: outcomeId(chunk._id, batch), logs },
        { session, bypassDocumentValidation: true },
      )
    return changes.counts
  }

  async #findExisting(entries: Entry[]): Promise<Map<string, ExistingSubscriber>> {
    const { collections, session, decider } = this.#options
    if (!this.#looksForExisting) return new Map()
    const keys = entries.flatMap((entry) => ('candidate' in entry ? [entry.candidate.key] : []))
    if (keys.length === 0) return new Map()
    const found = await collections.subscribers
      .find({ _id: { $in: keys } }, { session, projection: decider.projection, batchSize: keys.length + 1 })
      .toArray()
    return new Map(found.map((subscriber) => [subscriber._id, subscriber]))
  }

  #decide(entries: Entry[], existing: Map<string, ExistingSubscriber>): Changes {
    const now = new Date()
    const changes: Changes = {
      inserts: [],
      updates: [],
      statusChanges: noStatusChanges(),
      failures: [],
      logs: {},
      counts: noCounts(),
    }
    for (const entry of entries) {
      if (!('candidate' in entry)) {
        if (entry.result === 'failed') this.#fail(changes, entry.record, entry.reason)
        else this.#log(changes, entry.result, entry.record)
        continue
      }
      const { candidate } = entry
      const decision = this.#options.decider.decide(
        { identity: candidate.identity, row: candidate.row, newId: candidate.newId, now },
        existing.get(candidate.key),
      )
      switch (decision.result) {
        case 'failed':
          this.#fail(changes, candidate.record, decision.reason)
          continue
        case 'added':
          changes.inserts.push(decision.document)
          changes.statusChanges[decision.document.status] += 1
          break
        case 'updated':
          changes.statusChanges[decision.from] -= 1
          changes.statusChanges[decision.to] += 1
          changes.updates.push(...updateOperation(candidate.key, decision))
          break
        default:
      }
      this.#log(changes, decision.result, candidate.record)
    }
    return changes
  }

  #log(changes: Changes, kind: Exclude<LogKind, 'failed'>, record: ReadRecord): void {
    changes.counts[kind] += 1
    const email = (record.cells[this.#options.reader.emailColumn] ?? '').trim()
    // One address a line: what is no address, in a duplicate row of an alternate-key list, may hold anything.
    changes.logs[kind] = `${changes.logs[kind] ?? ''}${email.replaceAll(/[\r\n]+/g, ' ')}\n`
  }

  #fail(changes: Changes, record: ReadRecord, reason: string): void {
    const { columnCount, importId, options } = this.#options
    changes.counts.failed += 1
    const padding = new Array<string>(Math.max(0, columnCount - record.cells.length)).fill('')
    changes.failures.push({
      _id: failureId(importId, record.number),
      line: writeLine([...record.cells, ...padding, reason], options.file_format),
    })
  }

  async #writeSubscribers(changes: Changes): Promise<void> {
    const { collections, session, stripe, mailingListId, organizationId } = this.#options
    const settings = { session, ordered: true, bypassDocumentValidation: true } as const
    if (changes.inserts.length > 0) await collections.subscribers.insertMany(changes.inserts, settings)
    if (changes.updates.length > 0) await collections.subscribers.bulkWrite(changes.updates, settings)
    if (subscriberStatuses.every((status) => changes.statusChanges[status] === 0)) return
    await collections.subscriberCounts.updateOne(
      { _id: `${mailingListId}:${stripe}` },
      {
        $inc: changes.statusChanges,
        $setOnInsert: { organization_id: organizationId, mailing_list_id: mailingListId },
      },
      { session, upsert: true },
    )
  }
}

interface Changes {
  inserts: SubscriberDocument[]
  updates: AnyBulkWriteOperation<SubscriberDocument>[]
  statusChanges: Record<SubscriberStatus, number>
  failures: FailureDocument[]
  logs: Partial<Record<LogKind, string>>
  counts: ImportCounts
}

const retryReasons = { duplicateKey: 'duplicate_key' } satisfies Record<
  string,
  ReturnType<typeof retryReason>
>

const noStatusChanges = (): Record<SubscriberStatus, number> => ({
  active: 0,
  bounced: 0,
  unsubscribed: 0,
  scomp: 0,
  deactivated: 0,
})

/** `{_id}` alone in the filter keeps the server on its fast path; the snapshot stands in for every guard. */
function updateOperation(
  key: string,
  change: { set: Record<string, unknown>; unset: string[] },
): AnyBulkWriteOperation<SubscriberDocument>[] {
  const update: Record<string, unknown> = {}
  if (Object.keys(change.set).length > 0) update['$set'] = change.set
  if (change.unset.length > 0) update['$unset'] = Object.fromEntries(change.unset.map((path) => [path, '']))
  return Object.keys(update).length === 0 ? [] : [{ updateOne: { filter: { _id: key }, update } }]
}

export function sumCounts(a: ImportCounts, b: ImportCounts): ImportCounts {
  const sum = { ...a }
  for (const kind of Object.keys(sum) as LogKind[]) sum[kind] += b[kind]
  return sum
}

const deflateAsync = promisify(deflate)

async function compressLogs(logs: Partial<Record<LogKind, string>>): Promise<Record<string, Buffer> | null> {
  const entries = Object.entries(logs)
  if (entries.length === 0) return null
  return Object.fromEntries(
    await Promise.all(
      entries.map(async ([kind, lines]) => [kind, await deflateAsync(lines, { level: 1 })] as const),
    ),
  )
}
