import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Document } from 'mongodb'
import { DoubtfulClaims } from '../../../engine/runner/doubtful-claims.ts'
import { Quarantine } from '../../../engine/runner/quarantine.ts'
import { Starts } from '../../../engine/runner/starts.ts'
import { processImport } from '../../../engine/process-import.ts'
import { sweepStaging } from '../../../engine/jobs/sweep-staging.ts'
import { enforceLimits } from '../../../engine/jobs/enforce-limits.ts'
import { removeDeletedFieldValues } from '../../../engine/jobs/remove-deleted-field-values.ts'
import { takeOverFromEngines } from '../../../engine/runner/take-over.ts'
import { finalizeImport } from '../../../engine/stages/finish/finalize-import.ts'
import { processChunk } from '../../../engine/process-chunk.ts'
import { importContext } from '../../../engine/stages/write/import-context.ts'
import { claimChunk, countChunkStates, releaseChunk, type LeasedChunk } from '../../../shared/store/chunks.ts'
import { claimStep, releaseStep } from '../../../shared/store/import-steps.ts'
import {
  listEndedImports,
  listOrganizationsToFinalize,
  listWorkingImports,
} from '../../../engine/store/import-queues.ts'
import { failImport, failImportOfChunk } from '../../../shared/store/imports.ts'
import type { Side } from './side.ts'

/** What an engine does between two polls, one thing at a time. Each act says whether there was anything to do. */

/** Starts an import and leaves its first step, as an engine does that stops then. */
export async function start(side: Side): Promise<boolean> {
  const claimed = await claimStart(side)
  if (claimed !== null) await releaseStep(side.database.collections, claimed.document._id, claimed.token)
  return claimed !== null
}

/** Starts an import and does its first step, which writes a small import whole. */
export async function startAndWrite(side: Side): Promise<boolean> {
  const claimed = await claimStart(side)
  if (claimed === null) return false
  const { signal } = new AbortController()
  await claimed.starts.kind.run(claimed.document, { token: claimed.token, signal, isDead: () => false })
  return true
}

async function claimStart({ context, engineId, stepSession }: Side) {
  const { database } = context
  const starts = new Starts({
    ...{ ...context, engineId, stepSessions: [stepSession], onDownload: () => undefined },
    doubts: new DoubtfulClaims(database, engineId),
    quarantine: new Quarantine(
      () => Promise.resolve(),
      () => undefined,
    ),
  })
  for (const queue of await starts.listQueues(await listWorkingImports(database.collections))) {
    const token = randomUUID()
    const document = await starts.kind.claim(queue, token)
    if (document !== null) return { starts, document, token }
  }
  return null
}

/** A chunk or step that an engine has claimed. */
interface Claimed {
  /** Reads the claimed document. */
  read: () => Promise<Document | null>
  run: () => Promise<void>
}

/** Does the next step of the import: obtain, split, write a small one, or finish after the deactivation. */
async function claimNextStep(side: Side): Promise<Claimed | null> {
  const { collections } = side.database
  for (const entry of await listWorkingImports(collections)) {
    if (entry.lease.token !== null) continue
    if (entry.state === 'importing') {
      const chunks = await countChunkStates(collections, entry._id)
      if (chunks.ready + chunks.running > 0) continue
    }
    const token = randomUUID()
    const claim = { engineId: side.engineId, token }
    const document = await claimStep(collections, entry._id, entry.state, claim)
    if (document === null) continue
    return {
      read: () => collections.imports.findOne({ _id: entry._id }),
      run: () => {
        const { signal } = new AbortController()
        const claimed = { document, step: { id: entry._id, token }, session: side.stepSession, signal }
        return processImport(claimed, side.context)
      },
    }
  }
  return null
}

/** A chunk, of which `maxBatches` are written. */
async function claimNextChunk(side: Side, maxBatches: number): Promise<Claimed | null> {
  const { collections } = side.database
  for (const entry of await listWorkingImports(collections)) {
    if (entry.state !== 'importing') continue
    const token = randomUUID()
    const chunk = await claimChunk(collections, entry, { engineId: side.engineId, token })
    if (chunk === null) continue
    return {
      read: () => collections.chunks.findOne({ _id: chunk._id }),
      run: () => writeChunk(side, { importId: entry._id, chunkId: chunk._id, token }, maxBatches),
    }
  }
  return null
}

async function writeChunk(side: Side, claimed: LeasedChunk, maxBatches: number): Promise<void> {
  const { database } = side
  const { collections } = database
  let committed = 0
  const report = await processChunk({
    database,
    staging: side.context.staging,
    lane: side.lane,
    task: { ...claimed, cancellation: new SharedArrayBuffer(4) },
    importContext: async (id) => {
      const document = await collections.imports.findOne({ _id: id })
      return document === null ? null : importContext(document)
    },
    isStopped: () => committed >= maxBatches,
    onBatch: () => (committed += 1),
  })
  if (report.end === 'done') return
  if (report.end !== 'failed' || report.retryable)
    await releaseChunk(collections, { ...claimed, countsAsAttempt: false })
  // An engine that has lost the chunk fails nothing: the files of the import may be gone by then.
  else if (await failImportOfChunk(collections, side.stepSession, claimed, report.message))
    throw new Error(`a chunk failed: ${report.message}`)
}

const runIfAny = async (claimed: Claimed | null): Promise<boolean> => {
  await claimed?.run()
  return claimed !== null
}

