import { deflateSync } from 'node:zlib'
import { MongoServerError, type ClientSession, type Db } from 'mongodb'
import { DocumentSequence } from 'mongodb/lib/cmap/commands.js'
import type { Collections } from '../../shared/schemas/collections.ts'
import {
  failureId,
  noCounts,
  outcomeId,
  type ChunkDocument,
  type FileFormat,
  type ImportCounts,
  type ImportOptions,
  type LogKind,
} from '../../shared/schemas/import.ts'
import {
  noStatusChanges,
  subscriberStatuses,
  type SubscriberStatus,
} from '../../shared/schemas/subscriber.ts'
import { advanceChunk } from '../../shared/store/chunks.ts'
import { dropReactionsInList, noteTriggered } from '../../shared/store/reactions.ts'
import { subscriberKey } from '../../shared/values/identity.ts'
import { writeLine } from '../../shared/values/csv-line.ts'
import {
  batchRecords,
  identitiesOf,
  readBatch,
  type Batch,
  type ReadRecord,
} from '../../shared/rows/chunk-records.ts'
import { takesPlace, type ExistingSubscriber, type RowDecider } from '../../shared/rows/row-decision.ts'
import { readRow, type RowReader } from '../../shared/rows/row-reader.ts'
import { endOfRecordAt } from '../../shared/records/partition-file.ts'
import type { BsonWriter } from './bson-writer.ts'
import { LineWriter } from './byte-writer.ts'
import { ChunkPlaces, PlacesMissing } from './chunk-places.ts'
import type { DueTimes, ReactionWriter, RowWithReactions } from './reaction-writer.ts'
import type { subscriberWriter, updateWriter } from './subscriber-writer.ts'
import { BatchAbandoned, retryReason, runTransaction, TooManyConflicts } from './transaction.ts'

/**
 * Writes the batches of one chunk, one after the other, each in one transaction: the subscribers, the lane's stripe
 * of the counts, the log lines, and the chunk's own progress under its token. They commit together or not at all, so
 * a batch that is done again after a crash finds either everything of its first time or nothing.
 */
export interface BatchWriterOptions {
  db: Db
  collections: Collections
  session: ClientSession
  /** The counter stripe that no other lane writes. */
  stripe: string
  /** The lane's memory for what a batch inserts. */
  rooms: BatchRooms
  importId: number
  organizationId: number
  mailingListId: number
  options: ImportOptions
  /** How the chunk's bytes read. */
  format: FileFormat
  listWasEmpty: boolean
  columnCount: number
  reader: RowReader
  decider: RowDecider
  writeSubscriber: ReturnType<typeof subscriberWriter>
  writeUpdate: ReturnType<typeof updateWriter>
  reactions: ReactionWriter
  /** Reaction ids that are set aside for a record. */
  reactionsPerRecord: number
  /** IANA name of the organization's zone. */
  zone: string
  /** Reads the organization's subscriber limit. */
  limit: () => Promise<number | null>
  chunk: ChunkDocument & { token: string }
  isStopped: () => boolean
  /** Asks the database. */
  isImporting: () => Promise<boolean>
  onCommit: (commit: BatchCommit) => void
}

/** Where a batch's new documents, and its updates of old ones, are put together. */
export interface BatchRooms {
  subscribers: BsonWriter
  updates: BsonWriter
  reactions: BsonWriter
  failures: BsonWriter
}

/** What a batch's commit took, for the metrics. */
export interface BatchCommit {
  counts: ImportCounts
  bytes: number
  writeMs: number
  retries: Record<string, number>
}

/** Records that are alive as objects at once; csv-parse is called once for those of them that are enclosed. */
const recordsAtOnce = 128

/** The lease is renewed with every batch; a batch that takes longer than this is given up before it runs out. */
const batchPatienceMs = 40_000

/** Longer than that without a commit: the process may have been suspended, and the import paused unheard. */
const suspiciousGapMs = 1_000

/** Attempts of a batch that fail because others write the same rows, before it is cut into smaller ones. */
const mostConflicts = 2

