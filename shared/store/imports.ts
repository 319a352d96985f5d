import type { ClientSession, Filter } from 'mongodb'
import { inTransactionOf, isDuplicateKey } from '../runtime/database.ts'
import {
  endedStates,
  pausableStates,
  unfinishedStates,
  workingStates,
  type ImportState,
} from '../contract/import-state.ts'
import { lockedListsIndex, unpurgedIndex, type Collections } from '../contract/schemas/collections.ts'
import {
  logDays,
  type ImportCounts,
  type ImportDocument,
  type UploadDocument,
} from '../contract/schemas/import.ts'
import { releaseFailedChunk, type LeasedChunk } from './chunks.ts'
import { endingHolders, fenceChunks, type FenceContext } from './fence.ts'
import { failedWith } from './import-steps.ts'
import { freeKept } from './staged-usage.ts'
import { emptyBytes } from './value-bytes.ts'

/**
 * Import documents. Each move is one guarded write: the states it may come from are in its filter, and where an
 * engine moves, the token of its step. Nothing matched means that somebody else was faster; the caller is told and
 * nothing has changed.
 */

/** Inside the transaction of the request that creates it. */
export async function insertImport(
  collections: Collections,
  document: ImportDocument,
  session: ClientSession,
): Promise<void> {
  await collections.imports.insertOne(document, { session })
}

// ---- moves that a request asks for; null: not possible in the state it is in ----

/**
 * The import, paused; a list that it has stays its own, and no row of it is written any more. Null when it was paused
 * already or has ended.
 */
export function pauseImport(context: FenceContext, id: number): Promise<ImportDocument | null> {
  return moveAndFence(
    context,
    { _id: id, state: { $in: [...pausableStates] } },
    { paused_from: '$state', paused_at: '$$NOW', state: 'paused' },
  )
}

/** The import, in the state that it was paused in; null when it wasn't paused. */
export function unpauseImport({ database }: FenceContext, id: number): Promise<ImportDocument | null> {
  // The time for a download stands still while it is paused; null stays null.
  const endsAt = { $add: ['$download.ends_at', { $subtract: ['$$NOW', '$paused_at'] }] }
  return database.collections.imports.findOneAndUpdate(
    { _id: id, state: 'paused' },
    [{ $set: { state: '$paused_from', paused_from: null, paused_at: null, 'download.ends_at': endsAt } }],
    { returnDocument: 'after' },
  )
}

/**
 * The import, cancelled, and no row of it is written any more; null when it had ended. An engine fixes its counts and
 * gives its list free (fixTotals).
 */
export function cancelImport(context: FenceContext, id: number): Promise<ImportDocument | null> {
  return moveAndFence(
    context,
    { _id: id, state: { $in: [...unfinishedStates] } },
    { state: 'cancelled', finished_at: '$$NOW', paused_from: null, paused_at: null },
  )
}

async function moveAndFence(
  context: FenceContext,
  from: Filter<ImportDocument> & { _id: number },
  to: Record<string, unknown>,
): Promise<ImportDocument | null> {
  const fence = { $add: [{ $ifNull: ['$fence', 0] }, 1] }
  const moved = await endingHolders(context, [from._id], (options) =>
    context.database.collections.imports.findOneAndUpdate(from, [{ $set: { ...to, fence } }], {
      ...options,
      returnDocument: 'after',
    }),
  )
  if (moved !== null) await fenceChunks(context, moved)
  else {
    // Who is told that it is so already may rely on it, though the request that moved it may have died half-way.
    const already = await context.database.collections.imports.findOne(
      { _id: from._id, state: to['state'] as ImportState },
      { projection: { fence: 1 } },
    )
    if (already !== null) await fenceChunks(context, already)
  }
  return moved
}

/** The imports of a list that may still write rows: also those that failed or were cancelled while a chunk was held. */
export const stillWriting = (listId: number): Filter<ImportDocument> => ({
  mailing_list_id: listId,
  $or: [{ state: { $in: [...unfinishedStates] } }, { holds_list: true }],
})

// ---- what an engine looks at (and import-queues.ts) ----

/** Null when there is no such import. */
export async function readState(collections: Collections, id: number): Promise<ImportState | null> {
  return (await collections.imports.findOne({ _id: id }, { projection: { state: 1 } }))?.state ?? null
}

/** Lists that an import has for itself just now. */
export async function listLockedLists(collections: Collections): Promise<number[]> {
  const holders = await collections.imports
    .find({ holds_list: true }, { projection: { mailing_list_id: 1 } })
    .hint(lockedListsIndex)
    .toArray()
  return holders.map((holder) => holder.mailing_list_id)
}

/** Those of the imports that an engine still has something to do for. */
export async function listNotFinalizedAmong(collections: Collections, ids: number[]): Promise<number[]> {
  const notFinalized = await collections.imports
    .find({ _id: { $in: ids }, settled: false }, { projection: { _id: 1 } })
    .toArray()
  return notFinalized.map(({ _id }) => _id)
}

