import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { clock } from '../runtime/clock.ts'
import type { Database } from '../runtime/database.ts'
import { conflictTimeoutMs, inTransaction } from '../runtime/transactions.ts'
import {
  limitChangeIndex,
  reservedQuotaIndex,
  notFinalizedIndex,
  type Collections,
} from '../contract/schemas/collections.ts'
import type { ChunkDocument } from '../contract/schemas/import.ts'
import { recordReservation } from './chunks.ts'
import { preemptWrites, type FenceContext } from './fence.ts'
import { activeSubscribers, restartOpenWrites } from './subscriber-counts.ts'

/**
 * The subscriber limit of an organization, which no mix of imports and requests exceeds:
 *     active subscribers (the sum of its count stripes) + quota reserved by running chunks <= limit
 * Optimistic lock: each transaction that raises that sum also raises `places_revision` of the organization, so two of
 * them can't both commit on what they read. A chunk reserves for thousands of rows at a time. Its batches turn reserved
 * quota into active subscribers, which leaves the sum as it is and needs no lock. While much is free, a chunk needs one
 * small transaction for its reservation. When little is free, a batch reserves what it needs, or, where no other chunk
 * has a reservation, whatever is left. A chunk that waits keeps no reservation, so two chunks never wait for each
 * other.
 *
 * A dry run counts its own rows only: its reservations take nothing from other imports.
 */

/** The limit of an organization; null means unlimited. */
export async function readSubscriberLimit(
  collections: Collections,
  organizationId: number,
  session?: ClientSession,
): Promise<number | null> {
  const organization = await collections.organizations.findOne(
    { _id: organizationId },
    { projection: { subscriber_limit: 1 }, ...(session === undefined ? {} : { session }) },
  )
  return organization?.subscriber_limit ?? null
}

interface QuotaRequest {
  chunk: Pick<ChunkDocument, '_id' | 'import_id' | 'organization_id' | 'dry_run'> & { token: string }
  limit: number
  /** The minimum for the next batch, as far as it is known. */
  needed: number
  /** Enough for the later batches of the chunk. It is reserved only where twice as much is free. */
  wanted: number
}

export type QuotaReservation =
  /** `isLast`: nothing more can be had, because active subscribers fill the rest of the limit. */
  | { reserved: number; isLast: boolean }
  /** Other chunks have reservations that they may give back; this one keeps none meanwhile. */
  | 'busy'
  /** The lease of the chunk is lost. */
  | 'lost'

/** Inside a transaction: reserves for a chunk what it wants, what it needs, or what there is. */
export async function reserveQuota(
  collections: Collections,
  session: ClientSession,
  { chunk, limit, needed, wanted }: QuotaRequest,
): Promise<QuotaReservation> {
  const active = await activeSubscribers(collections, session, chunk.organization_id)
  const { reservedByChunk, reservedByOthers, used } = await sumReservations(collections, session, chunk)
  const free = Math.max(0, limit - active - used - reservedByOthers)
  const isBusy = free < needed && reservedByOthers > 0
  const reserved = isBusy ? 0 : free >= wanted * 2 ? wanted : Math.min(free, needed)
  if (reserved > reservedByChunk) await bumpQuotaRevision(collections, session, chunk.organization_id)
  if (reserved !== reservedByChunk || isBusy) {
    const isRecorded = await recordReservation(collections, session, chunk, reserved)
    if (!isRecorded) return 'lost'
  }
  return isBusy ? 'busy' : { reserved, isLast: reservedByOthers === 0 && reserved === free }
}

/**
 * Called after a limit was changed and before the request is answered: afterwards no write uses the old limit. A chunk
 * reads the limit when it is claimed, so running chunks are taken from their engines. A small import reads it for its
 * plan, and ends only with the same `step_writes`. Open transactions of requests conflict on the touched stripes and are
 * repeated.
 */
export async function enforceLimit(
  context: FenceContext,
  { organizationId, change }: { organizationId: number; change: string },
): Promise<void> {
  const { collections } = context.database
  // A failed import may have an open batch until it is finalized.
  const writing = await collections.imports
    .find(
      { finalized: false, organization_id: organizationId, state: { $ne: 'scheduled' } },
      { projection: { _id: 1 } },
    )
    .hint(notFinalizedIndex)
    .toArray()
  await preemptWrites(
    context,
    writing.map(({ _id }) => _id),
  )
  await restartOpenWrites(collections, organizationId)
  await collections.organizations.updateOne(
    { _id: organizationId, limit_change: change },
    { $unset: { limit_change: '' } },
  )
}

/** Enforces limits whose request died after its commit; resolves to the organizations. */
export async function enforcePendingLimits(context: FenceContext): Promise<number[]> {
  const { organizations } = context.database.collections
  const pending = await organizations
    .find<{ _id: number; limit_change: string }>(
      { limit_change: { $exists: true } },
      { projection: { limit_change: 1 } },
    )
    .hint(limitChangeIndex)
    .toArray()
  for (const { _id, limit_change: change } of pending)
    await enforceLimit(context, { organizationId: _id, change })
  return pending.map(({ _id }) => _id)
}