export class BatchWriter {
  readonly #options: BatchWriterOptions
  readonly #places: ChunkPlaces
  #chunkCounts: ImportCounts
  #looksForExisting: boolean
  #looksForReactions = false
  /** Identity of the last record looked at: records of one identity follow each other, also across batches. */
  #lastIdentity: string | null = null
  /** Records of the chunk before the batch: their subscriber ids are spoken for. */
  #position = 0
  /** Records of the next batch at most: fewer for a while after conflicts. */
  #size = batchRecords
  /** Attempts since the last commit that were in vain, by reason. */
  #retries: Record<string, number> = {}
  /**
   * When the last commit was sent, not when it was answered: a suspended process reads the answer long after. Before the
   * first one it is long ago: the process may have been suspended between the claim of the chunk and its beginning.
   */
  #lastCommitAt = -Infinity

  constructor(options: BatchWriterOptions) {
    this.#options = options
    this.#places = new ChunkPlaces(options)
    this.#chunkCounts = options.chunk.counts
    this.#looksForExisting = !options.listWasEmpty
  }

  /** Goes on after so many records of the chunk, which are done; `lastIdentity` is that of the last of them. */
  resumeAfter(records: number, lastIdentity: string | null): void {
    this.#lastIdentity = lastIdentity
    this.#position = records
  }

