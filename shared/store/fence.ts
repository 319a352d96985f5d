import { MongoWriteConcernError } from 'mongodb'
import { isMaxTimeExpired, retryReasonOfDriver, type Database } from '../runtime/database.ts'
import type { Logger } from '../runtime/logger.ts'
import { messageOf, RequestError } from '../contract/errors.ts'
import { idsOfImport, type ImportDocument } from '../contract/schemas/import.ts'
import { released } from './chunks.ts'
import { killSessions } from './leases.ts'

/**
 * What makes a request's answer final: the chunks of imports are taken from their holders before it. A holder that
 * hasn't committed yet never commits, however long it was suspended and whatever it last read.
 */

export type FenceContext = { database: Database; log: Logger }

/** How long a write waits for a holder's transaction before the holder's sessions are ended. */
export const timeoutMs = 2_000
const maxTries = 5

/**
 * Nobody holds a chunk of the import any more, and only who has read the import since its last `fence` may claim one.
 * Waits for batches that are just being committed.
 */
export async function fenceChunks(
  context: FenceContext,
  { _id, fence }: Pick<ImportDocument, '_id' | 'fence'>,
): Promise<void> {
  const number = fence ?? 0
  await updateMany(context, [_id], (options) =>
    context.database.collections.chunks.updateMany(
      { _id: idsOfImport(_id), state: { $in: ['ready', 'running'] }, fence: { $not: { $gte: number } } },
      { $set: { ...released, state: 'ready', attempt: 0, fence: number } },
      options,
    ),
  )
}

/** Takes the running chunks of imports from their holders, for anybody to go on with. Waits as fenceChunks does. */
export async function preemptChunks(context: FenceContext, importIds: number[]): Promise<void> {
  await updateMany(context, importIds, (options) =>
    context.database.collections.chunks.updateMany(
      { import_id: { $in: importIds }, state: 'running' },
      { $set: { ...released, state: 'ready', attempt: 0 } },
      options,
    ),
  )
}

/** Done twice it is as if done once, and the driver doesn't repeat an update of many documents whose reply was lost. */
async function updateMany(
  context: FenceContext,
  importIds: number[],
  write: (options: { maxTimeMS: number }) => Promise<unknown>,
): Promise<void> {
  try {
    await endingHolders(context, importIds, write)
  } catch (error) {
    if (retryReasonOfDriver(error) === null) throw error
    await endingHolders(context, importIds, write)
  }
}

/**
 * Runs a write that meets the transactions of who holds chunks or steps of these imports. One that keeps it waiting for
 * 2 s is ended with all that its engine has under way, which the engine then does again. Throws 503 after five tries.
 */
export async function endingHolders<T>(
  { database, log }: FenceContext,
  importIds: number[],
  write: (options: { maxTimeMS: number }) => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await write({ maxTimeMS: timeoutMs })
    } catch (error) {
      // It is done, and members that lag have kept it from a majority: no holder is to blame, and it isn't done again.
      if (error instanceof MongoWriteConcernError) {
        await untilMajorityHasAll(database)
        return (error.result as { value?: T }).value as T
      }
      if (!isMaxTimeExpired(error)) throw error
      if (tries === maxTries) throw stillLocked(error)
    }
    const engines = await holdersOf(database, importIds)
    log.warn(
      { imports: importIds, engines: engines.map(({ _id }) => _id.slice(0, 8)) },
      `a transaction has kept the rows of an import locked for ${timeoutMs / 1000} s: the open transactions of the engines that hold it are ended, and done again`,
    )
    await killSessions(
      database.client,
      engines.flatMap((engine) => engine.session_ids),
    ).catch((error: unknown) => {
      log.warn(`the sessions of engines can't be ended: ${messageOf(error)}`)
    })
  }
}

const stillLocked = (cause: unknown): RequestError =>
  new RequestError(
    'internal_error',
    `other transactions have kept an import locked for ${(maxTries * timeoutMs) / 1000} s, so that what was asked for may be done in part only: send the request again`,
    { status: 503, headers: { 'Retry-After': '5' }, cause },
  )

/** A write that changes nothing waits for a majority to have all that the server did before it. */
async function untilMajorityHasAll({ collections }: Database): Promise<void> {
  await collections.imports.updateOne({ _id: 0 }, { $unset: { nothing: '' } as never })
}

/**
 * Takes the chunks of paused and cancelled imports from holders that a request, having died or lost the database, left to
 * them. Resolves to how many imports had such.
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

async function holdersOf({ collections }: Database, importIds: number[]) {
  const [ofChunks, ofSteps] = await Promise.all([
    collections.chunks.distinct('engine_id', { import_id: { $in: importIds }, state: 'running' }),
    collections.imports.find({ _id: { $in: importIds } }, { projection: { step: 1 } }).toArray(),
  ])
  const names = [...ofChunks, ...ofSteps.map(({ step }) => step?.engine_id ?? null)].filter(
    (id) => id !== null,
  )
  return collections.engines.find({ _id: { $in: names } }).toArray()
}
