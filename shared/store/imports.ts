import type { ClientSession, Filter } from 'mongodb'
import type { ActingParty } from '../contract/schemas/audit-event.ts'
import type { Database } from '../runtime/database.ts'
import { inShortTransaction, inTransaction, runInTransaction } from '../runtime/transactions.ts'
import { isDuplicateKey } from '../runtime/driver-errors.ts'
import {
  endedStates,
  pausableStates,
  unfinishedStates,
  workingStates,
  type ImportState,
} from '../contract/import-state.ts'
import { lockedListsIndex, unpurgedIndex, type Collections } from '../contract/schemas/collections.ts'
import { logDays, type ImportCounts, type ImportDocument } from '../contract/schemas/import.ts'
import { releaseFailedChunk, type ImportSums, type LeasedChunk } from './chunks.ts'
import { writeEndingBlockers, fenceChunks, type FenceContext } from './fence.ts'
import { failedWith } from './import-steps.ts'
import { read } from './read-together.ts'
import { freeKept } from './staged-usage.ts'
import { emptyBytes } from './value-bytes.ts'
import { claimedBy, noHolder, type Claim } from './work-leases.ts'

/**
 * Import documents. Each transition is one guarded write, which filters by the states before it, and for an engine by
 * the token of its step. Where nothing matches, another process was faster: nothing changes, and the caller is told.
 */

/** Must run inside the transaction of the request that creates the import. */
export async function insertImport(
  collections: Collections,
  document: ImportDocument,
  session: ClientSession,
): Promise<void> {
  await collections.imports.insertOne(document, { session })
}

// ---- transitions by requests; null where the current state does not allow them ----

export interface MoveOptions {
  /** Writes what tells of the move, in its transaction. It may be called several times. */
  onMove?: ((session: ClientSession, moved: ImportDocument) => Promise<void>) | undefined
  /** Who cancels it. */
  by?: ActingParty
}

/**
 * Pauses an import. Its list stays locked, and none of its rows are written afterwards. Null when it was paused
 * already or has ended.
 */
export function pauseImport(
  context: FenceContext,
  id: number,
  options?: MoveOptions,
): Promise<ImportDocument | null> {
  return moveAndFence(
    context,
    { _id: id, state: { $in: [...pausableStates] } },
    { paused_from: '$state', paused_at: '$$NOW', state: 'paused' },
    options,
  )
}

/** Resumes a paused import in its former state; null when it wasn't paused. */
export function unpauseImport(
  { database }: FenceContext,
  id: number,
  { onMove }: MoveOptions = {},
): Promise<ImportDocument | null> {
  // A pause does not count to the time for a download. Null stays null.
  const endsAt = { $add: ['$download.ends_at', { $subtract: ['$$NOW', '$paused_at'] }] }
  const to = { state: '$paused_from', paused_from: null, paused_at: null, 'download.ends_at': endsAt }
  return inTransaction(database, (session) =>
    move(database.collections, session, { from: { _id: id, state: 'paused' }, to, onMove }),
  )
}

/**
 * Cancels an import. None of its rows are written afterwards; an engine fixes its totals and unlocks its list
 * (fixTotals). Null when it had ended.
 */
export function cancelImport(
  context: FenceContext,
  id: number,
  options: MoveOptions = {},
): Promise<ImportDocument | null> {
  return moveAndFence(
    context,
    { _id: id, state: { $in: [...unfinishedStates] } },
    {
      ...{ state: 'cancelled', finished_at: '$$NOW', paused_from: null, paused_at: null },
      cancelled_from: '$state',
      ...(options.by === undefined ? {} : { cancelled_by: { $literal: options.by } }),
    },
    options,
  )
}

async function moveAndFence(
  context: FenceContext,
  from: Filter<ImportDocument> & { _id: number },
  to: { state: ImportState } & Record<string, unknown>,
  { onMove }: MoveOptions = {},
): Promise<ImportDocument | null> {
  const { database } = context
  const { imports } = database.collections
  const fenced = { ...to, fence: { $add: ['$fence', 1] } }
  /** What the primary committed when it was asked first, where no majority confirmed it. */
  let unconfirmed: ImportDocument | null = null
  const moved = await writeEndingBlockers(context, [from._id], ({ maxTimeMS: timeoutMs }) =>
    inShortTransaction(
      database,
      async (session) => {
        const written = await move(database.collections, session, { from, to: fenced, onMove })
        unconfirmed ??= written
        return written
      },
      { timeoutMs },
    ),
  )
  // Null where this request wrote it before, or an earlier one did that may have died before the fence. "Already paused"
  // must be true then too.
  const stopped =
    moved ?? (await imports.findOne({ _id: from._id, state: to.state }, { projection: { fence: 1 } }))
  if (stopped !== null) await fenceChunks(context, stopped)
  return moved ?? (stopped === null ? null : unconfirmed)
}

