import type { ClientSession } from 'mongodb'
import type { Collections } from '../contract/schemas/collections.ts'
import {
  furtherCounts,
  noCounts,
  type ChunkDocument,
  type ImportCounts,
  type ImportDocument,
} from '../contract/schemas/import.ts'

/**
 * Chunk documents: claimed by an engine, moved on by its worker batch by batch, given back or done. Every write names
 * the state and the token it expects, so whoever lost a chunk changes nothing any more.
 */

/** Puts the chunks of a split in place, inside the transaction that lets them be claimed. */
export async function replaceChunks(
  collections: Collections,
  session: ClientSession,
  importId: number,
  chunks: ChunkDocument[],
): Promise<void> {
  await collections.chunks.deleteMany({ import_id: importId }, { session })
  if (chunks.length > 0) await collections.chunks.insertMany(chunks, { session })
}

/** A chunk of which no batch committed for so long may be taken over, whatever its engine says. */
export const chunkLeaseMs = 60_000

/** Claims without a committed batch in between, after which something is wrong with the chunk itself. */
export const maxAttempts = 5

/** Under what an engine holds a chunk, or a step of an import: a token of that one hold. */
export interface Claim {
  engineId: string
  token: string
}

/**
 * The next chunk of the import that is ready, now held under the claim's token, without its extents; null when there
 * is none, or the import was paused or cancelled since it was read (fence.ts).
 */
export function claimChunk(
  collections: Collections,
  { _id, fence }: Pick<ImportDocument, '_id' | 'fence'>,
  claim: Claim,
): Promise<ChunkDocument | null> {
  return collections.chunks.findOneAndUpdate(
    { import_id: _id, state: 'ready', fence: { $not: { $gt: fence ?? 0 } } },
    [
      {
        $set: {
          state: 'running',
          token: claim.token,
          engine_id: claim.engineId,
          attempt: { $add: ['$attempt', 1] },
          lease_until: leaseEnd,
        },
      },
    ],
    { sort: { number: 1 }, returnDocument: 'after', projection: { extents: 0 } },
  )
}

const leaseEnd = { $add: ['$$NOW', chunkLeaseMs] }

/** The chunk with its extents, for its holder's worker; null when it isn't held under that token any more. */
export function readLeasedChunk(
  collections: Collections,
  chunkId: string,
  token: string,
): Promise<(ChunkDocument & { token: string }) | null> {
  return collections.chunks.findOne({ _id: chunkId, state: 'running', token }) as Promise<
    (ChunkDocument & { token: string }) | null
  >
}

/**
 * Inside a batch's transaction: the batch is done and the chunk's counts are these. False when the chunk isn't held
 * under that token any more, or the batch was done before. Two holders can't both commit: they write this document.
 */
export async function advanceChunk(
  collections: Collections,
  session: ClientSession,
  progress: {
    chunk: ChunkDocument & { token: string }
    /** Positions in the chunk: of the batch's first record, and of the one after its last. */
    from: number
    to: number
    isLast: boolean
    counts: ImportCounts
    quota: { reserved: number; used: number }
  },
): Promise<boolean> {
  const { chunk, from, to, isLast, counts, quota } = progress
  const end = isLast ? { ...released, state: 'done' } : { lease_until: leaseEnd, places_held: quota.reserved }
  const set = {
    next_record: to,
    counts: { $literal: counts },
    attempt: 0,
    deaths: 0,
    places_used: quota.used,
    ...end,
  }
  const { matchedCount } = await collections.chunks.updateOne(
    { _id: chunk._id, state: 'running', token: chunk.token, next_record: from },
    [{ $set: set }],
    { session, bypassDocumentValidation: true },
  )
  return matchedCount === 1
}

/** What a chunk has that nobody holds. */
export const released = { token: null, engine_id: null, lease_until: null, places_held: 0 }

