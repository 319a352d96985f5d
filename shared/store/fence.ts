import { setTimeout as sleep } from 'node:timers/promises'
import { MongoWriteConcernError } from 'mongodb'
import { clock } from '../runtime/clock.ts'
import type { Database } from '../runtime/database.ts'
import {
  isCommitUnknown,
  isMaxTimeExpired,
  isWriteConflict,
  driverRetryReason,
} from '../runtime/driver-errors.ts'
import type { Logger } from '../runtime/logger.ts'
import { BusyError, errorMessage } from '../contract/errors.ts'
import { idsOfImport, type ImportDocument } from '../contract/schemas/import.ts'
import { killSessions } from './leases.ts'
import { chunkLeases } from './work-leases.ts'

/**
 * Fencing makes the answer to a request final: the chunks of the import are taken from their engines before it is
 * sent. A batch that has not committed by then never commits, however long its engine was suspended.
 */

export type FenceContext = { database: Database; log: Logger }

/** How long a write waits for an engine's transaction before the sessions of that engine are ended. */
export const fenceTimeoutMs = 2_000
export const maxFenceTries = 5
/** How long a write is repeated while the other members of the replica set lag. */
export const maxLagMs = 60_000
const lagPauseMs = 100

/**
 * Takes all chunks of the import from their engines. Only an engine that has read the import since this `fence` can
 * claim one again. Waits for batches that are being committed.
 */
export async function fenceChunks(
  context: FenceContext,
  { _id, fence: number }: Pick<ImportDocument, '_id' | 'fence'>,
): Promise<void> {
  await updateMany(context, [_id], (options) =>
    context.database.collections.chunks.updateMany(
      { _id: idsOfImport(_id), state: { $in: ['ready', 'running'] }, fence: { $not: { $gte: number } } },
      { $set: { ...chunkLeases.released, ...chunkLeases.unclaimed, fence: number } },
      options,
    ),
  )
}

/**
 * Takes the running chunks of imports from their engines; any engine can claim them again. A small import that is being
 * written whole is written anew. Waits like fenceChunks.
 */
export async function preemptWrites(context: FenceContext, importIds: number[]): Promise<void> {
  const { imports } = context.database.collections
  await updateMany(context, importIds, (options) =>
    imports.updateMany(
      // A paused one has its engine's token, which may go on after an unpause.
      { _id: { $in: importIds }, state: { $in: ['splitting', 'paused'] } },
      { $inc: { step_writes: 1 } },
      options,
    ),
  )
  await updateMany(context, importIds, (options) =>
    context.database.collections.chunks.updateMany(
      { import_id: { $in: importIds }, state: 'running' },
      { $set: { ...chunkLeases.released, ...chunkLeases.unclaimed } },
      options,
    ),
  )
}

/** Repeats the write once after a lost reply: twice does no harm, and the driver does not repeat an updateMany. */
async function updateMany(
  context: FenceContext,
  importIds: number[],
  write: (options: { maxTimeMS: number }) => Promise<unknown>,
): Promise<void> {
  try {
    await writeEndingBlockers(context, importIds, write)
  } catch (error) {
    if (driverRetryReason(error) === null) throw error
    await writeEndingBlockers(context, importIds, write)
  }
}

/**
 * Runs a write that may wait for transactions of engines that work on these imports. After 2 s the open transactions
 * of those engines are ended, and the engines repeat their work. Throws BusyError after five attempts.
 *
 * A write that no majority has within 2 s is repeated, because a failover may lose it. So `write` must be safe to repeat.
 * Throws BusyError where the other members lag for a minute.
 */
export async function writeEndingBlockers<T>(
  { database, log }: FenceContext,
  importIds: number[],
  write: (options: { maxTimeMS: number }) => Promise<T>,
): Promise<T> {
  const deadline = clock.monotonicMs() + maxLagMs
  let tries = 0
  for (;;) {
    try {
      return await write({ maxTimeMS: fenceTimeoutMs })
    } catch (error) {
      if (error instanceof MongoWriteConcernError || isCommitUnknown(error)) {
        if (clock.monotonicMs() > deadline) throw lagging(error)
        await sleep(lagPauseMs)
        continue
      }
      if (!isMaxTimeExpired(error) && !isWriteConflict(error)) throw error
      tries += 1
      if (tries === maxFenceTries) throw stillLocked(error)
    }
    const engines = await findEngines(database, importIds)
    log.warn(
      { imports: importIds, engines: engines.map(({ _id }) => _id.slice(0, 8)) },
      `a transaction has kept the rows of an import locked for ${fenceTimeoutMs / 1000} s: the open transactions of the engines that work on it are ended, and the engines repeat them`,
    )
    await killSessions(
      database.client,
      engines.flatMap((engine) => engine.session_ids),
    ).catch((error: unknown) => {
      log.warn(`the sessions of engines can't be ended: ${errorMessage(error)}`)
    })
  }
}

const stillLocked = (cause: unknown): BusyError =>
  new BusyError(
    `other transactions have kept an import locked for ${(maxFenceTries * fenceTimeoutMs) / 1000} s, so the request may be done in part only: send it again`,
    { retryAfter: 5, cause },
  )

const lagging = (cause: unknown): BusyError =>
  new BusyError(
    `the other members of the database have not confirmed a change of an import for ${maxLagMs / 1000} s, so the request may be done in part only: send it again`,
    { retryAfter: 5, cause },
  )

/**
 * Fences paused and cancelled imports whose request died, or lost the database, before it could do so. Resolves to
 * the number of such imports.
 */
export async function enforcePendingFences(context: FenceContext): Promise<number> {
  const { chunks, imports } = context.database.collections
  const running = await chunks.distinct('import_id', { state: 'running' })
  const stopped = await imports
    .find({ _id: { $in: running }, state: { $in: ['paused', 'cancelled'] } }, { projection: { fence: 1 } })
    .toArray()
  for (const document of stopped) await fenceChunks(context, document)
  return stopped.length
}

async function findEngines({ collections }: Database, importIds: number[]) {
  const [ofChunks, ofSteps] = await Promise.all([
    collections.chunks
      .find({ import_id: { $in: importIds }, state: 'running' }, { projection: { lease: 1 } })
      .toArray(),
    collections.imports.find({ _id: { $in: importIds } }, { projection: { lease: 1 } }).toArray(),
  ])
  const names = [...ofChunks, ...ofSteps].map(({ lease }) => lease.holder).filter((id) => id !== null)
  return collections.engines.find({ _id: { $in: names } }).toArray()
}
