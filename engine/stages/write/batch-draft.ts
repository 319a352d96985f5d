import { BatchReader, identityAt, type Batch, type ReadRecord } from '../../../shared/csv/chunk-records.ts'
import { needsQuota, type Decision, type ExistingSubscriber } from '../../../shared/csv/row-decision.ts'
import { exampleOf, RowFailure, wholeFault } from '../../../shared/csv/row-fault.ts'
import { readRow } from '../../../shared/csv/row-reader.ts'
import {
  failureId,
  logKinds,
  noCounts,
  type ChunkDocument,
  type ImportCounts,
  type LogKind,
} from '../../../shared/contract/schemas/import.ts'
import { addMove, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import { makesTooLarge, noSizes, valuesTooLarge, type ValueSizes } from '../../../shared/store/value-bytes.ts'
import { writeLine } from '../../../shared/csv/csv-line.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { BsonWriter } from './bson/bson-writer.ts'
import { LineWriter } from './bson/byte-writer.ts'
import { FaultCounts } from './fault-counts.ts'
import type { ImportContext } from './import-context.ts'
import type { DueTimes, RowWithReactions } from './reaction-writer.ts'
import { subscriberTransition } from '../../../shared/values/subscriber-transition.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'

/** Buffers for a batch's new documents and its updates of existing ones. */
export type BatchBuffers = Record<'subscribers' | 'updates' | 'reactions' | 'failures', BsonWriter>

/** The state before a batch, on which the decisions about its records depend. */
export interface BatchStart {
  /** Position in the chunk of the batch's first record. */
  position: number
  /** Identity of the record before it: records of one identity follow each other, also across batches. */
  lastIdentity: string | null
  /** Existing subscribers of its identities, by `_id`. */
  existing: ReadonlyMap<string, ExistingSubscriber>
  /** Value sizes of the subscribers that a long row may make too large. */
  valueSizes: ValueSizes
  /** The database refused the batch's only record for its size: the record fails. */
  isTooLarge: boolean
  /** `_id`s of reactions that this import has queued already. */
  reactions: ReadonlySet<string>
  /** The time of its rows, from which delays of reactions count. */
  now: Date
  /** How many rows may become active, the rest is over the subscriber limit; Infinity while more quota can be had. */
  maxQuota: number
}

/**
 * Bytes that a batch may write. With long defaults or many reactions even a short row becomes many bytes: four defaults of
 * 60,000 characters made a transaction that didn't fit the server's cache, and 101 autoresponders more than 100,000 writes
 * in one command.
 */
const maxBytes = 4 * binaryMegabyte

/** Rows with more bytes, the import's defaults included, are checked against the limit of a subscriber's values. */
export const longRowBytes = 64 * 1024

/** Records that a batch may have where each writes `bytes`. */
export const recordsWithin = (bytes: number): number => Math.max(1, Math.floor(maxBytes / bytes))

/**
 * What a batch will write, made of its records and the existing subscribers. Each record is read, decided and serialized
 * before the next is read. The garbage collector would move rows that are kept until the commit, which took a third of
 * the engine's time.
 */
export class BatchDraft {
  readonly counts: ImportCounts = noCounts()
  /** Faults of the rows that are counted as failed. */
  readonly faults = new FaultCounts()
  readonly statusChanges = noStatusCounts()
  /** Ids of subscribers that the batch makes inactive. */
  readonly leaving: number[] = []
  /** Ids of autoresponders whose reactions the batch queues. */
  readonly triggered = new Set<number>()
  /** Bytes of the records as in the imported file. */
  bytesRead = 0
  /** Rows that become active. Rows that make a subscriber inactive are not subtracted. */
  quotaUsed = 0
  /** Identity of its last record. */
  lastIdentity: string | null = null
  readonly now: Date
  /** The lane's buffers, filled with what the batch writes. */
  readonly buffers: BatchBuffers

  readonly #context: ImportContext
  readonly #chunk: ChunkDocument
  readonly #start: BatchStart
  readonly #dueTimes: DueTimes
  readonly #logs: Partial<Record<LogKind, LineWriter>> = {}

  constructor(context: ImportContext, chunk: ChunkDocument, buffers: BatchBuffers, start: BatchStart) {
    this.#context = context
    this.#chunk = chunk
    this.buffers = buffers
    this.#start = start
    this.now = start.now
    this.#dueTimes = context.reactions.dueTimes(this.now)
    for (const buffer of Object.values(buffers)) buffer.clear()
  }

  /** Null when all records fit into one transaction; else how many do. */
  fill(batch: Batch): number | null {
    const reader = new BatchReader(batch, this.#context.format, this.#chunk.kind)
    let records = 0
    let read = 0
    for (let record = reader.read(); record !== null; record = reader.read()) {
      if (this.#bytesToWrite() > maxBytes) return Math.max(1, records - 1)
      this.#process(record, this.#start.position + records, reader.bytesRead - read)
      read = reader.bytesRead
      records += 1
    }
    this.bytesRead = reader.bytesRead
    const last = batch.offsets.at(-1)
    const hasIdentity = last !== undefined && this.#chunk.kind !== 'unidentified'
    this.lastIdentity = hasIdentity ? identityAt(batch.bytes, last) : null
    for (const [kind, lines] of this.logs) this.counts[kind] = lines.lines
    return null
  }

  /** The logs that have lines. A line is one email. */
  get logs(): [LogKind, LineWriter][] {
    return logKinds.flatMap((kind): [LogKind, LineWriter][] => {
      const lines = this.#logs[kind]
      return lines === undefined ? [] : [[kind, lines]]
    })
  }

  /**
   * Makes a record a row, decides it, and writes its document or update into the buffers. The order of the checks is
   * that of `rowDecider`.
   */
  #process(record: ReadRecord, position: number, bytes: number): void {
    const { reader, decider, document, writeSubscriber, writeUpdate, reactions } = this.#context
    const { identity } = record
    const isFirst = position === this.#start.position
    const isAgain = isFirst ? identity?.toString() === this.#start.lastIdentity : record.isRepeated
    if (identity !== null && isAgain) {
      this.#log('skipped_duplicate', record)
      return
    }
    const row = readRow(reader, record)
    if (row instanceof RowFailure) {
      this.#fail(record, row)
      return
    }
    if (identity === null) throw new Error('a valid row has no identity')
    if (row.remarks !== null) for (const kind of row.remarks) this.counts[kind] = (this.counts[kind] ?? 0) + 1
    const key =
      this.#start.existing.size === 0 ? '' : subscriberKey(document.mailing_list_id, identity.toString())
    const newId = this.#chunk.first_subscriber_id + position
    const subscriber = this.#start.existing.get(key)
    const decision = decider.decide({ row, newId, now: this.now.getTime() }, subscriber)
    if (this.#isTooLarge(decision, key, bytes)) {
      this.#fail(record, { reason: valuesTooLarge, fault: wholeFault('too_large') })
      return
    }
    if (needsQuota(decision)) {
      if (this.quotaUsed >= this.#start.maxQuota) {
        this.#log('skipped_over_limit', record)
        return
      }
      this.quotaUsed += 1
    }
    switch (decision.result) {
      case 'failed':
        this.#fail(record, decision)
        return
      case 'added': {
        const { status } = decision.subscriber
        writeSubscriber(this.buffers.subscribers, identity, decision.subscriber)
        addMove(this.statusChanges, null, status)
        this.#queueReactions({ result: 'added', subscriberId: newId, status, reactivations: 0 }, position)
        break
      }
      case 'updated': {
        const { from, to, update } = decision
        const { id, reactivations } = subscriber!
        addMove(this.statusChanges, from, to)
        // Where a reaction is queued, an unchanged row is written too, so that a concurrent deletion conflicts with it.
        writeUpdate(this.buffers.updates, identity, update, reactions.queuesForUpdates)
        if (subscriberTransition(from, to).dropsReactions) this.leaving.push(id)
        this.#queueReactions(
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
    this.#log(decision.result, record)
  }

  /** Whether the subscriber's values would exceed their limit; `bytes` is the record's length. */
  #isTooLarge(decision: Decision, key: string, bytes: number): boolean {
    if (decision.result !== 'added' && decision.result !== 'updated') return false
    if (this.#start.isTooLarge) return true
    const { plan, defaultBytes } = this.#context
    if (decision.result === 'added')
      return bytes + defaultBytes.added > longRowBytes && makesTooLarge(decision, plan, noSizes)
    const sizes = this.#start.valueSizes.get(key)
    return sizes !== undefined && makesTooLarge(decision, plan, sizes)
  }

  #bytesToWrite(): number {
    const { subscribers, updates, reactions, failures } = this.buffers
    return subscribers.length + updates.length + reactions.length + failures.length
  }

  #queueReactions(
    row: Pick<RowWithReactions, 'result' | 'subscriberId' | 'status' | 'reactivations'>,
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

  #fail(record: ReadRecord, { reason, fault }: Pick<RowFailure, 'reason' | 'fault'>): void {
    const { document, format } = this.#context
    const { failures } = this.buffers
    // Missing cells are added when the log is read: blanks for 2,000 columns would outweigh a short row.
    const line = writeLine([...record.cells.strings(), reason], format)
    this.counts.failed += 1
    const example = fault.column === null ? null : exampleOf(record.cells.string(fault.column) ?? '')
    this.faults.add({ ...fault, rows: 1, first: { record: record.number, example } })
    const failure = failures.begin()
    failures.string('_id', failureId(document._id, record.number))
    failures.string('line', line)
    failures.number('file_line', record.line)
    failures.end(failure)
    this.counts.kept_bytes = failures.length
  }

  #log(kind: Exclude<LogKind, 'failed'>, { cells, identity }: ReadRecord): void {
    const { plan, reader } = this.#context
    // Of a record that is too long the email's cell may not be kept.
    const isKept = reader.emailColumn < cells.count || plan.identity.kind !== 'email'
    const lines = (this.#logs[kind] ??= new LineWriter())
    lines.add(isKept ? cells.trimmed(reader.emailColumn) : identity!)
  }
}
