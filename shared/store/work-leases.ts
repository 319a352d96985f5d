import type { Collection } from 'mongodb'
import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'
import type { Lease } from '../contract/schemas/lease.ts'

/**
 * Leases of engines on work: on the step of an import and on a chunk. Each is the sub-document `lease` of its document.
 * What a holder writes has the token in its filter (a fencing token), so a former holder changes nothing. This file has
 * the parts of those filters and updates, and what is done to all leases of an engine. Leases of processes are in
 * leases.ts.
 */

/** Who claims a chunk or a step. Each claim has a new token. */
export interface Claim {
  engineId: string
  token: string
}

/** Where work is leased. */
interface Home {
  collection: 'imports' | 'chunks'
  /** Matches all documents whose lease an engine has, and maybe others; `hint` is the index for it. */
  matches: Record<string, unknown>
  hint: Record<string, 1>
  /** Written with each release. */
  released: Record<string, unknown>
  /** Written too where the claim was never worked on. */
  unclaimed: Record<string, unknown>
}

/** In an update: nothing holds the lease. */
export const noHolder = { 'lease.holder': null, 'lease.token': null, 'lease.until': null }
/** In an update: the work made progress, so that it starts its tries anew. */
export const noTries = { 'lease.tries': 0, 'lease.deaths': 0 }

const stepLeases: Home = {
  collection: 'imports',
  matches: { finalized: false, state: { $ne: 'scheduled' } },
  hint: notFinalizedIndex,
  released: noHolder,
  unclaimed: {},
}

export const chunkLeases: Home = {
  collection: 'chunks',
  matches: { state: 'running' },
  hint: { state: 1, 'lease.holder': 1 },
  released: { ...noHolder, quota_reserved: 0, state: 'ready' },
  // A claim of a chunk counts as a try.
  unclaimed: { 'lease.tries': 0 },
}

const homes = [chunkLeases, stepLeases] as const

/** In an update pipeline: the end of a lease of this length, by the database's clock. */
export const leaseEnd = (ms: number) => ({ $add: ['$$NOW', ms] })

/** In an update pipeline: a claim. Without a length it lasts as long as its engine. */
export const claimedBy = ({ engineId, token }: Claim, ms: number | null) => ({
  'lease.holder': engineId,
  'lease.token': token,
  'lease.until': ms === null ? null : leaseEnd(ms),
})

/**
 * How long a release waits for a transaction that has locked the document. A release that times out is repeated by the
 * next take-over, 3 s later.
 */
const releaseMs = 5_000

interface LeasedDocument {
  _id: number | string
  import_id?: number
  lease: Lease
}

const open = (collections: Collections, home: Home): Collection<LeasedDocument> =>
  collections[home.collection] as unknown as Collection<LeasedDocument>

/** Releases what an engine has claimed under a token, if anything. It was never worked on. */
export async function releaseClaim(collections: Collections, { engineId, token }: Claim): Promise<void> {
  for (const home of homes)
    await open(collections, home).updateOne(
      { ...home.matches, 'lease.holder': engineId, 'lease.token': token },
      { $set: { ...home.released, ...home.unclaimed } },
      { hint: home.hint },
    )
}

/** Releases the work of an engine that stopped. A death counts against each piece of work, which may be its cause. */
export async function releaseLeasesOfEngine(
  collections: Collections,
  engineId: string,
  { died }: { died: boolean },
): Promise<{ chunks: number; steps: number }> {
  const release = async (home: Home): Promise<number> => {
    const { modifiedCount } = await open(collections, home).updateMany(
      { ...home.matches, 'lease.holder': engineId },
      {
        $set: home.released,
        ...(died ? { $inc: { 'lease.deaths': 1 } } : {}),
      },
      { hint: home.hint, maxTimeMS: releaseMs },
    )
    return modifiedCount
  }
  return { chunks: await release(chunkLeases), steps: await release(stepLeases) }
}

/** The leases that engines have, or that one of them has. */
export async function listLeases(
  collections: Collections,
  holder: { engineId?: string } = {},
): Promise<{ importId: number; engineId: string }[]> {
  const leases: { importId: number; engineId: string }[] = []
  for (const home of homes) {
    const found = open(collections, home).find(
      { ...home.matches, 'lease.holder': holder.engineId ?? { $ne: null } },
      { projection: { import_id: 1, 'lease.holder': 1 }, hint: home.hint },
    )
    for await (const { _id, import_id: importId = _id as number, lease } of found)
      leases.push({ importId, engineId: lease.holder! })
  }
  return leases
}

/** Releases chunks whose lease has expired although their engine is alive; resolves to their former engines. */
export async function releaseExpired(collections: Collections) {
  const chunks = open(collections, chunkLeases)
  const isExpired = { ...chunkLeases.matches, $expr: { $lt: ['$lease.until', '$$NOW'] } }
  const expired = await chunks.find(isExpired, { projection: { lease: 1 } }).toArray()
  const released: { _id: string; engineId: string | null }[] = []
  for (const { _id, lease } of expired) {
    const { modifiedCount } = await chunks.updateOne(
      { ...isExpired, _id, 'lease.token': lease.token },
      { $set: chunkLeases.released },
    )
    if (modifiedCount === 1) released.push({ _id: _id as string, engineId: lease.holder })
  }
  return released
}
