import type { ClientSession } from 'mongodb'
import type { Collections } from '../contract/schemas/collections.ts'
import {
  furtherCounts,
  maxFaults,
  noCounts,
  type ChunkDocument,
  type FaultCount,
  type ImportCounts,
  type ImportDocument,
} from '../contract/schemas/import.ts'
import { chunkLeases, claimedBy, leaseEnd, noTries, type Claim } from './work-leases.ts'

/**
 * Chunk documents. An engine claims a chunk, its worker advances it batch by batch, and it is released or done. Every
 * write by a lease's holder filters by state and token (a fencing token), so a former holder changes nothing. Other
 * writes name their guard. Those that take chunks from their engines are in fence.ts.
 */

/** Stores the chunks of a split, inside the transaction that makes them claimable. */
export async function replaceChunks(
  collections: Collections,
  session: ClientSession,
  importId: number,
  chunks: ChunkDocument[],
): Promise<void> {
  await collections.chunks.deleteMany({ import_id: importId }, { session })
  for (let from = 0; from < chunks.length; from += chunksAtOnce)
    await collections.chunks.insertMany(chunks.slice(from, from + chunksAtOnce), { session })
}

/** A huge file has a million pieces. One message with all of them would be 30 MB. */
const chunksAtOnce = 250

/** A chunk without a committed batch or reservation for this time may be taken over, even while its engine is alive. */
export const chunkLeaseMs = 60_000

/** After this many claims without a committed batch the chunk itself counts as faulty. */
export const maxChunkClaims = 5

/**
 * Claims the next ready chunk of the import, and resolves to it without its pieces. Null when none is ready, or the
 * import was paused or cancelled since it was read (fence.ts).
 */
export function claimChunk(
  collections: Collections,
  { _id, fence }: Pick<ImportDocument, '_id' | 'fence'>,
  claim: Claim,
): Promise<ChunkDocument | null> {
  return collections.chunks.findOneAndUpdate(
    { import_id: _id, state: 'ready', fence: { $not: { $gt: fence } } },
    [
      {
        $set: {
          state: 'running',
          ...claimedBy(claim, chunkLeaseMs),
          'lease.tries': { $add: ['$lease.tries', 1] },
        },
      },
    ],
    { sort: { number: 1 }, returnDocument: 'after', projection: { pieces: 0 } },
  )
}

/** A chunk under the lease that this engine has. */
export type HeldChunk = ChunkDocument & { token: string }

/** The chunk with its pieces, for the worker of its engine; null when the token's lease is lost. */
export async function readLeasedChunk(
  { chunks }: Collections,
  chunkId: string,
  token: string,
): Promise<HeldChunk | null> {
  const chunk = await chunks.findOne({ _id: chunkId, state: 'running', 'lease.token': token })
  return chunk && { ...chunk, token }
}

/**
 * Inside a batch's transaction: records the batch as done, and the counts of the chunk. False when the lease is lost,
 * or the batch was done before. Of two engines only one commits, because both write this document.
 */
export async function advanceChunk(
  collections: Collections,
  session: ClientSession,
  progress: {
    chunk: HeldChunk
    /** Positions in the chunk of the batch's first record, and of the record after its last one. */
    from: number
    to: number
    isLast: boolean
    counts: ImportCounts
    /** Null where the batch adds none. */
    faults: FaultCount[] | null
    quota: { reserved: number; used: number }
  },
): Promise<boolean> {
  const { chunk, from, to, isLast, counts, faults, quota } = progress
  const end = isLast
    ? { ...chunkLeases.released, state: 'done' }
    : { 'lease.until': leaseEnd(chunkLeaseMs), quota_reserved: quota.reserved }
  const set = {
    next_record: to,
    counts: { $literal: counts },
    ...(faults === null ? {} : { faults: { $literal: faults } }),
    ...noTries,
    quota_used: quota.used,
    ...end,
  }
  const { matchedCount } = await collections.chunks.updateOne(
    { _id: chunk._id, state: 'running', 'lease.token': chunk.token, next_record: from },
    [{ $set: set }],
    { session, bypassDocumentValidation: true },
  )
  return matchedCount === 1
}

