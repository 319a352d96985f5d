import { promisify } from 'node:util'
import { deflate } from 'node:zlib'
import type { Filter } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import {
  openPartition,
  readInPieces,
  readRecordAt,
  refuseDamaged,
  type Partition,
} from '../../../shared/csv/partition-file.ts'
import {
  deactivationId,
  nextDeactivationId,
  type ChunkDocument,
  type ImportDocument,
} from '../../../shared/contract/schemas/import.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { noteDeactivated } from '../../../shared/store/chunks.ts'
import { writeInStep } from '../../../shared/store/import-steps.ts'
import { documentsPerQuery, keyRanges } from '../../../shared/store/key-ranges.ts'
import { dropReactionsInList } from '../../../shared/store/reactions.ts'
import { addMove, countMovesOfLane, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { StepRun } from '../../scheduler/step.ts'
import { runTransaction, TooManyConflicts } from '../write/transaction.ts'

/**
 * `deactivate_subscribers_not_in_import`: active subscribers that were there when the import began and whose identity
 * is in no record. Chunk by chunk, because the chunks' ranges of identities cover all there are: the chunk's identities
 * beside the subscribers of its range. Memory is one chunk's identities.
 *
 * Exactly once: each thousand is one transaction that also moves `deactivated_to` of the chunk, from the value that
 * it was read with. The next holder of the step resumes from there, and a stale holder's transaction matches nothing.
 *
 * Both walks, the one that counts and the one that deactivates, note once a second how far they are, also where all
 * subscribers are in the file: a step that is killed or breaks off loses a second of its work.
 */

const subscribersPerTransaction = 1_000
const noteEveryMs = 1_000
/** Of a transaction that meets others' writes, before it is cut in halves. */
const maxConflictRetries = 2
/** For all attempts of one transaction. */
const timeoutMs = 120_000

/**
 * Resumes where an earlier holder of the step got to; resolves when all are deactivated. Throws ImportError
 * `chunk_damaged` where the partition is gone, or a chunk isn't what was written, before anybody of its range is
 * deactivated; the signal's reason; and an Error when another engine holds the step by now.
 */
export async function deactivateAbsent(run: StepRun): Promise<void> {
  const isNoteDue = everySecond()
  await forEachRange(run, 0, async (chunk, file) => {
    let absent: string[] = []
    let reached = ''
    for await (const piece of piecesOf(run, chunk, file, chunk.deactivated_to)) {
      absent.push(...piece.absent)
      reached = piece.to
      while (absent.length >= subscribersPerTransaction) {
        const portion = absent.splice(0, subscribersPerTransaction)
        await deactivateSome(run, chunk, portion, keyAfter(portion.at(-1)!))
      }
      if (!isNoteDue()) continue
      await deactivateSome(run, chunk, absent, reached)
      absent = []
    }
    if (absent.length > 0) await deactivateSome(run, chunk, absent, reached)
  })
}

/**
 * How many would be deactivated; counts no further than `enough`. Resumes where an earlier holder of the step got to,
 * and throws what deactivateAbsent throws.
 */
export async function countAbsent(run: StepRun, enough: number): Promise<number> {
  const start = run.document.absent_search ?? { chunk: 0, to: null, absent: 0 }
  const isNoteDue = everySecond()
  let { absent } = start
  let isLong = false
  let end = start.chunk
  await forEachRange(run, start.chunk, async (chunk, file) => {
    end = chunk.number + 1
    if (absent >= enough) return
    const searchedTo = chunk.number === start.chunk ? start.to : null
    for await (const piece of piecesOf(run, chunk, file, chunk.deactivated_to ?? searchedTo)) {
      absent += piece.absent.length
      if (absent >= enough) return
      if (!isNoteDue()) continue
      isLong = true
      await noteSearch(run, { chunk: chunk.number, to: piece.to, absent })
    }
  })
  if (isLong) await noteSearch(run, { chunk: end, to: null, absent })
  return absent
}

async function noteSearch(run: StepRun, search: ImportDocument['absent_search']): Promise<void> {
  const { document, step, database } = run
  const isLeased = await writeInStep(
    database.collections,
    { ...step, state: 'importing' },
    { $set: { absent_search: search, ...noFailures } },
  )
  if (!isLeased) throw stepLost(run)
  document.step_failures = 0
}

/** Of a step that got on: what broke it off before is over. */
const noFailures = { step_deaths: 0, step_failures: 0 }

const stepLost = ({ signal }: StepRun): Error =>
  signal.aborted ? (signal.reason as Error) : new Error('another engine finishes this import now')

/** True when a second has passed since the beginning, or since it was true last. */
function everySecond(): () => boolean {
  let lastMs = clock.monotonicMs()
  return () => {
    const isDue = clock.monotonicMs() - lastMs >= noteEveryMs
    if (isDue) lastMs = clock.monotonicMs()
    return isDue
  }
}

/** The ranges from the chunk of that number on, without those that are done. */
async function forEachRange(
  { document, staging, database }: StepRun,
  from: number,
  work: (chunk: ChunkDocument, file: Partition) => Promise<void>,
): Promise<void> {
  const file = await openPartition(staging, document)
  try {
    const chunks = await database.collections.chunks
      .find({ import_id: document._id, kind: { $ne: 'unidentified' } })
      .sort({ number: 1 })
      .toArray()
    // They are done in this order, and those in which nobody was absent may have no note.
    const begun = chunks.findLast((chunk) => chunk.deactivated_to !== null)
    const first = Math.max(from, begun?.number ?? 0)
    // Without any identity in the file there is no chunk with a range; the caller has refused that case.
    for (const chunk of chunks) if (chunk.number >= first) await work(chunk, file)
  } finally {
    await file.close()
  }
}

/** Subscribers of a chunk's range that follow each other, up to `to`: the keys of those that are absent, in their order. */
interface Piece {
  absent: string[]
  to: string
}

/** From the key `from` on, null for the beginning. Absent: active, there at the start, and not in the chunk. */
async function* piecesOf(
  { document, database, signal, progress }: StepRun,
  chunk: ChunkDocument,
  file: Partition,
  from: string | null,
): AsyncGenerator<Piece> {
  const { subscribers } = database.collections
  const listId = document.mailing_list_id
  const present = await identitiesOf(chunk, file)
  const range = {
    $gte: from ?? subscriberKey(listId, chunk.from ?? ''),
    $lt: chunk.to === null ? `${listId};` : subscriberKey(listId, chunk.to),
  }
  for await (const _id of keyRanges(subscribers, range)) {
    const active = await subscribers
      .find({ _id, ...activeAtStart(document) }, { projection: { _id: 1 }, batchSize: documentsPerQuery + 1 })
      .sort({ _id: 1 })
      .toArray()
    signal.throwIfAborted()
    progress.add()
    const keys = active.map((subscriber) => subscriber._id)
    const isAbsent = (key: string) => !present.has(key.slice(subscriberKey(listId, '').length))
    yield { absent: keys.filter(isAbsent), to: _id.$lt }
  }
}

/** The first key that sorts behind this one. */
const keyAfter = (key: string): string => `${key}\0`

/** Active subscribers that were there when the import began. */
function activeAtStart({ plan, import_epoch: epoch }: ImportDocument): Filter<SubscriberDocument> {
  return {
    status: 'active',
    id: { $lt: plan!.first_new_subscriber_id },
    // An import that an earlier version started has no epoch.
    ...(epoch === undefined ? {} : { import_epoch: { $not: { $gte: epoch } } }),
  }
}

/** Whoever isn't in them is deactivated: they are looked at again, for the disk may have lost them since the chunk was done. */
async function identitiesOf(chunk: ChunkDocument, file: Partition): Promise<Set<string>> {
  const identities = new Set<string>()
  let checksum = 0
  for await (const { bytes, crc } of readInPieces(file, chunk.extents)) {
    checksum = crc
    for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end)) {
      identities.add(bytes.toString('utf8', record.identityStart, record.start))
    }
  }
  refuseDamaged(chunk, checksum)
  return identities
}