export async function step(side: Side): Promise<boolean> {
  return runIfAny(await claimNextStep(side))
}

/** Writes at most `maxBatches` batches of a chunk. */
export async function batch(side: Side, maxBatches = Infinity): Promise<boolean> {
  return runIfAny(await claimNextChunk(side, maxBatches))
}

export async function finalize(side: Side): Promise<boolean> {
  const { collections } = side.database
  for (const organizationId of await listOrganizationsToFinalize(collections)) {
    const [ended] = await listEndedImports(collections, organizationId, { without: [], limit: 1 })
    if (ended !== undefined) return finalizeImport(ended, side.context)
  }
  return false
}

/** Fails the import, as the holder of a chunk, or of the step where no chunk is free. */
export async function fail(side: Side): Promise<boolean> {
  const { collections } = side.database
  const message = 'a chunk of it failed'
  for (const entry of await listWorkingImports(collections)) {
    const token = randomUUID()
    const claim = { engineId: side.engineId, token }
    const chunk = entry.state === 'importing' ? await claimChunk(collections, entry, claim) : null
    if (chunk !== null) {
      const claimed = { importId: entry._id, chunkId: chunk._id, token }
      if (await failImportOfChunk(collections, side.stepSession, claimed, message)) return true
    } else if ((await claimStep(collections, entry._id, entry.state, claim)) !== null) {
      const isFailed = await failImport(collections, { id: entry._id, token }, message)
      await releaseStep(collections, entry._id, token)
      if (isFailed) return true
    }
  }
  return false
}

export async function takeOver({ context }: Side): Promise<boolean> {
  await takeOverFromEngines(context.database, context.log).runOnce()
  return false
}

/** The other one of two processes, while it does something. */
export interface Other extends Pick<Side, 'engineId' | 'sessionIds' | 'database'> {
  /** Resolves when it has ended. The caller does nothing until then, so the other one needn't be stopped any longer. */
  ended: () => Promise<void>
}

/** Takes over from the other engine, which is stopped and marked as dead. When that one resumes, its leases are lost. */
async function takeOverFrom(side: Side, other: Other): Promise<void> {
  const sessions = [...other.sessionIds, ...other.database.sessions.ids]
  await side.database.collections.engines.updateOne(
    { _id: other.engineId },
    { $set: { dead: true, session_ids: sessions } },
  )
  await takeOver(side)
}

/** Everything that the other engine had in hand, and all that is left to be done. */
export async function takeOverAndFinish(side: Side, other: Other): Promise<boolean> {
  await takeOverFrom(side, other)
  await drain(side)
  return true
}

/** Claims the other engine's chunk or step, and works on it when that one has resumed: it must be unchanged. */
export async function takeOverAndLease(side: Side, other: Other): Promise<boolean> {
  await takeOverFrom(side, other)
  const claimed = (await claimNextChunk(side, Infinity)) ?? (await claimNextStep(side))
  if (claimed === null) return false
  const before = await claimed.read()
  await other.ended()
  if (!isDeepStrictEqual(await claimed.read(), before))
    throw new Error('a chunk or step was changed by an engine that had lost its lease')
  await claimed.run()
  return true
}

/** The holder of another chunk, or of the step, fails the import, and the import is finalized at once. */
export async function failAndFinalize(side: Side): Promise<boolean> {
  return (await fail(side)) && finalize(side)
}

export async function enforce({ database, context }: Side): Promise<boolean> {
  await enforceLimits(database, context.log).runOnce()
  return false
}

async function removeFieldValues({ database, context }: Side): Promise<boolean> {
  await removeDeletedFieldValues(database, context.log).runOnce()
  return false
}

/** Does all work of the engines, until only paused imports are left. */
export async function drain(side: Side): Promise<void> {
  await takeOver(side)
  await enforce(side)
  const { imports } = side.database.collections
  for (let rounds = 0; rounds < 60; rounds += 1) {
    // A step that waits after a failure becomes due at once.
    await imports.updateMany({ finalized: false }, { $set: { 'lease.not_before': null } })
    const acts = [start, step, batch, finalize]
    let hasActed = false
    for (const act of acts) hasActed = (await act(side)) || hasActed
    if (!hasActed && (await imports.countDocuments({ finalized: false, state: { $ne: 'paused' } })) === 0)
      break
  }
  await removeFieldValues(side)
}

/** Runs the sweep an hour later, which removes what a stale engine wrote after its import was finalized. */
export async function sweepFiles({ database, context }: Side): Promise<void> {
  const { blobPieces, ledgers } = database.collections
  await blobPieces.updateMany({ begun_at: { $type: 'date' } }, { $set: { begun_at: new Date(1) } })
  await ledgers.updateMany({}, { $set: { 'imports.$[].entered_at': new Date(1) } })
  await sweepStaging(database, context, context.log).runOnce()
}

/** Runs the second pass over the values of deleted fields, which follows 5 minutes later. */
export async function removeLateFieldValues(side: Side): Promise<void> {
  await side.database.collections.deletedFields.updateMany({}, { $set: { second_pass_at: new Date(0) } })
  await removeFieldValues(side)
}

/** Runs the sweep an hour later, which removes an upload that was left half done because a reply was lost. */
export async function sweepUploads({ database, context }: Side): Promise<void> {
  const { collections } = database
  await collections.blobPieces.updateMany(
    { begun_at: { $type: 'date' } },
    { $set: { begun_at: new Date(1) } },
  )
  await context.uploads.purge({ olderThanMs: 3_600_000 })
}