/** Moves an import that matches `from`, and lets `onMove` tell of it. Null when it doesn't match. */
async function move(
  { imports }: Collections,
  session: ClientSession,
  { from, to, onMove }: { from: Filter<ImportDocument>; to: Record<string, unknown> } & MoveOptions,
): Promise<ImportDocument | null> {
  const moved = await imports.findOneAndUpdate(from, [{ $set: to }], { session, returnDocument: 'after' })
  if (moved !== null) await onMove?.(session, moved)
  return moved
}

/** Matches the imports of a list that may still write rows. Ended ones do so until none of their chunks is leased. */
export const matchWritingImports = (listId: number): Filter<ImportDocument> => ({
  mailing_list_id: listId,
  $or: [{ state: { $in: [...unfinishedStates] } }, { holds_list: true }],
})

// ---- reads of engines (see also engine/store/import-queues.ts) ----

/** The state of an import; null when there is no such import. */
export async function readState(collections: Collections, id: number): Promise<ImportState | null> {
  return (await collections.imports.findOne({ _id: id }, { projection: { state: 1 } }))?.state ?? null
}

/** A part of a read of several collections: the imports with these ids. */
export const importsAmong = ({ imports }: Collections, ids: number[]) =>
  read(imports, [{ $match: { _id: { $in: ids } } }, { $unset: 'content' }])

/** The imports that have locked their list. */
export function listLockingImports({
  imports,
}: Collections): Promise<Pick<ImportDocument, 'mailing_list_id' | 'state'>[]> {
  return imports
    .find({ holds_list: true }, { projection: { _id: 0, mailing_list_id: 1, state: 1 } })
    .hint(lockedListsIndex)
    .toArray()
}

/** Those of the imports that are not finalized. */
export async function listNotFinalizedAmong(collections: Collections, ids: number[]): Promise<number[]> {
  const notFinalized = await collections.imports
    .find({ _id: { $in: ids }, finalized: false }, { projection: { _id: 1 } })
    .toArray()
  return notFinalized.map(({ _id }) => _id)
}

/** Up to 1,000 imports whose logs have passed their retention time. */
export async function listImportsWithOldLogs(collections: Collections): Promise<number[]> {
  const before = { $dateSubtract: { startDate: '$$NOW', unit: 'day', amount: logDays } }
  const old = await collections.imports
    .find(
      { logs_purged_at: null, finalized: true, $expr: { $lte: ['$finished_at', before] } },
      { projection: { _id: 1 } },
    )
    .hint(unpurgedIndex)
    .sort({ finished_at: 1 })
    .limit(1_000)
    .toArray()
  return old.map(({ _id }) => _id)
}

/**
 * Called after the logs were removed: stamps the import by the database's clock, and frees their quota. One transaction
 * does both, because nothing else frees the quota later.
 */
export async function markLogsPurged(database: Database, id: number): Promise<void> {
  const { collections } = database
  await inTransaction(database, async (session) => {
    const marked = await collections.imports.findOneAndUpdate(
      { _id: id, logs_purged_at: null },
      [{ $set: { logs_purged_at: '$$NOW', faults: withoutExamples } }],
      { projection: { organization_id: 1, 'totals.kept_bytes': 1 }, session },
    )
    const bytes = marked?.totals?.kept_bytes ?? 0
    if (marked !== null && bytes > 0) await freeKept(collections, session, marked.organization_id, bytes)
  })
}

/** The faults of an import whose logs are gone: examples are cells, as the logs' are. */
const withoutExamples = {
  $map: {
    input: { $ifNull: ['$faults', []] },
    in: { $mergeObjects: ['$$this', { first: { record: '$$this.first.record', example: null } }] },
  },
}

/** What is fixed at an import's start, beside its time. */
export interface ImportStart {
  /** The blob of an uploaded file. */
  pinned?: string
  /** For an import that deactivates absent subscribers: its epoch, and the next id of a subscriber. */
  import_epoch?: number
  first_new_subscriber_id?: number
  /** Claims the import's first step. */
  claim?: Claim
}

/**
 * Starts a due import. Resolves to the started import; null when it is no longer due, or another import has locked the
 * list.
 */
export async function startImport(
  collections: Collections,
  id: number,
  { claim, ...fixed }: ImportStart,
): Promise<ImportDocument | null> {
  const started = {
    ...fixed,
    ...(claim === undefined ? {} : claimedBy(claim, null)),
    state: { $cond: [{ $eq: ['$source.type', 'url'] }, 'downloading', 'splitting'] },
    started_at: '$$NOW',
    holds_list: { $cond: ['$options.dry_run', '$$REMOVE', true] },
  }
  try {
    return await collections.imports.findOneAndUpdate(
      { _id: id, state: 'scheduled', $expr: { $lte: ['$begins_at', '$$NOW'] } },
      [{ $set: started }],
      { returnDocument: 'after' },
    )
  } catch (error) {
    if (isDuplicateKey(error)) return null
    throw error
  }
}