/** Inside a transaction that takes or gives back places; the lease goes on. False when the chunk isn't held under that token. */
export async function recordReservation(
  collections: Collections,
  session: ClientSession,
  chunk: { _id: string; token: string },
  quota: number,
): Promise<boolean> {
  const { matchedCount } = await collections.chunks.updateOne(
    { _id: chunk._id, state: 'running', token: chunk.token },
    [{ $set: { places_held: quota, lease_until: leaseEnd } }],
    { session, bypassDocumentValidation: true },
  )
  return matchedCount === 1
}

/** Gives a chunk back that goes on later. `countsAsAttempt`: it failed, and is not tried for ever. */
export async function releaseChunk(
  collections: Collections,
  lease: { chunkId: string; token: string; countsAsAttempt: boolean },
): Promise<void> {
  await collections.chunks.updateOne(
    { _id: lease.chunkId, state: 'running', token: lease.token },
    { $set: { ...released, state: 'ready', ...(lease.countsAsAttempt ? {} : { attempt: 0 }) } },
  )
}

/** A chunk in the hands of an engine. */
export interface LeasedChunk {
  importId: number
  chunkId: string
  token: string
}

/**
 * Inside a transaction that writes something about the import because of a chunk: gives the chunk back. False when it
 * isn't held under that token any more, and then the rest of the transaction must not be done.
 */
export async function releaseFailedChunk(
  collections: Collections,
  session: ClientSession,
  { chunkId, token }: LeasedChunk,
): Promise<boolean> {
  const { matchedCount } = await collections.chunks.updateOne(
    { _id: chunkId, state: 'running', token },
    { $set: { ...released, state: 'ready', attempt: 0 } },
    { session },
  )
  return matchedCount === 1
}

/** Gives back whatever chunk an engine holds under a token, if any. */
export async function releaseChunkUnder(collections: Collections, claim: Claim): Promise<void> {
  await collections.chunks.updateOne(
    { state: 'running', engine_id: claim.engineId, token: claim.token },
    { $set: { ...released, state: 'ready', attempt: 0 } },
  )
}

/** A transaction that still has the chunk or the import locked is ended at the next take-over, 3 s later. */
export const releaseMs = 5_000

/** Gives back what an engine held that works no longer; where it died, the chunks may be what it died of. */
export async function releaseChunksOf(
  collections: Collections,
  engineId: string,
  { died }: { died: boolean },
): Promise<number> {
  const { modifiedCount } = await collections.chunks.updateMany(
    { engine_id: engineId, state: 'running' },
    { $set: { ...released, state: 'ready' }, ...(died ? { $inc: { deaths: 1 } } : {}) },
    { maxTimeMS: releaseMs },
  )
  return modifiedCount
}

/** The engines that hold chunks. */
export async function holdersOfChunks(collections: Collections): Promise<string[]> {
  return (await collections.chunks.distinct('engine_id', { state: 'running' })).filter((id) => id !== null)
}

/** The imports of which an engine holds chunks. */
export function importsOfChunksLeasedBy({ chunks }: Collections, engineId: string): Promise<number[]> {
  return chunks.distinct('import_id', { engine_id: engineId, state: 'running' })
}

/** Those of the tokens under which a chunk is held. */
export function tokensOfChunks({ chunks }: Collections, tokens: string[]): Promise<(string | null)[]> {
  return chunks.distinct('token', { state: 'running', token: { $in: tokens } })
}

/** Gives back chunks whose lease ran out although their engine lives; resolves to whose they were. */
export async function releaseExpiredChunks({ chunks }: Collections) {
  const expired = await chunks
    .find(
      { state: 'running', $expr: { $lt: ['$lease_until', '$$NOW'] } },
      { projection: { engine_id: 1, token: 1 } },
    )
    .toArray()
  const taken: { _id: string; engine_id: string | null }[] = []
  for (const { _id, token, engine_id } of expired) {
    const { modifiedCount } = await chunks.updateOne(
      { _id, state: 'running', token, $expr: { $lt: ['$lease_until', '$$NOW'] } },
      { $set: { ...released, state: 'ready' } },
    )
    if (modifiedCount === 1) taken.push({ _id, engine_id })
  }
  return taken
}

export interface ChunkStates {
  ready: number
  running: number
  done: number
}