async function sumReservations(
  collections: Collections,
  session: ClientSession,
  chunk: QuotaRequest['chunk'],
): Promise<{ reservedByChunk: number; reservedByOthers: number; used: number }> {
  const countedChunks = chunk.dry_run
    ? collections.chunks.find({ import_id: chunk.import_id }, { session })
    : collections.chunks
        .find(
          { organization_id: chunk.organization_id, quota_reserved: { $gt: 0 }, dry_run: false },
          { session },
        )
        .hint(reservedQuotaIndex)
  const sums = { reservedByChunk: 0, reservedByOthers: 0, used: 0 }
  for await (const counted of countedChunks.project<
    Pick<ChunkDocument, '_id' | 'quota_reserved' | 'quota_used'>
  >({
    quota_reserved: 1,
    quota_used: 1,
  })) {
    if (counted._id === chunk._id) sums.reservedByChunk = counted.quota_reserved
    else sums.reservedByOthers += counted.quota_reserved
    if (chunk.dry_run) sums.used += counted.quota_used
  }
  return sums
}

/** Inside a transaction that raises the sum: of two that both do so only one commits. */
async function bumpQuotaRevision(
  collections: Collections,
  session: ClientSession,
  organizationId: number,
): Promise<void> {
  await collections.organizations.updateOne(
    { _id: organizationId },
    { $inc: { places_revision: 1 } },
    { session },
  )
}

/**
 * Inside a request's transaction that makes `amount` more subscribers active. `full`: active subscribers alone
 * leave too little. `busy`: chunks of imports have reserved the rest, and may give some of it back.
 */
export async function useQuota(
  collections: Collections,
  session: ClientSession,
  organizationId: number,
  { amount = 1, hasQuotaLock }: { amount?: number; hasQuotaLock: boolean },
): Promise<'ok' | 'full' | 'busy'> {
  const organization = await collections.organizations.findOne(
    { _id: organizationId },
    { session, projection: { subscriber_limit: 1 } },
  )
  const limit = organization?.subscriber_limit ?? null
  if (limit === null) return 'ok'
  if (!hasQuotaLock) throw new QuotaLockNeeded()
  const active = await activeSubscribers(collections, session, organizationId)
  if (active + amount > limit) return 'full'
  const reserved = await collections.chunks
    .aggregate<{ total: number }>(
      [
        { $match: { organization_id: organizationId, quota_reserved: { $gt: 0 }, dry_run: false } },
        { $group: { _id: null, total: { $sum: '$quota_reserved' } } },
      ],
      { session, hint: reservedQuotaIndex },
    )
    .toArray()
  if (active + (reserved[0]?.total ?? 0) + amount > limit) return 'busy'
  await bumpQuotaRevision(collections, session, organizationId)
  return 'ok'
}

/** Thrown by a transaction that began without the lock of the process, and is repeated with it. */
class QuotaLockNeeded extends Error {}

/** Thrown by a transaction that needs quota which imports have reserved: it is repeated, because they may give it back. */
export class QuotaBusy extends Error {}

/** A transaction of a request, with what `useQuota` needs. */
export interface QuotaTransaction {
  database: Database
  session: ClientSession
  organizationId: number
  hasQuotaLock: boolean
}

/**
 * Runs a transaction of requests that may use quota. Those that do are serialized by process and organization. Of
 * concurrent ones all but one would be rolled back, even on different lists. Throws what `work` throws, `QuotaBusy` only
 * after it was repeated for `conflictTimeoutMs`.
 */
export async function inQuotaTransaction<T>(
  database: Database,
  organizationId: number,
  work: (transaction: QuotaTransaction) => Promise<T>,
): Promise<T> {
  const busyDeadline = clock.monotonicMs() + conflictTimeoutMs
  let deadline = clock.monotonicMs() + quotaTimeoutMs
  let needsLock = false
  for (;;) {
    const hasQuotaLock = needsLock
    const run = () =>
      inTransaction(
        database,
        (session) => work({ database, session, organizationId, hasQuotaLock }),
        deadline,
      )
    try {
      return await (needsLock ? database.local.quotaMutex.runExclusive(organizationId, run) : run())
    } catch (error) {
      if (error instanceof QuotaLockNeeded) needsLock = true
      else if (error instanceof QuotaBusy && clock.monotonicMs() < busyDeadline) {
        await sleep(busyPauseMs * (0.5 + Math.random()))
        deadline = clock.monotonicMs() + quotaTimeoutMs
      } else throw error
    }
  }
}

/** How long a transaction that may use quota is repeated when it conflicts with others. */
export const quotaTimeoutMs = 10_000
const busyPauseMs = 50
