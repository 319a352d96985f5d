import type { ClientSession } from 'mongodb'
import { inTransactionOf } from '../../shared/runtime/database.ts'
import { workingStates } from '../../shared/contract/import-state.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { releaseFailedChunk, type LeasedChunk } from '../../shared/store/chunks.ts'
import { folderOf, isOnlyFolder } from './engines.ts'
import type { WorkingImport } from './import-queues.ts'
import { failedWith } from '../../shared/store/import-steps.ts'

/**
 * A staged file that one engine doesn't find is no reason to fail its import: the engine may see another folder than the
 * others. It notes in the import that the file is missing in its folder and leaves the import to the others. The import
 * fails when an engine with another folder (host or path) doesn't find the file either, or one with the same folder
 * after a pause where no other is there. An engine that is restarted has the folder that it had.
 */

/**
 * For so long the engine leaves the import to the others, those included that are just being restarted: then it looks
 * again, and believes what it finds where it is alone.
 */
export const recheckDelayMs = 60_000
/** For so long a finding counts. */
export const countsMs = 180_000

const before = (ms: number) => ({ $subtract: ['$$NOW', ms] })

interface Finding {
  /** Where the engine looked for the file: its folderOf. */
  folder: string
  isAlone: boolean
  /** The import's `error_message`, should it fail. */
  message: string
}

/** What an engine that has just missed a file notes, or fails the import with. */
export async function findingOf(
  collections: Collections,
  engineId: string,
  message: string,
): Promise<Finding> {
  const folder = await folderOf(collections, engineId)
  return { folder, isAlone: await isOnlyFolder(collections, folder), message }
}

/** `lost`: the chunk or the step isn't held any more, and nothing has changed. */
export type MissingOutcome = 'noted' | 'failed' | 'lost'

/** Notes the finding of a step's holder, or fails the import. */
export async function noteMissingOfStep(
  collections: Collections,
  step: { id: number; token: string },
  finding: Finding,
): Promise<MissingOutcome> {
  const written = await collections.imports.findOneAndUpdate(
    { _id: step.id, state: { $in: [...workingStates] }, 'step.token': step.token },
    noted(finding),
    { projection: { state: 1 }, returnDocument: 'after' },
  )
  return outcomeOf(written)
}

/** Notes the finding of a chunk's holder, or fails the import; the chunk is given back in the same transaction. */
export function noteMissingOfChunk(
  collections: Collections,
  session: ClientSession,
  lease: LeasedChunk,
  finding: Finding,
): Promise<MissingOutcome> {
  return inTransactionOf(session, async () => {
    if (!(await releaseFailedChunk(collections, session, lease))) return 'lost'
    const written = await collections.imports.findOneAndUpdate(
      { _id: lease.importId, state: { $in: [...workingStates] } },
      noted(finding),
      { projection: { state: 1 }, returnDocument: 'after', session },
    )
    return outcomeOf(written)
  })
}

function noted({ folder, isAlone, message }: Finding) {
  const counts = { $gt: ['$missing.at', before(countsMs)] }
  const isOwn = { $eq: ['$missing.folder', { $literal: folder }] }
  const isAgain = { $lte: ['$missing.at', before(recheckDelayMs)] }
  const isConfirmed = { $and: [counts, { $or: [{ $not: [isOwn] }, { $and: [isAlone, isAgain] }] }] }
  const failed: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(failedWith(message)))
    failed[field] = { $cond: [isConfirmed, value, `$${field}`] }
  const missing = {
    $cond: [
      { $and: [isOwn, { $not: [isAgain] }] },
      '$missing',
      { folder: { $literal: folder }, at: '$$NOW' },
    ],
  }
  return [{ $set: { ...failed, missing } }]
}

function outcomeOf(written: { state: string } | null): MissingOutcome {
  if (written === null) return 'lost'
  return written.state === 'failed' ? 'failed' : 'noted'
}

/** Those of the imports that the engine doesn't leave to others because a file of them is missing in its folder. */
export async function withoutMissing(
  collections: Collections,
  working: WorkingImport[],
  engineId: string,
): Promise<WorkingImport[]> {
  if (working.every(({ missing }) => missing === undefined)) return working
  const folder = await folderOf(collections, engineId)
  const own = working.filter(({ missing }) => missing?.folder === folder).map(({ _id }) => _id)
  const left = await collections.imports
    .find(
      { _id: { $in: own }, $expr: { $gt: ['$missing.at', before(recheckDelayMs)] } },
      { projection: { _id: 1 } },
    )
    .toArray()
  const ids = new Set(left.map(({ _id }) => _id))
  return working.filter(({ _id }) => !ids.has(_id))
}
