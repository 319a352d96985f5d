import type { ClientSession, Filter, UpdateFilter } from 'mongodb'
import { isDuplicateKey } from '../database.ts'
import { endedStates, pausableStates, unfinishedStates, type ImportState } from '../import-state.ts'
import { heldListsIndex, unpurgedIndex, unsettledIndex, type Collections } from '../schemas/collections.ts'
import { logDays, type ImportCounts, type ImportDocument, type UploadDocument } from '../schemas/import.ts'
import type { Claim } from './chunks.ts'

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

/** The import, paused; a list that it has stays its own. Null when it was paused already or has ended. */
export function pauseImport(collections: Collections, id: number): Promise<ImportDocument | null> {
  return move(
    collections,
    { _id: id, state: { $in: [...pausableStates] } },
    { paused_from: '$state', paused_at: '$$NOW', state: 'paused' },
  )
}

/** The import, in the state that it was paused in; null when it wasn't paused. */
export function unpauseImport(collections: Collections, id: number): Promise<ImportDocument | null> {
  // The time for a download stands still while it is paused; null stays null.
  const endsAt = { $add: ['$download.ends_at', { $subtract: ['$$NOW', '$paused_at'] }] }
  return move(
    collections,
    { _id: id, state: 'paused' },
    { state: '$paused_from', paused_from: null, paused_at: null, 'download.ends_at': endsAt },
  )
}

/** The import, cancelled; null when it had ended. An engine fixes its counts and gives its list free (fixTotals). */
export function cancelImport(collections: Collections, id: number): Promise<ImportDocument | null> {
  return move(
    collections,
    { _id: id, state: { $in: [...unfinishedStates] } },
    { state: 'cancelled', finished_at: '$$NOW', paused_from: null, paused_at: null },
  )
}

function move(
  collections: Collections,
  from: Filter<ImportDocument>,
  to: Record<string, unknown>,
): Promise<ImportDocument | null> {
  return collections.imports.findOneAndUpdate(from, [{ $set: to }], { returnDocument: 'after' })
}

// ---- what an engine looks at ----

export type DueImport = Pick<
  ImportDocument,
  '_id' | 'organization_id' | 'mailing_list_id' | 'begins_at' | 'options' | 'source'
>

/** Imports that are due and not started, in the order in which they are to be; not those whose list is held. */
export function listDueImports(collections: Collections, heldLists: number[]): Promise<DueImport[]> {
  return collections.imports
    .find(
      {
        settled: false,
        state: 'scheduled',
        $or: [{ mailing_list_id: { $nin: heldLists } }, { 'options.dry_run': true }],
        $expr: { $lte: ['$begins_at', '$$NOW'] },
      },
      {
        projection: { organization_id: 1, mailing_list_id: 1, begins_at: 1, 'options.dry_run': 1, source: 1 },
      },
    )
    .sort(unsettledIndex)
    .hint(unsettledIndex)
    .limit(1_000)
    .toArray()
}

export type WorkingImport = Pick<ImportDocument, '_id' | 'organization_id' | 'state' | 'source' | 'step'>

/** Started imports for which there is something to do, also those that ended and aren't cleared up yet. */
export function listWorkingImports(collections: Collections): Promise<WorkingImport[]> {
  return collections.imports
    .find(
      { settled: false, state: { $nin: ['scheduled', 'paused'] } },
      { projection: { organization_id: 1, state: 1, source: 1, step: 1 } },
    )
    .sort(unsettledIndex)
    .hint(unsettledIndex)
    .toArray()
}

/** Null when there is no such import. */
export async function readState(collections: Collections, id: number): Promise<ImportState | null> {
  return (await collections.imports.findOne({ _id: id }, { projection: { state: 1 } }))?.state ?? null
}

/** Lists that an import has for itself just now. */
export async function listHeldLists(collections: Collections): Promise<number[]> {
  const holders = await collections.imports
    .find({ holds_list: true }, { projection: { mailing_list_id: 1 } })
    .hint(heldListsIndex)
    .toArray()
  return holders.map((holder) => holder.mailing_list_id)
}