// ---- ends ----

/**
 * Fails an import by the engine of its step. False when the import isn't in a working state, or the lease is lost.
 */
export async function failImport(
  collections: Collections,
  step: { id: number; token: string },
  message: string,
): Promise<boolean> {
  const { matchedCount } = await collections.imports.updateOne(
    { _id: step.id, state: { $in: [...workingStates] }, 'lease.token': step.token },
    [{ $set: failedWith(message) }],
  )
  return matchedCount === 1
}

/**
 * Fails an import by the engine of one of its chunks, and releases that chunk in the same transaction. False when the
 * lease is lost, and then nothing changes, or when the import isn't in a working state any more.
 */
export function failImportOfChunk(
  collections: Collections,
  session: ClientSession,
  lease: LeasedChunk,
  message: string,
): Promise<boolean> {
  return runInTransaction(session, async () => {
    if (!(await releaseFailedChunk(collections, session, lease))) return false
    const { matchedCount } = await collections.imports.updateOne(
      { _id: lease.importId, state: { $in: [...workingStates] } },
      [{ $set: failedWith(message) }],
      { session },
    )
    return matchedCount === 1
  })
}

/**
 * Finishes an import whose chunks are all done, and unlocks its list. Resolves to its end; null when the lease is
 * lost.
 */
export async function finishImport(
  collections: Collections,
  step: { id: number; token: string },
  sums: ImportSums,
): Promise<Date | null> {
  const ended = await collections.imports.findOneAndUpdate(
    { _id: step.id, state: 'importing', 'lease.token': step.token },
    [{ $set: { ...finishedWith(sums), ...noHolder } }],
    { returnDocument: 'after', projection: { finished_at: 1 } },
  )
  return ended?.finished_at ?? null
}

/**
 * Inside the transaction that writes all rows of a small import: stores what its split found, and finishes it. With
 * `isFinalized` nothing of it is left to do but the removal of its files, and the step is released; else the step stays
 * leased. Resolves to its end; null when the lease is lost.
 */
export async function finishSmallImport(
  collections: Collections,
  session: ClientSession,
  step: { id: number; token: string; stepWrites: number },
  split: Pick<ImportDocument, 'plan' | 'beginning' | 'number_of_records' | 'header' | 'warnings'>,
  { isFinalized, ...sums }: ImportSums & { isFinalized: boolean },
): Promise<{ at: Date; keptBytes: number } | null> {
  const found = Object.fromEntries(Object.entries(split).map(([name, value]) => [name, { $literal: value }]))
  const ended = await collections.imports.findOneAndUpdate(
    { _id: step.id, state: 'splitting', 'lease.token': step.token, step_writes: step.stepWrites },
    [
      {
        $set: {
          ...{ ...found, ...finishedWith(sums), content: '$$REMOVE' },
          ...(isFinalized ? { finalized: true, ...noHolder } : {}),
        },
      },
    ],
    { session, returnDocument: 'after', projection: { finished_at: 1, 'totals.kept_bytes': 1 } },
  )
  return ended === null ? null : { at: ended.finished_at!, keptBytes: ended.totals?.kept_bytes ?? 0 }
}

const finishedWith = ({ counts, faults }: ImportSums) => ({
  ...{ state: 'finished', finished_at: '$$NOW' },
  ...{ totals: withDefaultsKept(counts), faults: { $literal: faults } },
  holds_list: '$$REMOVE',
})

/** Fixes the sums of an ended import of which no chunk is leased, and unlocks its list. */
export async function fixTotals(
  collections: Collections,
  id: number,
  { counts: totals, faults }: ImportSums,
): Promise<void> {
  await collections.imports.updateOne({ _id: id, state: { $in: [...endedStates] }, totals: null }, [
    {
      $set: { totals: withDefaultsKept(totals), faults: { $literal: faults } },
    },
    { $unset: 'holds_list' },
  ])
}

/** The default values stay in the import, so they count to the quota as its failed rows do. */
const withDefaultsKept = (totals: ImportCounts) => ({
  ...totals,
  kept_bytes: {
    $add: [totals.kept_bytes ?? 0, { $bsonSize: '$options.default_custom_fields' }, -emptyBytes],
  },
})

/**
 * Marks an ended import with fixed totals as finalized, and releases its step. Resolves to its totals, for the one caller
 * that marked it; null for all others.
 */
export async function markFinalized(collections: Collections, id: number): Promise<ImportCounts | null> {
  const marked = await collections.imports.findOneAndUpdate(
    { _id: id, state: { $in: [...endedStates] }, totals: { $ne: null }, finalized: false },
    { $set: { finalized: true, ...noHolder }, $unset: { content: '' } },
    { projection: { totals: 1 } },
  )
  return marked?.totals ?? null
}