/** Imports whose logs have been kept for long enough, a portion of them. */
export async function listImportsWithOldLogs(collections: Collections): Promise<number[]> {
  const before = { $dateSubtract: { startDate: '$$NOW', unit: 'day', amount: logDays } }
  const old = await collections.imports
    .find(
      { logs_purged_at: null, settled: true, $expr: { $lte: ['$finished_at', before] } },
      { projection: { _id: 1 } },
    )
    .hint(unpurgedIndex)
    .sort({ finished_at: 1 })
    .limit(1_000)
    .toArray()
  return old.map(({ _id }) => _id)
}

/** By the database's clock, after the logs were removed: they count to no quota any more. */
export async function markLogsPurged(collections: Collections, id: number): Promise<void> {
  const marked = await collections.imports.findOneAndUpdate(
    { _id: id, logs_purged_at: null },
    [{ $set: { logs_purged_at: '$$NOW' } }],
    { projection: { organization_id: 1, 'totals.kept_bytes': 1 } },
  )
  const bytes = marked?.totals?.kept_bytes ?? 0
  if (bytes > 0) await freeKept(collections, marked!.organization_id, bytes)
}

/**
 * Starts a due import, of an upload with its pin, and of one that deactivates absent subscribers with the epoch that it
 * began; subscriber ids from the given one on are handed out later. Resolves to when it began; null when it is no longer
 * due, or another import has the list.
 */
export async function startImport(
  collections: Collections,
  id: number,
  {
    firstNewSubscriberId,
    importEpoch,
    upload,
  }: { firstNewSubscriberId: number; importEpoch?: number | undefined; upload?: UploadDocument | undefined },
): Promise<Date | null> {
  const started = {
    ...(importEpoch === undefined ? {} : { import_epoch: importEpoch }),
    ...(upload === undefined ? {} : { upload: { $literal: upload } }),
    first_new_subscriber_id: firstNewSubscriberId,
    state: { $cond: [{ $eq: ['$source.type', 'url'] }, 'downloading', 'splitting'] },
    started_at: '$$NOW',
    holds_list: { $cond: ['$options.dry_run', '$$REMOVE', true] },
  }
  try {
    const begun = await collections.imports.findOneAndUpdate(
      { _id: id, state: 'scheduled', $expr: { $lte: ['$begins_at', '$$NOW'] } },
      [{ $set: started }],
      { returnDocument: 'after', projection: { started_at: 1 } },
    )
    return begun?.started_at ?? null
  } catch (error) {
    if (isDuplicateKey(error)) return null
    throw error
  }
}

// ---- ends ----

/** Fails an import by the holder of its step. False when it was paused, cancelled or ended meanwhile, or the step is lost. */
export async function failImport(
  collections: Collections,
  step: { id: number; token: string },
  message: string,
): Promise<boolean> {
  const { matchedCount } = await collections.imports.updateOne(
    { _id: step.id, state: { $in: [...workingStates] }, 'step.token': step.token },
    [{ $set: failedWith(message) }],
  )
  return matchedCount === 1
}

/**
 * Fails an import by the holder of one of its chunks, which is given back in the same transaction. False when the chunk
 * isn't held under that token any more, and then nothing changes, or when the import doesn't work any more.
 */
export function failImportOfChunk(
  collections: Collections,
  session: ClientSession,
  held: LeasedChunk,
  message: string,
): Promise<boolean> {
  return inTransactionOf(session, async () => {
    if (!(await releaseFailedChunk(collections, session, held))) return false
    const { matchedCount } = await collections.imports.updateOne(
      { _id: held.importId, state: { $in: [...workingStates] } },
      [{ $set: failedWith(message) }],
      { session },
    )
    return matchedCount === 1
  })
}

/**
 * Finishes an import whose chunks are all done, and gives its list to the next one. Resolves to its end, null when the
 * step isn't held any more.
 */
export async function finishImport(
  collections: Collections,
  step: { id: number; token: string },
  totals: ImportCounts,
): Promise<Date | null> {
  const finished = {
    ...{ state: 'finished', finished_at: '$$NOW', totals: { $literal: totals } },
    ...{ step: null, holds_list: '$$REMOVE' },
  }
  const ended = await collections.imports.findOneAndUpdate(
    { _id: step.id, state: 'importing', 'step.token': step.token },
    [{ $set: finished }],
    { returnDocument: 'after', projection: { finished_at: 1 } },
  )
  return ended?.finished_at ?? null
}

/** Fixes the counts of an ended import, for which nobody can write a row any more, and gives its list free. */
export async function fixTotals(collections: Collections, id: number, totals: ImportCounts): Promise<void> {
  await collections.imports.updateOne({ _id: id, state: { $in: [...endedStates] }, totals: null }, [
    {
      $set: {
        totals: {
          ...totals,
          kept_bytes: {
            $add: [totals.kept_bytes ?? 0, { $bsonSize: '$options.default_custom_fields' }, -emptyBytes],
          },
        },
      },
    },
    { $unset: 'holds_list' },
  ])
}

/** Nothing is left to do for an ended import. */
export async function markFinalized(collections: Collections, id: number): Promise<boolean> {
  const { modifiedCount } = await collections.imports.updateOne(
    { _id: id, state: { $in: [...endedStates] }, totals: { $ne: null } },
    { $set: { settled: true } },
  )
  return modifiedCount === 1
}