/**
 * Deactivates subscribers of one range that follow each other, with which it is done up to `next`; in halves, where
 * requests write the same ones all the time.
 */
async function deactivateSome(
  run: StepRun,
  chunk: ChunkDocument,
  absent: string[],
  next: string,
): Promise<void> {
  try {
    await deactivateAtOnce(run, chunk, absent, next)
  } catch (error) {
    if (!(error instanceof TooManyConflicts)) throw error
    const middle = Math.ceil(absent.length / 2)
    await deactivateSome(run, chunk, absent.slice(0, middle), keyAfter(absent[middle - 1]!))
    await deactivateSome(run, chunk, absent.slice(middle), next)
  }
}

/** In one transaction, which also notes on the chunk how far that went. */
async function deactivateAtOnce(
  run: StepRun,
  chunk: ChunkDocument,
  absent: string[],
  next: string,
): Promise<void> {
  const { session, signal, progress } = run
  const committed = await runTransaction({
    session,
    attempt: () => writeDeactivated(run, { chunk, absent, next }),
    isStopped: () => signal.aborted,
    timeoutMs,
    onRetry: () => undefined,
    maxConflictRetries: absent.length > 1 ? maxConflictRetries : Infinity,
  })
  if (!committed) throw signal.reason as Error
  progress.add()
  chunk.deactivated_to = next
  run.document.step_failures = 0
}