/** When running chunks of these imports were claimed, or last advanced: each of these renews the lease. */
export async function lastAdvances({ chunks }: Collections, importIds: number[]): Promise<Date[]> {
  if (importIds.length === 0) return []
  const running = await chunks
    .find(
      { import_id: { $in: importIds }, state: 'running', 'lease.until': { $ne: null } },
      { projection: { 'lease.until': 1 } },
    )
    .toArray()
  return running.map(({ lease }) => new Date(lease.until!.getTime() - chunkLeaseMs))
}

/** Inside a transaction that changes the chunk's reservation. Renews the lease; false when it is lost. */
export async function recordReservation(
  collections: Collections,
  session: ClientSession,
  chunk: { _id: string; token: string },
  quota: number,
): Promise<boolean> {
  const { matchedCount } = await collections.chunks.updateOne(
    { _id: chunk._id, state: 'running', 'lease.token': chunk.token },
    [{ $set: { quota_reserved: quota, 'lease.until': leaseEnd(chunkLeaseMs) } }],
    { session, bypassDocumentValidation: true },
  )
  return matchedCount === 1
}

/** Releases a chunk that is to be resumed later. `countsAsAttempt` says that it failed; see `maxChunkClaims`. */
export async function releaseChunk(
  collections: Collections,
  lease: { chunkId: string; token: string; countsAsAttempt: boolean },
): Promise<void> {
  await collections.chunks.updateOne(
    { _id: lease.chunkId, state: 'running', 'lease.token': lease.token },
    { $set: { ...chunkLeases.released, ...(lease.countsAsAttempt ? {} : chunkLeases.unclaimed) } },
  )
}

/** A chunk on which an engine has a lease. */
export interface LeasedChunk {
  importId: number
  chunkId: string
  token: string
}

/**
 * Releases a chunk inside a transaction that changes the import because of that chunk. False when the lease is lost,
 * and the caller must then write nothing else.
 */
export async function releaseFailedChunk(
  collections: Collections,
  session: ClientSession,
  { chunkId, token }: LeasedChunk,
): Promise<boolean> {
  const { matchedCount } = await collections.chunks.updateOne(
    { _id: chunkId, state: 'running', 'lease.token': token },
    { $set: { ...chunkLeases.released, ...chunkLeases.unclaimed } },
    { session },
  )
  return matchedCount === 1
}

type ChunkStates = Record<ChunkDocument['state'], number>

/**
 * Chunks move within the index by which they are found. Without a snapshot, a chunk that changes its state during the
 * read could be counted twice or not at all.
 */
const snapshotRead = { readConcern: { level: 'snapshot' } } as const

/**
 * How many of the import's chunks are in each state. All are 0 before the split, and after the import is finalized.
 */
export async function countChunkStates(collections: Collections, importId: number): Promise<ChunkStates> {
  const states: ChunkStates = { ready: 0, running: 0, done: 0 }
  const groups = collections.chunks.aggregate<{ _id: keyof ChunkStates; n: number }>(
    [{ $match: { import_id: importId } }, { $group: { _id: '$state', n: { $sum: 1 } } }],
    snapshotRead,
  )
  for await (const { _id, n } of groups) states[_id] = n
  return states
}

/** Those of the imports that have an unfinished chunk. */
export async function importsWithOpenChunks(
  collections: Collections,
  importIds: readonly number[],
): Promise<Set<number>> {
  if (importIds.length === 0) return new Set()
  const open = { import_id: { $in: [...importIds] }, state: { $in: ['ready', 'running'] as const } }
  return new Set(await collections.chunks.distinct('import_id', open, snapshotRead))
}

/** What has become of an import's rows. */
export interface ImportSums {
  counts: ImportCounts
  /** The most frequent ones first, then by their first row; at most `maxFaults`. */
  faults: FaultCount[]
}

const noSums = (): ImportSums => ({ counts: noCounts(), faults: [] })

/**
 * The sums of imports without fixed totals, over their chunks in one snapshot. A document for each sum, because one for
 * all of them may become too large.
 */
async function sumChunks(
  { chunks }: Collections,
  importIds: number[],
  { withFaults }: { withFaults: boolean },
): Promise<Map<number, ImportSums>> {
  const result = new Map<number, ImportSums>()
  if (importIds.length === 0) return result
  const ofImports = { $match: { import_id: { $in: importIds } } }
  const faults = { $unionWith: { coll: chunks.collectionName, pipeline: [ofImports, ...sumOfFaults] } }
  const sums = chunks.aggregate<{ _id: number } & Partial<ImportSums>>(
    [ofImports, ...sumOfCounts, ...(withFaults ? [faults] : [])],
    snapshotRead,
  )
  for await (const { _id, ...sum } of sums) result.set(_id, { ...(result.get(_id) ?? noSums()), ...sum })
  return result
}

