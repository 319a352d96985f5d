import { BatchReader, type Batch, type ReadRecord } from '../../../shared/csv/chunk-records.ts'
import { needsQuota, type Decision, type ExistingSubscriber } from '../../../shared/csv/row-decision.ts'
import { readRow } from '../../../shared/csv/row-reader.ts'
import {
  contentFormat,
  failureId,
  noCounts,
  type ChunkDocument,
  type ImportCounts,
  type LogKind,
} from '../../../shared/contract/schemas/import.ts'
import type { SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'
import { addMove, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import { makesTooLarge, noSizes, valuesTooLarge, type ValueSizes } from '../../../shared/store/value-bytes.ts'
import { writeLine } from '../../../shared/csv/csv-line.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { BsonWriter } from './bson-writer.ts'
import { LineWriter } from './byte-writer.ts'
import type { ImportContext } from './import-context.ts'
import type { DueTimes } from './reaction-writer.ts'

/** Where a batch's new documents, and its updates of old ones, are put together. */
export interface BatchBuffers {
  subscribers: BsonWriter
  updates: BsonWriter
  reactions: BsonWriter
  failures: BsonWriter
}

/** What a batch finds. */
export interface BatchStart {
  /** Of the batch's first record in its chunk. */
  position: number
  /** Identity of the record before it: records of one identity follow each other, also across batches. */
  lastIdentity: string | null
  /** Subscribers of its identities that are there, by `_id`. */
  existing: ReadonlyMap<string, ExistingSubscriber>
  /** What subscribers hold whom a long row may make too large. */
  valueSizes: ValueSizes
  /** Whatever the batch's only record adds or updates would be too large. */
  isTooLarge: boolean
  /** `_id`s of reactions that this import has caused already. */
  reactions: ReadonlySet<string>
  /** What its rows get as their times, and what delays of reactions count from. */
  now: Date
  /** Further rows that would take a place are over the subscriber limit; Infinity while more places may be had. */
  maxQuota: number
}

/** What a batch writes at most. Long defaults and many reactions make much of a short row. */
const maxBytes = 4 * 1024 * 1024

/** Rows that bring more, with the import's defaults, are held against what a subscriber may hold. */
export const longRowBytes = 64 * 1024

/** Records of a batch at most, where each writes so many bytes. */
export const recordsWithin = (bytes: number): number => Math.max(1, Math.floor(maxBytes / bytes))

/** Thrown by a batch that would write more than a transaction should; its first `fitting` records would not. */
export class BatchTooLarge extends Error {
  readonly fitting: number

  constructor(fitting: number) {
    super(`the batch writes too much after ${fitting} records`)
    this.fitting = fitting
  }
}

/**
 * What a batch changes, by what its records say and what the database has. Records are read, judged and written down
 * one by one and are gone then: rows that lived until the commit would be moved about by the garbage collector
 * first, which took a third of the engine's time.
 */
export class BatchDraft {
  readonly counts: ImportCounts = noCounts()
  readonly statusChanges = noStatusCounts()
  /** Ids of subscribers who are active no longer. */
  readonly leaving: number[] = []
  /** Autoresponders of which reactions were queued. */
  readonly triggered = new Set<number>()
  /** Of the records, in the file that is imported. */
  bytesRead = 0
  /** Places under the subscriber limit that its rows take; those that they free don't count. */
  quotaUsed = 0
  lastIdentity: string | null
  /** As the start has it. */
  readonly now: Date
  /** The lane's, filled by `take` with what the batch writes. */
  readonly buffers: BatchBuffers

  readonly #context: ImportContext
  readonly #chunk: ChunkDocument
  readonly #start: BatchStart
  readonly #dueTimes: DueTimes
  readonly #logs: Partial<Record<Exclude<LogKind, 'failed'>, LineWriter>> = {}

  constructor(context: ImportContext, chunk: ChunkDocument, buffers: BatchBuffers, start: BatchStart) {
    this.#context = context
    this.#chunk = chunk
    this.buffers = buffers
    this.#start = start
    this.lastIdentity = start.lastIdentity
    this.now = start.now
    this.#dueTimes = context.reactions.dueTimes(this.now)
    for (const buffer of Object.values(buffers) as BsonWriter[]) buffer.clear()
  }

  /** Throws BatchTooLarge. */
  take(batch: Batch): void {
    const reader = new BatchReader(batch, contentFormat(this.#context.document), this.#chunk.kind)
    let taken = 0
    let read = 0
    for (let record = reader.read(); record !== null; record = reader.read()) {
      if (this.#written() > maxBytes) throw new BatchTooLarge(Math.max(1, taken - 1))
      this.#takeRecord(record, this.#start.position + taken, reader.bytesRead - read)
      read = reader.bytesRead
      taken += 1
    }
    this.bytesRead = reader.bytesRead
    for (const [kind, lines] of Object.entries(this.#logs) as [LogKind, LineWriter][])
      this.counts[kind] = lines.lines
  }

  /** By kind, an address a line. */
  get logs(): [LogKind, Buffer][] {
    return Object.entries(this.#logs).map(([kind, lines]) => [kind as LogKind, lines.bytes])
  }

  /** What becomes of a record: docs/decisions/155-order-of-checks.md. */
  #takeRecord(record: ReadRecord, position: number, bytes: number): void {
    const { reader, decider, document, writeSubscriber, writeUpdate, reactions } = this.#context
    const { identity } = record
    const email = (record.cells[reader.emailColumn] ?? '').trim()
    const isDuplicate = identity !== null && identity === this.lastIdentity
    this.lastIdentity = identity
    if (isDuplicate) {
      this.#log('skipped_duplicate', email)
      return
    }
    const row = readRow(reader, record)
    if (typeof row === 'string') {
      this.#fail(record, row)
      return
    }
    if (row.monthFirstDates > 0)
      this.counts.month_first_dates = (this.counts.month_first_dates ?? 0) + row.monthFirstDates
    const key = subscriberKey(document.mailing_list_id, identity!)
    const newId = this.#chunk.first_subscriber_id + position
    const subscriber = this.#start.existing.get(key)
    const decision = decider.decide({ key, row, newId, now: this.now }, subscriber)
    if (this.#isTooLarge(decision, key, bytes)) {
      this.#fail(record, valuesTooLarge)
      return
    }
    if (needsQuota(decision)) {
      if (this.quotaUsed >= this.#start.maxQuota) {
        this.#log('skipped_over_limit', email)
        return
      }
      this.quotaUsed += 1
    }
    switch (decision.result) {
      case 'failed':
        this.#fail(record, decision.reason)
        return
      case 'added': {
        const { status } = decision.subscriber
        writeSubscriber(this.buffers.subscribers, decision.subscriber)
        addMove(this.statusChanges, null, status)
        this.#react({ result: 'added', subscriberId: newId, status, reactivations: 0 }, position)
        break
      }
      case 'updated': {
        const { from, to, update } = decision
        const { id, reactivations } = subscriber!
        addMove(this.statusChanges, from, to)
        // A deletion at the same moment must meet the row that a reaction is queued for, also one that stays as it is.
        writeUpdate(this.buffers.updates, key, update, reactions.queuesForUpdates)
        if (from === 'active' && to !== 'active') this.leaving.push(id)
        this.#react(
          {
            result: 'updated',
            subscriberId: id,
            status: to,
            reactivations: update.reactivations ?? reactivations ?? 0,
          },
          position,
        )
        break
      }
      default:
    }
    this.#log(decision.result, email)
  }

  /** Whether the subscriber would hold more than one may: `bytes` are those of the record. */
  #isTooLarge(decision: Decision, key: string, bytes: number): boolean {
    if (decision.result !== 'added' && decision.result !== 'updated') return false
    if (this.#start.isTooLarge) return true
    const { plan, defaultBytes } = this.#context
    if (decision.result === 'added')
      return bytes + defaultBytes.added > longRowBytes && makesTooLarge(decision, plan, noSizes)
    const sizes = this.#start.valueSizes.get(key)
    return sizes !== undefined && makesTooLarge(decision, plan, sizes)
  }

  #written(): number {
    const { subscribers, updates, reactions, failures } = this.buffers
    return subscribers.length + updates.length + reactions.length + failures.length
  }

  #react(
    row: {
      result: 'added' | 'updated'
      subscriberId: number
      status: SubscriberStatus
      reactivations: number
    },
    position: number,
  ): void {
    const { reactions, reactionsPerRecord } = this.#context
    if (reactionsPerRecord === 0) return
    reactions.write(this.buffers.reactions, {
      ...row,
      firstId: this.#chunk.first_reaction_id + position * reactionsPerRecord,
      existing: this.#start.reactions,
      now: this.now,
      dueTimes: this.#dueTimes,
      triggered: this.triggered,
    })
  }

  #fail(record: ReadRecord, reason: string): void {
    const { document } = this.#context
    const { failures } = this.buffers
    // The log pads it to the mapping: blanks for 2,000 columns would be all that a short row takes in the database.
    const line = writeLine([...record.cells, reason], document.options.file_format)
    this.counts.failed += 1
    const failure = failures.begin()
    failures.string('_id', failureId(document._id, record.number))
    failures.string('line', line)
    failures.end(failure)
    failures.documents += 1
    this.counts.kept_bytes = failures.length
  }

  #log(kind: Exclude<LogKind, 'failed'>, email: string): void {
    const lines = (this.#logs[kind] ??= new LineWriter())
    // One address a line: what is no address, in a duplicate row of an alternate-key list, may hold anything.
    lines.add(email.includes('\n') || email.includes('\r') ? email.replaceAll(/[\r\n]+/g, ' ') : email)
  }
}