/**
 * Chunks move within the index by which they are found: without a snapshot, one that changes its state while the server
 * reads would be met twice or not at all.
 */
const ofOneMoment = { readConcern: { level: 'snapshot' } } as const

/** How many of the import's chunks are in each state: all 0 before its split, and when it is settled. */
export async function countChunkStates(collections: Collections, importId: number): Promise<ChunkStates> {
  const states: ChunkStates = { ready: 0, running: 0, done: 0 }
  const groups = collections.chunks.aggregate<{ _id: keyof ChunkStates; n: number }>(
    [{ $match: { import_id: importId } }, { $group: { _id: '$state', n: { $sum: 1 } } }],
    ofOneMoment,
  )
  for await (const { _id, n } of groups) states[_id] = n
  return states
}

/** Those of the imports of which a chunk is not done yet. */
export async function importsWithOpenChunks(
  collections: Collections,
  importIds: readonly number[],
): Promise<Set<number>> {
  if (importIds.length === 0) return new Set()
  const open = { import_id: { $in: [...importIds] }, state: { $in: ['ready', 'running'] as const } }
  return new Set(await collections.chunks.distinct('import_id', open, ofOneMoment))
}

/** The counts of imports whose totals aren't fixed yet: the sums over their chunks at one moment. */
async function sumChunkCounts(
  collections: Collections,
  importIds: number[],
): Promise<Map<number, ImportCounts>> {
  if (importIds.length === 0) return new Map()
  const kinds = [...Object.keys(noCounts()), ...furtherCounts]
  const group = {
    _id: '$import_id',
    ...Object.fromEntries(kinds.map((kind) => [kind, { $sum: `$counts.${kind}` }])),
  }
  const sums = collections.chunks.aggregate<ImportCounts & { _id: number }>(
    [{ $match: { import_id: { $in: importIds } } }, { $group: group }],
    ofOneMoment,
  )
  const result = new Map<number, ImportCounts>()
  for await (const { _id, ...counts } of sums) result.set(_id, counts)
  return result
}

/** The same of one import. */
export async function countsOfChunks(collections: Collections, importId: number): Promise<ImportCounts> {
  return (await sumChunkCounts(collections, [importId])).get(importId) ?? noCounts()
}

/**
 * The counts of imports, whatever their state. An import may be settled after the read of its document: then some or all
 * of its chunks are gone, and its totals, which are read after the sums, are there.
 */
export async function countsOf(
  collections: Collections,
  documents: Pick<ImportDocument, '_id' | 'totals'>[],
): Promise<Map<number, ImportCounts>> {
  const counts = new Map<number, ImportCounts>()
  // Totals that were fixed before a kind of count was introduced lack it.
  for (const { _id, totals } of documents) counts.set(_id, { ...noCounts(), ...totals })
  const open = documents.filter(({ totals }) => totals === null).map(({ _id }) => _id)
  if (open.length === 0) return counts
  for (const [id, sum] of await sumChunkCounts(collections, open)) counts.set(id, sum)
  const settled = await collections.imports
    .find({ _id: { $in: open }, totals: { $ne: null } }, { projection: { totals: 1 } })
    .toArray()
  for (const { _id, totals } of settled) counts.set(_id, { ...noCounts(), ...totals })
  return counts
}

/**
 * Inside a transaction that deactivates subscribers of a chunk's range: they are counted, and the range is done up to
 * `to`. False when somebody else has come further.
 */
export async function noteDeactivated(
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

/** Chunks of an ended import that nobody holds are over; resolves to how many are held still. */
export async function closeChunks(collections: Collections, importId: number): Promise<number> {
  await collections.chunks.updateMany({ import_id: importId, state: 'ready' }, { $set: { state: 'done' } })
  // One that was given back between the two writes is ready: it isn't over yet.
  return collections.chunks.countDocuments(
    { import_id: importId, state: { $in: ['ready', 'running'] } },
    ofOneMoment,
  )
}

/** In whatever state they are: for an ended import, when no chunk is held any more. */
export async function deleteChunks(collections: Collections, importId: number): Promise<void> {
  await collections.chunks.deleteMany({ import_id: importId })
}