const countKinds = [...Object.keys(noCounts()), ...furtherCounts]
const sumOfCounts = [
  {
    $group: {
      _id: '$import_id',
      ...Object.fromEntries(countKinds.map((kind) => [kind, { $sum: `$counts.${kind}` }])),
    },
  },
  { $project: { counts: Object.fromEntries(countKinds.map((kind) => [kind, `$${kind}`])) } },
]

const faultKeys = ['kind', 'column', 'field_id']
const sumOfFaults = [
  { $unwind: '$faults' },
  {
    $group: {
      _id: {
        import_id: '$import_id',
        ...Object.fromEntries(faultKeys.map((key) => [key, `$faults.${key}`])),
      },
      rows: { $sum: '$faults.rows' },
      first: { $min: '$faults.first' },
    },
  },
  { $sort: { rows: -1, 'first.record': 1 } },
  {
    $group: {
      _id: '$_id.import_id',
      faults: {
        $push: {
          ...Object.fromEntries(faultKeys.map((key) => [key, `$_id.${key}`])),
          rows: '$rows',
          first: '$first',
        },
      },
    },
  },
  { $project: { faults: { $slice: ['$faults', maxFaults] } } },
]

/** The same for one import. */
export async function sumImport(collections: Collections, importId: number): Promise<ImportSums> {
  return (await sumChunks(collections, [importId], { withFaults: true })).get(importId) ?? noSums()
}

/**
 * The sums of imports in any state. An import may be finalized after its document was read, and its chunks are then
 * removed. Totals are therefore read once more after the sums, and replace them. Without `withFaults` the faults of
 * imports without totals are left out.
 */
export async function readSums(
  collections: Collections,
  documents: Pick<ImportDocument, '_id' | 'number_of_records' | 'totals' | 'faults'>[],
  { withFaults }: { withFaults: boolean },
): Promise<Map<number, ImportSums>> {
  const sums = new Map(documents.map((document) => [document._id, fixedSums(document)]))
  // An import has chunks from the write on that stores the number of its records.
  const open = documents
    .filter(({ totals, number_of_records: records }) => totals === null && records !== null)
    .map(({ _id }) => _id)
  if (open.length === 0) return sums
  for (const [id, sum] of await sumChunks(collections, open, { withFaults })) sums.set(id, sum)
  const finalized = await collections.imports
    .find({ _id: { $in: open }, totals: { $ne: null } }, { projection: { totals: 1, faults: 1 } })
    .toArray()
  for (const document of finalized) sums.set(document._id, fixedSums(document))
  return sums
}

/** Totals that were fixed before a kind of count was introduced lack it. */
const fixedSums = ({ totals, faults = [] }: Pick<ImportDocument, 'totals' | 'faults'>): ImportSums => ({
  counts: { ...noCounts(), ...totals },
  faults,
})

/**
 * Inside a transaction that deactivates subscribers of a chunk's range: adds them to the counts, and records that the
 * range is done up to `to`. False when another engine has advanced it since.
 */
export async function recordDeactivated(
  collections: Collections,
  session: ClientSession,
  { chunk, to, subscribers }: { chunk: ChunkDocument; to: string; subscribers: number },
): Promise<boolean> {
  const { matchedCount } = await collections.chunks.updateOne(
    { _id: chunk._id, state: 'done', deactivated_to: chunk.deactivated_to },
    { $set: { deactivated_to: to }, $inc: { 'counts.deactivated': subscribers } },
    { session },
  )
  return matchedCount === 1
}

/** Closes the ready chunks of an ended import; resolves to how many are still leased or became ready meanwhile. */
export async function closeChunks(collections: Collections, importId: number): Promise<number> {
  await collections.chunks.updateMany({ import_id: importId, state: 'ready' }, { $set: { state: 'done' } })
  // A chunk that was released between the two commands is ready again, and not closed yet.
  return collections.chunks.countDocuments(
    { import_id: importId, state: { $in: ['ready', 'running'] } },
    snapshotRead,
  )
}

/** Deletes the chunks of an ended import in any state. The caller knows that none is leased. */
export async function deleteChunks(collections: Collections, importId: number): Promise<void> {
  await collections.chunks.deleteMany({ import_id: importId })
}