  /**
   * Writes the chunk's next records, as one batch or, while others write the same rows all the time, as smaller ones.
   * False when they weren't all written: stopped, or the chunk is somebody else's now. Throws what no further attempt
   * would mend.
   */
  async write(batch: Batch, isLast: boolean): Promise<boolean> {
    const total = batch.offsets.length
    for (let done = 0; done < total;) {
      if (this.#options.isStopped()) return false
      const offsets = batch.offsets.subarray(done, done + this.#size)
      const isEnd = isLast && done + offsets.length === total
      try {
        if (!(await this.#writePart({ batch: { offsets, bytes: batch.bytes }, isLast: isEnd }))) return false
        done += offsets.length
        this.#size = Math.min(batchRecords, Math.ceil(this.#size * 1.25))
      } catch (error) {
        if (!(error instanceof TooManyConflicts)) throw error
        this.#size = Math.max(1, Math.floor(offsets.length / 4))
      }
    }
    return true
  }

  async #writePart(work: BatchWork): Promise<boolean> {
    const { chunk, onCommit } = this.#options
    const startedAt = performance.now()
    const records = work.batch.offsets.length
    await this.#places.prepare(records, chunk.record_count - this.#position)
    const changes = await this.#commit(work)
    if (changes === null) return false
    this.#lastCommitAt = changes.readyAt
    this.#lastIdentity = changes.lastIdentity
    this.#position += records
    this.#chunkCounts = sumCounts(this.#chunkCounts, changes.counts)
    this.#places.take(changes.placesTaken)
    const writeMs = performance.now() - startedAt
    onCommit({ counts: changes.counts, bytes: bytesOf(work.batch), writeMs, retries: this.#retries })
    this.#retries = {}
    // The batch is written whatever becomes of this; the next one notes it then.
    await noteTriggered(this.#options.collections, changes.triggered, this.#options.zone).catch(
      () => undefined,
    )
    return true
  }

  /** In one transaction; again, when it turns out that rows need more places than the chunk holds. */
  async #commit(work: BatchWork): Promise<Changes | null> {
    for (;;) {
      try {
        return await this.#commitOnce(work)
      } catch (error) {
        if (!(error instanceof PlacesMissing)) throw error
        if (!(await this.#places.demand(error.needed))) return null
      }
    }
  }

  async #commitOnce(work: BatchWork): Promise<Changes | null> {
    const { session, isStopped } = this.#options
    let changes: Changes | null = null
    const committed = await runTransaction({
      session,
      isStopped,
      patienceMs: batchPatienceMs,
      mostConflicts: work.batch.offsets.length === 1 ? Infinity : mostConflicts,
      onRetry: (reason) => {
        this.#retries[reason] = (this.#retries[reason] ?? 0) + 1
        // Somebody made a subscriber of this list since the import began: from now on every batch looks first.
        // Or a subscriber that the import has met before goes by another identity now, and has its reactions already.
        if (reason === retryReasons.duplicateKey) this.#looksForExisting = this.#looksForReactions = true
      },
      attempt: async () => {
        changes = null
        changes = await this.#attempt(work)
      },
    })
    return committed ? changes : null
  }

  async #attempt({ batch, isLast }: BatchWork): Promise<Changes> {
    const { collections, session, chunk, options, rooms } = this.#options
    const changes = await this.#changesOf(batch)
    if (changes.placesTaken > this.#places.free) throw new PlacesMissing(changes.placesTaken)
    // First of the writes: who lost the chunk is told before he meets what the new holder wrote.
    const isOurs = await advanceChunk(collections, session, {
      chunk,
      from: this.#position,
      to: this.#position + batch.offsets.length,
      isLast,
      counts: sumCounts(this.#chunkCounts, changes.counts),
      places: this.#places.after(changes.placesTaken),
    })
    if (!isOurs) throw new BatchAbandoned('the chunk has another holder')
    await insertAll(this.#options.db, collections.failures.collectionName, rooms.failures, session)
    const logs = compressLogs(changes.logs)
    if (logs !== null)
      await collections.outcomes.insertOne(
        { _id: outcomeId(chunk._id, this.#position), logs },
        { session, bypassDocumentValidation: true },
      )
    // Last of the writes: requests that meet these rows wait from here to the commit.
    if (!options.dry_run) await this.#writeSubscribers(changes)
    if (performance.now() - this.#lastCommitAt > suspiciousGapMs && !(await this.#options.isImporting()))
      throw new BatchAbandoned('the import was paused or has ended')
    changes.readyAt = performance.now()
    return changes
  }

  /**
   * What the batch changes, by what its records say and what the database has. Records are read, judged and written
   * down a few at a time and are gone then: rows that lived until the commit would be moved about by the garbage
   * collector first, which took a third of the engine's time.
   */
  async #changesOf(batch: Batch): Promise<Changes> {
    const { format, chunk, rooms } = this.#options
    const existing = await this.#findExisting(batch)
    const reactions = await this.#findReactions(existing)
    const changes: Changes = {
      leaving: [],
      triggered: new Set(),
      statusChanges: noStatusChanges(),
      placesTaken: 0,
      logs: {},
      counts: noCounts(),
      lastIdentity: this.#lastIdentity,
      readyAt: 0,
    }
    const now = new Date()
    const dueTimes = this.#options.reactions.dueTimes(now)
    const logs: Logs = {}
    rooms.subscribers.clear()
    rooms.updates.clear()
    rooms.reactions.clear()
    rooms.failures.clear()
    for (let first = 0; first < batch.offsets.length; first += recordsAtOnce) {
      const offsets = batch.offsets.subarray(first, first + recordsAtOnce)
      const records = readBatch({ offsets, bytes: batch.bytes }, format, chunk.kind)
      for (const [i, record] of records.entries())
        this.#take(record, {
          changes,
          logs,
          existing,
          reactions,
          now,
          dueTimes,
          position: this.#position + first + i,
        })
    }
    for (const [kind, lines] of Object.entries(logs) as [LogKind, LineWriter][]) {
      changes.counts[kind] = lines.lines
      changes.logs[kind] = lines.bytes
    }
    return changes
  }

  async #findExisting(batch: Batch): Promise<Map<string, ExistingSubscriber>> {
    const { collections, session, decider, chunk, mailingListId } = this.#options
    if (!this.#looksForExisting || chunk.kind === 'unidentified') return new Map()
    const keys = [...new Set(identitiesOf(batch))].map((identity) => subscriberKey(mailingListId, identity))
    const found = await collections.subscribers
      .find({ _id: { $in: keys } }, { session, projection: decider.projection, batchSize: keys.length + 1 })
      .toArray()
    return new Map(found.map((subscriber) => [subscriber._id, subscriber]))
  }

  /** Reactions that this import has caused already to subscribers that are there; looked for once there may be any. */
  async #findReactions(existing: Map<string, ExistingSubscriber>): Promise<Set<string>> {
    const { collections, session, options, reactions, reactionsPerRecord } = this.#options
    if (!this.#looksForReactions || reactionsPerRecord === 0 || !options.overwrite) return new Set()
    const keys = [...existing.values()].flatMap(({ id }) => reactions.idsOfUpdate(id))
    const found = await collections.reactions
      .find({ _id: { $in: keys } }, { session, projection: { _id: 1 }, batchSize: keys.length + 1 })
      .toArray()
    return new Set(found.map(({ _id }) => _id))
  }

  /** What becomes of a record: decisions.md, order of the checks for a row. */
  #take(record: ReadRecord, { changes, logs, existing, reactions, now, dueTimes, position }: Taking): void {
    const { reader, decider, chunk, mailingListId, rooms } = this.#options
    const { identity } = record
    const email = (record.cells[reader.emailColumn] ?? '').trim()
    const isDuplicate = identity !== null && identity === changes.lastIdentity
    changes.lastIdentity = identity
    if (isDuplicate) {
      log(logs, 'skipped_duplicate', email)
      return
    }
    const row = readRow(reader, record)
    if (typeof row === 'string') {
      this.#fail(changes, record, row)
      return
    }
    const key = subscriberKey(mailingListId, identity!)
    const newId = chunk.first_subscriber_id + position
    const subscriber = existing.get(key)
    const decision = decider.decide({ key, row, newId, now }, subscriber)
    if (takesPlace(decision)) {
      if (this.#places.areLast && changes.placesTaken >= this.#places.free) {
        log(logs, 'skipped_over_limit', email)
        return
      }
      changes.placesTaken += 1
    }
    switch (decision.result) {
      case 'failed':
        this.#fail(changes, record, decision.reason)
        return
      case 'added':
        this.#options.writeSubscriber(rooms.subscribers, decision.subscriber)
        changes.statusChanges[decision.subscriber.status] += 1
        this.#react({
          result: 'added',
          subscriberId: newId,
          status: decision.subscriber.status,
          reactivations: 0,
          position,
          existing: reactions,
          now,
          dueTimes,
          triggered: changes.triggered,
        })
        break
      case 'updated': {
        changes.statusChanges[decision.from] -= 1
        changes.statusChanges[decision.to] += 1
        // A deletion at the same moment must meet the row that a reaction is queued for, also one that stays as it is.
        const isRequested = this.#options.reactions.queuesForUpdates
        this.#options.writeUpdate(rooms.updates, key, decision.update, isRequested)
        if (decision.from === 'active' && decision.to !== 'active') changes.leaving.push(subscriber!.id)
        this.#react({
          result: 'updated',
          subscriberId: subscriber!.id,
          status: decision.to,
          reactivations: decision.update.reactivations ?? subscriber!.reactivations ?? 0,
          position,
          existing: reactions,
          now,
          dueTimes,
          triggered: changes.triggered,
        })
        break
      }
      default:
    }
    log(logs, decision.result, email)
  }

  #react({ position, ...row }: Omit<RowWithReactions, 'firstId'> & { position: number }): void {
    const { reactions, reactionsPerRecord, chunk, rooms } = this.#options
    if (reactionsPerRecord === 0) return
    const firstId = chunk.first_reaction_id + position * reactionsPerRecord
    reactions.write(rooms.reactions, { ...row, firstId })
  }

  #fail(changes: Changes, record: ReadRecord, reason: string): void {
    const { columnCount, options, importId, rooms } = this.#options
    const padding = new Array<string>(Math.max(0, columnCount - record.cells.length)).fill('')
    const line = writeLine([...record.cells, ...padding, reason], options.file_format)
    changes.counts.failed += 1
    const document = rooms.failures.begin()
    rooms.failures.string('_id', failureId(importId, record.number))
    rooms.failures.string('line', line)
    rooms.failures.end(document)
    rooms.failures.documents += 1
  }