async function writeDeactivated(
  run: StepRun,
  { chunk, absent, next }: { chunk: ChunkDocument; absent: string[]; next: string },
): Promise<void> {
  const { document, step, database, session, stripe } = run
  const { collections } = database
  // Requests may have changed or deleted some of them since they were read, and added others with the same identities.
  const still = await collections.subscribers
    .find(
      { _id: { $in: absent }, ...activeAtStart(document) },
      { session, projection: { _id: 1, email: 1, id: 1 }, batchSize: absent.length + 1 },
    )
    .sort({ _id: 1 })
    .toArray()
  // A write, so that this and a pause or a cancel can't both commit.
  const isLeased = await writeInStep(
    collections,
    { ...step, state: 'importing' },
    { $inc: { step_writes: 1 }, $set: noFailures },
    session,
  )
  const isOurs = await noteDeactivated(collections, session, { chunk, to: next, subscribers: still.length })
  if (!isLeased || !isOurs) throw stepLost(run)
  if (still.length === 0) return
  const earlier = await collections.outcomes.findOne(
    { _id: { $gte: deactivationId(chunk._id, 0), $lt: `${chunk._id};` } },
    { session, projection: { _id: 1 }, sort: { _id: -1 } },
  )
  const lines = await deflateAsync(still.map((subscriber) => `${subscriber.email}\n`).join(''), {
    level: 1,
  })
  await collections.outcomes.insertOne(
    { _id: nextDeactivationId(chunk._id, earlier?._id), logs: { deactivated: lines } },
    { session },
  )
  if (document.options.dry_run) return
  await collections.subscribers.updateMany(
    { _id: { $in: still.map((subscriber) => subscriber._id) } },
    { $set: { status: 'deactivated', remove_time: clock.now() } },
    { session },
  )
  await dropReactionsInList(
    collections,
    session,
    document.mailing_list_id,
    still.map((subscriber) => subscriber.id),
  )
  await countMovesOfLane(collections, session, stripe, {
    organizationId: document.organization_id,
    listId: document.mailing_list_id,
    changes: addMove(noStatusCounts(), 'active', 'deactivated', still.length),
  })
}

const deflateAsync = promisify(deflate)
