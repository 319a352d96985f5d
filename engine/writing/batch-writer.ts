import { promisify } from 'node:util'
import { deflate } from 'node:zlib'
import { MongoServerError, type AnyBulkWriteOperation, type ClientSession, type Collection } from 'mongodb'
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
import { readBatch, type Batch, type ReadRecord } from '../rows/chunk-records.ts'
import type { ExistingSubscriber, RowDecider } from '../rows/row-decision.ts'
import type { Row, RowReader } from '../rows/row-reader.ts'
import { endOfRecordAt } from '../splitting/partition-file.ts'
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
  bytes: number
  writeMs: number
  retries: Record<string, number>
}

/**
 * A record of the batch, with what can be said of it without the database: a duplicate, a failure with its line for
 * the log, or a row whose fate is to be decided. Its cells aren't kept: few records need them again.
 */
interface Entry {
  result: 'skipped_duplicate' | 'failed' | 'undecided'
  number: number
  identity: string
  /** As typed, for the logs. */
  email: string
  failureLine: string
  row: Row | null
}

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
  async write(number: number, batch: Batch, isLast: boolean): Promise<BatchCommit | null> {
    const { session, isStopped } = this.#options
    const entries = this.#read(batch).map((record) => this.#judge(record))
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
        counts = await this.#attempt({ number, batch, entries, isLast })
      },
    })
    if (!committed) return null
    this.#position += entries.length
    this.#chunkCounts = sumCounts(this.#chunkCounts, counts)
    return { counts, bytes: bytesOf(batch), writeMs: performance.now() - startedAt, retries }
  }

  #read(batch: Batch): ReadRecord[] {
    return readBatch(batch, this.#options.options.file_format, this.#options.chunk.kind)
  }

  #judge(record: ReadRecord): Entry {
    const { reader } = this.#options
    const identity = record.identity ?? ''
    const entry: Entry = {
      result: 'undecided',
      number: record.number,
      identity,
      email: (record.cells[reader.emailColumn] ?? '').trim(),
      failureLine: '',
      row: null,
    }
    if (record.identity !== null && identity === this.#lastIdentity) {
      entry.result = 'skipped_duplicate'
      return entry
    }
    this.#lastIdentity = record.identity
    const row =
      record.problem ??
      (record.identity === null ? reader.identityProblem(record.cells) : reader.read(record.cells))
    if (typeof row === 'string') {
      entry.result = 'failed'
      entry.failureLine = this.#failureLine(record, row)
    } else {
      entry.row = row
    }
    return entry
  }

  #failureLine(record: ReadRecord, reason: string): string {
    const { columnCount, options } = this.#options
    const padding = new Array<string>(Math.max(0, columnCount - record.cells.length)).fill('')
    return writeLine([...record.cells, ...padding, reason], options.file_format)
  }

  async #attempt(work: {
    number: number
    batch: Batch
    entries: Entry[]
    isLast: boolean
  }): Promise<ImportCounts> {
    const { collections, session, chunk, options } = this.#options
    const { number, isLast } = work
    const existing = await this.#findExisting(work.entries)
    const changes = this.#decide(work.entries, work.batch, existing)
    // First of the writes: who lost the chunk is told before he meets what the new holder wrote.
    const isOurs = await advanceChunk(collections, session, {
      chunk,
      batch: number,
      isLast,
      counts: sumCounts(this.#chunkCounts, changes.counts),
    })
    if (!isOurs) throw new BatchAbandoned('the chunk has another holder')
    if (!options.dry_run) await this.#writeSubscribers(changes)
    if (changes.failures.length > 0) await insertAll(collections.failures, changes.failures, session)
    const logs = await compressLogs(changes.logs)
    if (logs !== null)
      await collections.outcomes.insertOne(
        { _id: outcomeId(chunk._id, number), logs },
        { session, bypassDocumentValidation: true },
      )
    return changes.counts
  }

  async #findExisting(entries: Entry[]): Promise<Map<string, ExistingSubscriber>> {
    const { collections, session, decider } = this.#options
    if (!this.#looksForExisting) return new Map()
    const keys = entries.filter((entry) => entry.result === 'undecided').map((entry) => this.#keyOf(entry))
    if (keys.length === 0) return new Map()
    const found = await collections.subscribers
      .find({ _id: { $in: keys } }, { session, projection: decider.projection, batchSize: keys.length + 1 })
      .toArray()
    return new Map(found.map((subscriber) => [subscriber._id, subscriber]))
  }

  #keyOf(entry: Entry): string {
    return subscriberKey(this.#options.mailingListId, entry.identity)
  }

  #decide(entries: Entry[], batch: Batch, existing: Map<string, ExistingSubscriber>): Changes {
    const { decider, chunk } = this.#options
    const now = new Date()
    const changes: Changes = {
      inserts: [],
      updates: [],
      statusChanges: noStatusChanges(),
      failures: [],
      logs: {},
      counts: noCounts(),
    }
    for (const [i, entry] of entries.entries()) {
      if (entry.result === 'failed') {
        this.#fail(changes, entry.number, entry.failureLine)
        continue
      }
      if (entry.result === 'skipped_duplicate') {
        log(changes, entry.result, entry.email)
        continue
      }
      const key = this.#keyOf(entry)
      const newId = chunk.first_subscriber_id + this.#position + i
      const decision = decider.decide({ key, row: entry.row!, newId, now }, existing.get(key))
      switch (decision.result) {
        case 'failed':
          this.#fail(changes, entry.number, this.#failureLine(this.#readAgain(batch, i), decision.reason))
          continue
        case 'added':
          changes.inserts.push(decision.document)
          changes.statusChanges[decision.document.status] += 1
          break
        case 'updated':
          changes.statusChanges[decision.from] -= 1
          changes.statusChanges[decision.to] += 1
          changes.updates.push(...updateOperation(key, decision))
          break
        default:
      }
      log(changes, decision.result, entry.email)
    }
    return changes
  }

  #readAgain({ offsets, bytes }: Batch, index: number): ReadRecord {
    return this.#read({ offsets: offsets.subarray(index, index + 1), bytes })[0]!
  }

  #fail(changes: Changes, recordNumber: number, line: string): void {
    changes.counts.failed += 1
    changes.failures.push({ _id: failureId(this.#options.importId, recordNumber), line })
  }

  async #writeSubscribers(changes: Changes): Promise<void> {
    const { collections, session, stripe, mailingListId, organizationId } = this.#options
    if (changes.inserts.length > 0) await insertAll(collections.subscribers, changes.inserts, session)
    if (changes.updates.length > 0)
      await collections.subscribers.bulkWrite(changes.updates, {
        session,
        ordered: true,
        bypassDocumentValidation: true,
      })
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

function log(changes: Changes, kind: Exclude<LogKind, 'failed'>, email: string): void {
  changes.counts[kind] += 1
  // One address a line: what is no address, in a duplicate row of an alternate-key list, may hold anything.
  changes.logs[kind] =
    `${changes.logs[kind] ?? ''}${email.includes('\n') || email.includes('\r') ? email.replaceAll(/[\r\n]+/g, ' ') : email}\n`
}

/**
 * Inserts documents with the plain command: insertMany makes an operation object of each one first, at 2 us a row. The
 * command isn't repeated by the driver, which a transaction's operations aren't either.
 */
async function insertAll<T extends { _id: string }>(
  collection: Collection<T>,
  documents: T[],
  session: ClientSession,
): Promise<void> {
  const reply = await collection.db.command(
    { insert: collection.collectionName, documents, ordered: true, bypassDocumentValidation: true },
    { session },
  )
  const [error] = (reply['writeErrors'] as { code: number; errmsg: string }[] | undefined) ?? []
  if (error !== undefined) throw new MongoServerError(error)
}

function bytesOf({ offsets, bytes }: Batch): number {
  return offsets.reduce((sum, offset) => sum + endOfRecordAt(bytes, offset) - offset, 0)
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