  async #writeSubscribers(changes: Changes): Promise<void> {
    const { collections, session, stripe, mailingListId, organizationId, rooms } = this.#options
    await insertAll(this.#options.db, collections.subscribers.collectionName, rooms.subscribers, session)
    await insertAll(this.#options.db, collections.reactions.collectionName, rooms.reactions, session)
    await updateAll(this.#options.db, collections.subscribers.collectionName, rooms.updates, session)
    await dropReactionsInList(collections, session, mailingListId, changes.leaving)
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

interface BatchWork {
  batch: Batch
  isLast: boolean
}

interface Changes {
  /** Ids of subscribers who are active no longer. */
  leaving: number[]
  /** Autoresponders of which reactions were queued. */
  triggered: Set<number>
  statusChanges: Record<SubscriberStatus, number>
  /** Places under the subscriber limit that its rows take; those that they free don't count. */
  placesTaken: number
  /** By kind, an address a line. */
  logs: Partial<Record<LogKind, Buffer>>
  counts: ImportCounts
  /** Of the batch's last record. */
  lastIdentity: string | null
  /** When all was written but the commit, on the monotonic clock. */
  readyAt: number
}

type Logs = Partial<Record<Exclude<LogKind, 'failed'>, LineWriter>>

interface Taking {
  changes: Changes
  logs: Logs
  existing: Map<string, ExistingSubscriber>
  /** `_id`s of reactions that this import has caused already. */
  reactions: ReadonlySet<string>
  now: Date
  dueTimes: DueTimes
  /** Of the record in its chunk. */
  position: number
}

function log(logs: Logs, kind: keyof Logs, email: string): void {
  const lines = (logs[kind] ??= new LineWriter())
  // One address a line: what is no address, in a duplicate row of an alternate-key list, may hold anything.
  lines.add(email.includes('\n') || email.includes('\r') ? email.replaceAll(/[\r\n]+/g, ' ') : email)
}

const insertAll = (db: Db, collection: string, documents: BsonWriter, session: ClientSession) =>
  sendAll(db, { insert: collection }, { name: 'documents', bson: documents }, session)

const updateAll = (db: Db, collection: string, statements: BsonWriter, session: ClientSession) =>
  sendAll(db, { update: collection }, { name: 'updates', bson: statements }, session)

/** Writes what is BSON already. Nobody repeats the command, as nothing in a transaction is. */
async function sendAll(
  db: Db,
  command: { insert: string } | { update: string },
  writes: { name: string; bson: BsonWriter },
  session: ClientSession,
): Promise<void> {
  for (const bytes of writes.bson.pieces(mostBytesOfMessage)) {
    const sequence = new DocumentSequence(writes.name)
    sequence.push(null, bytes)
    const reply = await db.command(
      { ...command, [writes.name]: sequence, ordered: true, bypassDocumentValidation: true },
      { session },
    )
    const [error] = (reply['writeErrors'] as { code: number; errmsg: string }[] | undefined) ?? []
    if (error !== undefined) throw new MongoServerError(error)
  }
}

/** The server takes messages of 48,000,000 bytes. Only long defaults in thousands of rows come near that. */
const mostBytesOfMessage = 32 * 1024 * 1024

function bytesOf({ offsets, bytes }: Batch): number {
  return offsets.reduce((sum, offset) => sum + endOfRecordAt(bytes, offset) - offset, 0)
}

const retryReasons = { duplicateKey: 'duplicate_key' } satisfies Record<
  string,
  ReturnType<typeof retryReason>
>

export function sumCounts(a: ImportCounts, b: ImportCounts): ImportCounts {
  const sum = { ...a }
  for (const kind of Object.keys(sum) as LogKind[]) sum[kind] += b[kind]
  return sum
}

/** At once: on another thread the 25 KB of a batch cost more in going there and back than they save here. */
function compressLogs(logs: Changes['logs']): Record<string, Buffer> | null {
  const entries = Object.entries(logs)
  if (entries.length === 0) return null
  return Object.fromEntries(entries.map(([kind, lines]) => [kind, deflateSync(lines, { level: 1 })]))
}
