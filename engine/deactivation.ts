import { promisify } from 'node:util'
import { deflate } from 'node:zlib'
import type { Filter } from 'mongodb'
import { clock } from '../shared/clock.ts'
import {
  openPartition,
  readInPieces,
  readRecordAt,
  refuseDamaged,
  type Partition,
} from '../shared/records/partition-file.ts'
import { deactivationId, type ChunkDocument, type ImportDocument } from '../shared/schemas/import.ts'
import type { SubscriberDocument } from '../shared/schemas/subscriber.ts'
import { noteDeactivated } from '../shared/store/chunks.ts'
import { writeInStep } from '../shared/store/import-steps.ts'
import { dropReactionsInList } from '../shared/store/reactions.ts'
import { addMove, countMovesOfLane, noStatusCounts } from '../shared/store/subscriber-counts.ts'
import { subscriberKey } from '../shared/values/identity.ts'
import type { StepRun } from './step.ts'
import { runTransaction, TooManyConflicts } from './writing/transaction.ts'

/**
 * `deactivate_subscribers_not_in_import`: active subscribers that were there when the import began and whose identity
 * is in no record. Chunk by chunk, because the chunks' ranges of identities cover all there are: the chunk's identities
 * beside the subscribers of its range. Memory is one chunk's identities.
 *
 * Exactly once: each thousand is one transaction that also moves `deactivated_to` of the chunk, from the value that
 * it was read with. Whoever comes a second time goes on from there, and a zombie's transaction matches nothing.
 */

const subscribersPerTransaction = 1_000
/** Of a transaction that meets others' writes, before it is cut in halves. */
const mostConflicts = 2
/** For all attempts of one transaction. */
const patienceMs = 120_000

/**
 * Goes on where an earlier holder of the step got to; resolves when all are deactivated. Throws ImportError
 * `chunk_damaged` where the partition is gone, or a chunk isn't what was written, before anybody of its range is
 * deactivated; the signal's reason; and an Error when the step is somebody else's by now.
 */
export async function deactivateAbsent(run: StepRun): Promise<void> {
  await forEachRange(run, (chunk, file) => deactivateInRange(run, chunk, file))
}

/** How many would be deactivated; counts no further than `enough`. */
export async function countAbsent(run: StepRun, enough: number): Promise<number> {
  let absent = 0
  await forEachRange(run, async (chunk, file) => {
    if (absent >= enough) return
    for await (const _ of absentIn(run, chunk, file)) {
      absent += 1
      if (absent >= enough) return
    }
  })
  return absent
}

async function forEachRange(
  { document, staging, database }: StepRun,
  work: (chunk: ChunkDocument, file: Partition) => Promise<void>,
): Promise<void> {
  const file = await openPartition(staging, document)
  try {
    const chunks = await database.collections.chunks
      .find({ import_id: document._id, kind: { $ne: 'unidentified' } })
      .sort({ number: 1 })
      .toArray()
    // Without any identity in the file there is no chunk with a range; the caller has refused that case.
    for (const chunk of chunks) await work(chunk, file)
  } finally {
    await file.close()
  }
}

async function deactivateInRange(run: StepRun, chunk: ChunkDocument, file: Partition): Promise<void> {
  let absent: string[] = []
  for await (const key of absentIn(run, chunk, file)) {
    absent.push(key)
    if (absent.length < subscribersPerTransaction) continue
    await deactivateSome(run, chunk, absent)
    absent = []
  }
  if (absent.length > 0) await deactivateSome(run, chunk, absent)
}

/**
 * The keys of active subscribers of the chunk's range, in their order, that were there at the start, from where the last
 * one got to, and aren't in the chunk.
 */
async function* absentIn(
  { document, database, signal }: StepRun,
  chunk: ChunkDocument,
  file: Partition,
): AsyncGenerator<string> {
  const listId = document.mailing_list_id
  const present = await identitiesOf(chunk, file)
  const from = chunk.deactivated_to ?? subscriberKey(listId, chunk.from ?? '')
  const end = chunk.to === null ? `${listId};` : subscriberKey(listId, chunk.to)
  const cursor = database.collections.subscribers
    .find(
      {
        _id: { $gte: from, $lt: end },
        ...activeAtStart(document),
      },
      { projection: { _id: 1 } },
    )
    .sort({ _id: 1 })
    .batchSize(subscribersPerTransaction)
  try {
    for await (const { _id: key } of cursor) {
      signal.throwIfAborted()
      if (!present.has(key.slice(subscriberKey(listId, '').length))) yield key
    }
  } finally {
    await cursor.close()
  }
}

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

/** Deactivates subscribers of one range that follow each other; in halves, where requests write the same ones all the time. */
async function deactivateSome(run: StepRun, chunk: ChunkDocument, absent: string[]): Promise<void> {
  try {
    await deactivateAtOnce(run, chunk, absent)
  } catch (error) {
    if (!(error instanceof TooManyConflicts)) throw error
    const middle = Math.ceil(absent.length / 2)
    await deactivateSome(run, chunk, absent.slice(0, middle))
    await deactivateSome(run, chunk, absent.slice(middle))
  }
}

/** In one transaction, which also notes on the chunk how far that went. */
async function deactivateAtOnce(run: StepRun, chunk: ChunkDocument, absent: string[]): Promise<void> {
  const { session, signal } = run
  const next = `${absent.at(-1)!}\0`
  const committed = await runTransaction({
    session,
    attempt: () => writeDeactivated(run, { chunk, absent, next }),
    isStopped: () => signal.aborted,
    patienceMs,
    onRetry: () => undefined,
    mostConflicts: absent.length > 1 ? mostConflicts : Infinity,
  })
  if (!committed) throw signal.reason as Error
  chunk.deactivated_to = next
}

async function writeDeactivated(
  { document, step, database, session, signal, stripe }: StepRun,
  { chunk, absent, next }: { chunk: ChunkDocument; absent: string[]; next: string },
): Promise<void> {
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
  const isHeld = await writeInStep(
    collections,
    { ...step, state: 'importing' },
    { $inc: { step_writes: 1 }, $set: { step_deaths: 0 } },
    session,
  )
  const isOurs = await noteDeactivated(collections, session, { chunk, to: next, subscribers: still.length })
  if (!isHeld || !isOurs)
    throw signal.aborted ? (signal.reason as Error) : new Error('another engine finishes this import now')
  const earlier = await collections.outcomes.countDocuments(
    { _id: { $gte: deactivationId(chunk._id, 0), $lt: `${chunk._id};` } },
    { session },
  )
  if (still.length > 0) {
    const lines = await deflateAsync(still.map((subscriber) => `${subscriber.email}\n`).join(''), {
      level: 1,
    })
    await collections.outcomes.insertOne(
      { _id: deactivationId(chunk._id, earlier), logs: { deactivated: lines } },
      { session },
    )
  }
  if (still.length === 0 || document.options.dry_run) return
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