/** Those of the imports that an engine still has something to do for. */
export async function listUnsettledAmong(collections: Collections, ids: number[]): Promise<number[]> {
  const unsettled = await collections.imports
    .find({ _id: { $in: ids }, settled: false }, { projection: { _id: 1 } })
    .toArray()
  return unsettled.map(({ _id }) => _id)
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

export async function markLogsPurged(collections: Collections, id: number): Promise<void> {
  await collections.imports.updateOne({ _id: id }, [{ $set: { logs_purged_at: '$$NOW' } }])
}

/** Starts a due import, of an upload with its pin; subscriber ids from the given one on are handed out later. False when it is no longer due, or another import has the list. */
export async function startImport(
  collections: Collections,
  id: number,
  { firstNewSubscriberId, upload }: { firstNewSubscriberId: number; upload?: UploadDocument | undefined },
): Promise<boolean> {
  const started = {
    ...(upload === undefined ? {} : { upload: { $literal: upload } }),
    first_new_subscriber_id: firstNewSubscriberId,
    state: { $cond: [{ $eq: ['$source.type', 'url'] }, 'downloading', 'splitting'] },
    started_at: '$$NOW',
    holds_list: { $cond: ['$options.dry_run', '$$REMOVE', true] },
  }
  try {
    const { matchedCount } = await collections.imports.updateOne(
      { _id: id, state: 'scheduled', $expr: { $lte: ['$begins_at', '$$NOW'] } },
      [{ $set: started }],
    )
    return matchedCount === 1
  } catch (error) {
    if (isDuplicateKey(error)) return false
    throw error
  }
}

// ---- steps: obtaining, splitting and finishing are done by one engine at a time ----

/**
 * The import with its step taken; null when another engine has it, the import moved on, or the time of its next step,
 * or of its next try of a download, hasn't come.
 */
export function claimStep(
  collections: Collections,
  id: number,
  state: ImportState,
  claim: Claim,
): Promise<ImportDocument | null> {
  return collections.imports.findOneAndUpdate(
    {
      _id: id,
      state,
      step: null,
      settled: false,
      // $max passes over what is null or absent.
      $expr: { $lte: [{ $max: ['$begins_at', '$step_not_before', '$download.next_attempt_at'] }, '$$NOW'] },
    },
    { $set: { step: { engine_id: claim.engineId, token: claim.token } } },
    { returnDocument: 'after' },
  )
}

/** By the step's holder; nothing when it isn't held under that token any more. */
export async function releaseStep(collections: Collections, id: number, token: string): Promise<void> {
  await collections.imports.updateOne({ _id: id, 'step.token': token }, { $set: { step: null } })
}

/** Gives back whatever step an engine holds under a token, if any. */
export async function releaseStepUnder(collections: Collections, claim: Claim): Promise<void> {
  await collections.imports.updateOne(
    { settled: false, 'step.engine_id': claim.engineId, 'step.token': claim.token },
    { $set: { step: null } },
    { hint: unsettledIndex },
  )
}

/** Gives back the steps of an engine that died or stopped; resolves to how many. */
export async function releaseStepsOf(collections: Collections, engineId: string): Promise<number> {
  const { modifiedCount } = await collections.imports.updateMany(
    { settled: false, 'step.engine_id': engineId },
    { $set: { step: null } },
    { hint: unsettledIndex },
  )
  return modifiedCount
}

/** Gives back steps that are held under the names of engines that aren't entered. */
export async function releaseStepsOfUnknown(collections: Collections, known: string[]): Promise<void> {
  await collections.imports.updateMany(
    { settled: false, step: { $ne: null }, 'step.engine_id': { $nin: known } },
    { $set: { step: null } },
    { hint: unsettledIndex },
  )
}

/** A write by the holder of a step while the import is in the state that the step works in. False: not ours any more. */
export async function writeInStep(
  collections: Collections,
  step: { id: number; token: string; state: ImportState },
  update: UpdateFilter<ImportDocument> | Record<string, unknown>[],
  session?: ClientSession,
): Promise<boolean> {
  const { matchedCount } = await collections.imports.updateOne(
    { _id: step.id, state: step.state, 'step.token': step.token },
    update,
    session === undefined ? {} : { session },
  )
  return matchedCount === 1
}

/**
 * The holder begins a try of a download; the time for all of them, `totalMs`, runs from the first one on. Resolves to
 * when it is over, null when the import is no longer the holder's.
 */
export async function beginTry(
  collections: Collections,
  step: { id: number; token: string },
  totalMs: number,
): Promise<Date | null> {
  const begun = await collections.imports.findOneAndUpdate(
    { _id: step.id, state: 'downloading', 'step.token': step.token },
    [
      {
        $set: {
          'download.ends_at': { $ifNull: ['$download.ends_at', { $add: ['$$NOW', totalMs] }] },
          'download.next_attempt_at': null,
          'download.bytes_received': 0,
          'download.bytes_expected': null,
        },
      },
    ],
    { projection: { download: 1 }, returnDocument: 'after' },
  )
  return begun?.download.ends_at ?? null
}

/**
 * The holder's try of a download failed, the `attempts`-th one to do so, and is followed by another after `waitMs`, by
 * the database's clock; also by an engine of tomorrow. Written twice it counts once.
 */
export async function scheduleRetry(
  collections: Collections,
  step: { id: number; token: string },
  { attempts, waitMs }: { attempts: number; waitMs: number },
): Promise<void> {
  await collections.imports.updateOne(
    {
      _id: step.id,
      state: { $in: ['downloading', 'paused'] },
      'step.token': step.token,
      'download.attempts': attempts - 1,
    },
    [{ $set: { 'download.attempts': attempts, 'download.next_attempt_at': { $add: ['$$NOW', waitMs] } } }],
  )
}

/** The holder's step broke off and is taken again after `waitMs`, by the database's clock. */
export async function postponeStep(
  collections: Collections,
  step: { id: number; token: string },
  { failures, waitMs }: { failures: number; waitMs: number },
): Promise<void> {
  await collections.imports.updateOne({ _id: step.id, 'step.token': step.token }, [
    { $set: { step_failures: failures, step_not_before: { $add: ['$$NOW', waitMs] } } },
  ])
}

/**
 * The holder's step found the upload still being written and is taken again after a while. False when it has been
 * waited for as long as it is, or the step isn't held any more.
 */
export async function waitForUpload(
  collections: Collections,
  step: { id: number; token: string },
  wait: { fingerprint: string; lookAgainMs: number; longestWaitMinutes: number; filename: string },
): Promise<boolean> {
  const since = { $ifNull: ['$upload.waiting.since', '$$NOW'] }
  const warning = `${wait.filename} was still being written when the import began: it is taken when it has stopped changing`
  const { matchedCount } = await collections.imports.updateOne(
    {
      _id: step.id,
      'step.token': step.token,
      $expr: { $gte: [{ $add: [since, wait.longestWaitMinutes * 60_000] }, '$$NOW'] },
    },
    [
      {
        $set: {
          // Whole: there is none yet when the file couldn't be kept at the start.
          upload: {
            pin: { $ifNull: ['$upload.pin', null] },
            waiting: { since, fingerprint: { $literal: wait.fingerprint } },
          },
          step_not_before: { $add: ['$$NOW', wait.lookAgainMs] },
          warnings: {
            $cond: [
              { $in: [{ $literal: warning }, '$warnings'] },
              '$warnings',
              { $concatArrays: ['$warnings', [{ $literal: warning }]] },
            ],
          },
        },
      },
    ],
  )
  return matchedCount === 1
}

// ---- ends ----

/**
 * Fails an import that works; with a token only while that step is held. False when it was paused, cancelled or ended
 * meanwhile.
 */
export async function failImport(
  collections: Collections,
  id: number,
  { message, token }: { message: string; token?: string },
): Promise<boolean> {
  const held = token === undefined ? {} : { 'step.token': token }
  const { matchedCount } = await collections.imports.updateOne(
    { _id: id, state: { $in: ['downloading', 'splitting', 'importing'] }, ...held },
    [{ $set: { state: 'failed', finished_at: '$$NOW', error_message: { $literal: message } } }],
  )
  return matchedCount === 1
}

/** Finishes an import whose chunks are all done, and gives its list to the next one. */
export function finishImport(
  collections: Collections,
  step: { id: number; token: string },
  totals: ImportCounts,
): Promise<boolean> {
  return writeInStep(collections, { ...step, state: 'importing' }, [
    {
      $set: {
        state: 'finished',
        finished_at: '$$NOW',
        totals: { $literal: totals },
        step: null,
        holds_list: '$$REMOVE',
      },
    },
  ])
}

/** Fixes the counts of an ended import, for which nobody can write a row any more, and gives its list free. */
export async function fixTotals(collections: Collections, id: number, totals: ImportCounts): Promise<void> {
  await collections.imports.updateOne(
    { _id: id, state: { $in: [...endedStates] }, totals: null },
    { $set: { totals }, $unset: { holds_list: '' } },
  )
}

/** Nothing is left to do for an ended import. */
export async function markSettled(collections: Collections, id: number): Promise<boolean> {
  const { modifiedCount } = await collections.imports.updateOne(
    { _id: id, state: { $in: [...endedStates] }, totals: { $ne: null } },
    { $set: { settled: true } },
  )
  return modifiedCount === 1
}
