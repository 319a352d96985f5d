import type { ClientSession, Filter } from 'mongodb'
import { runInTransaction } from '../../shared/runtime/transactions.ts'
import { workingStates } from '../../shared/contract/import-state.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'
import { releaseFailedChunk, type LeasedChunk } from '../../shared/store/chunks.ts'
import { findOtherFolders, readEngineFolder } from './engines.ts'
import type { WorkingImport } from './import-queues.ts'
import { failedWith } from '../../shared/store/import-steps.ts'

/**
 * A staged file or upload that one engine doesn't find is no reason to fail its import, because the DATA_DIR of that
 * engine may be another folder. The engine stores in the import that the file is missing in its folder, and leaves the
 * import to others. The import fails when an engine with another folder (host or path) misses the file too, within three
 * minutes. Where no such engine is alive, it fails when one with the same folder misses the file again after a pause. A
 * restarted engine has the same folder.
 *
 * The pause is for engines that are restarting, and for file servers whose clients see a new file late. There is none
 * where every process that is registered is on this host, every engine has this folder, and the import was created after
 * the engine's start.
 */

/** For this time an engine leaves the import to others, which may be restarting. Then it tries again. */
export const recheckDelayMs = 60_000
/** A finding is valid for this time. */
export const findingValidMs = 180_000

const ago = (ms: number) => ({ $subtract: ['$$NOW', ms] })

interface Finding {
  /** The folder of the engine that missed the file. */
  folder: string
  /** No living engine that can read its files has another folder. */
  isAlone: boolean
  /** When the engine started; null where a process on another host, or an engine with another folder, is registered. */
  onlyFolderSince: Date | null
  /** The import's `error_message` if it fails. */
  message: string
}

/** The finding of an engine that has just missed a file. */
export async function makeFinding(
  collections: Collections,
  engineId: string,
  message: string,
): Promise<Finding> {
  const engine = await readEngineFolder(collections, engineId)
  const others = await findOtherFolders(collections, engine)
  const onlyFolderSince = others.areKnown ? null : engine.startedAt
  return { folder: engine.folder, isAlone: !others.areAlive, onlyFolderSince, message }
}

/** `lost`: another engine has the chunk or the step, and nothing was written. */
export type MissingOutcome = 'noted' | 'failed' | 'lost'

/** Stores the finding of the engine with the step's lease, and fails the import where no other finding is needed. */
export function recordMissingInStep(
  collections: Collections,
  step: { id: number; token: string },
  finding: Finding,
): Promise<MissingOutcome> {
  return storeOrFail(collections, { _id: step.id, 'step.token': step.token }, finding)
}

/** The same for the engine with the chunk's lease. The transaction also releases the chunk. */
export function recordMissingInChunk(
  collections: Collections,
  session: ClientSession,
  lease: LeasedChunk,
  finding: Finding,
): Promise<MissingOutcome> {
  return runInTransaction(session, async () => {
    if (!(await releaseFailedChunk(collections, session, lease))) return 'lost'
    return storeOrFail(collections, { _id: lease.importId }, finding, session)
  })
}

async function storeOrFail(
  { imports }: Collections,
  filter: Filter<ImportDocument>,
  { folder, isAlone, onlyFolderSince, message }: Finding,
  session?: ClientSession,
): Promise<MissingOutcome> {
  const isValid = { $gt: ['$missing.at', ago(findingValidMs)] }
  const isSameFolder = { $eq: ['$missing.folder', { $literal: folder }] }
  const isOld = { $lte: ['$missing.at', ago(recheckDelayMs)] }
  const isMissedAgain = {
    $and: [isValid, { $or: [{ $not: [isSameFolder] }, { $and: [isAlone, isOld] }] }],
  }
  const isConfirmed =
    onlyFolderSince === null
      ? isMissedAgain
      : { $or: [isMissedAgain, { $gt: ['$created_at', onlyFolderSince] }] }
  const failed: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(failedWith(message)))
    failed[field] = { $cond: [isConfirmed, value, `$${field}`] }
  const missing = {
    $cond: [
      { $and: [isSameFolder, { $not: [isOld] }] },
      '$missing',
      { folder: { $literal: folder }, at: '$$NOW' },
    ],
  }
  const written = await imports.findOneAndUpdate(
    { ...filter, state: { $in: [...workingStates] } },
    [{ $set: { ...failed, missing } }],
    { projection: { state: 1 }, returnDocument: 'after', ...(session && { session }) },
  )
  if (written === null) return 'lost'
  return written.state === 'failed' ? 'failed' : 'noted'
}

/** Leaves out the imports that the engine leaves to others, because a file of them is missing in its folder. */
export async function withoutMissing(
  collections: Collections,
  working: WorkingImport[],
  engineId: string,
): Promise<WorkingImport[]> {
  if (working.every(({ missing }) => missing === undefined)) return working
  const { folder } = await readEngineFolder(collections, engineId)
  const missed = working.filter(({ missing }) => missing?.folder === folder).map(({ _id }) => _id)
  const left = await collections.imports
    .find(
      { _id: { $in: missed }, $expr: { $gt: ['$missing.at', ago(recheckDelayMs)] } },
      { projection: { _id: 1 } },
    )
    .toArray()
  const leftIds = new Set(left.map(({ _id }) => _id))
  return working.filter(({ _id }) => !leftIds.has(_id))
}
