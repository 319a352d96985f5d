import { randomUUID } from 'node:crypto'
import { ImportStarter } from '../../../engine/import-starter.ts'
import { runStep } from '../../../engine/import-run.ts'
import { takeOverFromEngines } from '../../../engine/maintenance/take-over.ts'
import { enforceLimits } from '../../../engine/maintenance/enforce-limits.ts'
import { removeDeletedFieldValues } from '../../../engine/maintenance/remove-deleted-field-values.ts'
import { moveReactions } from '../../../engine/reactions/move-reactions.ts'
import { settleImport } from '../../../engine/settle-import.ts'
import { runChunk } from '../../../engine/workers/chunk-run.ts'
import { importContext } from '../../../engine/writing/import-context.ts'
import { claimChunk, countChunkStates, releaseChunk } from '../../../shared/store/chunks.ts'
import { claimStep, releaseStep } from '../../../shared/store/import-steps.ts'
import {
  listEndedImports,
  listOrganizationsToSettle,
  listWorkingImports,
} from '../../../shared/store/import-queues.ts'
import { failImport, failImportOfChunk } from '../../../shared/store/imports.ts'
import { subscriberLimitOf } from '../../../shared/store/places.ts'
import type { Side } from './side.ts'

/** What an engine does between two looks, one thing at a time; each says whether there was anything to do. */

export async function start({ context }: Side): Promise<boolean> {
  let hasStarted = false
  const starter = new ImportStarter({ ...context, onStarted: () => (hasStarted = true) })
  const { started } = await starter.startDue(await listWorkingImports(context.database.collections))
  await starter.stop()
  return hasStarted || started > 0
}

/** Obtains, splits, or finishes (and before it deactivates): whatever step is next. */
export async function step(side: Side): Promise<boolean> {
  const { collections } = side.database
  for (const entry of await listWorkingImports(collections)) {
    if (entry.step !== null) continue
    if (entry.state === 'importing') {
      const chunks = await countChunkStates(collections, entry._id)
      if (chunks.ready + chunks.running > 0) continue
    }
    const token = randomUUID()
    const claim = { engineId: side.engineId, token }
    const document = await claimStep(collections, entry._id, entry.state, claim)
    if (document === null) continue
    await runStep(document, token, { ...side.context, signal: new AbortController().signal })
    return true
  }
  return false
}

/** Writes batches of a chunk, `most` of them at most. */
export async function batch(side: Side, most = Infinity): Promise<boolean> {
  const { collections, db } = side.database
  for (const entry of await listWorkingImports(collections)) {
    if (entry.state !== 'importing') continue
    const token = randomUUID()
    const chunk = await claimChunk(collections, entry, { engineId: side.engineId, token })
    if (chunk === null) continue
    let committed = 0
    const report = await runChunk({
      db,
      collections,
      staging: side.context.staging,
      lane: side.lane,
      task: {
        kind: 'chunk',
        importId: entry._id,
        chunkId: chunk._id,
        token,
        control: new SharedArrayBuffer(4),
      },
      importContext: async (id) => {
        const document = await collections.imports.findOne({ _id: id })
        return document === null ? null : importContext(document)
      },
      limitOf: (organizationId) => subscriberLimitOf(collections, organizationId),
      isStopped: () => committed >= most,
      onBatch: () => (committed += 1),
    })
    if (report.end === 'failed' && !report.retryable) throw new Error(`a chunk failed: ${report.message}`)
    if (report.end !== 'done') await releaseChunk(collections, { chunkId: chunk._id, token, blameless: true })
    return true
  }
  return false
}

export async function settle(side: Side): Promise<boolean> {
  const { collections } = side.database
  for (const organizationId of await listOrganizationsToSettle(collections)) {
    const [ended] = await listEndedImports(collections, organizationId, { without: [], limit: 1 })
    if (ended !== undefined) return settleImport(ended, { ...side.context, removals: new Set() })
  }
  return false
}

/** By the holder of a chunk, or of the step where no chunk is free. */
export async function fail(side: Side): Promise<boolean> {
  const { collections } = side.database
  const message = 'a chunk of it failed'
  for (const entry of await listWorkingImports(collections)) {
    const token = randomUUID()
    const claim = { engineId: side.engineId, token }
    const chunk = entry.state === 'importing' ? await claimChunk(collections, entry, claim) : null
    if (chunk !== null) {
      const held = { importId: entry._id, chunkId: chunk._id, token }
      if (await failImportOfChunk(collections, side.context.session, held, message)) return true
    } else if ((await claimStep(collections, entry._id, entry.state, claim)) !== null) {
      const isFailed = await failImport(collections, { id: entry._id, token }, message)
      await releaseStep(collections, entry._id, token)
      if (isFailed) return true
    }
  }
  return false
}

export async function takeOver({ context }: Side): Promise<boolean> {
  await takeOverFromEngines(context).run()
  return false
}

export async function enforce({ database, context }: Side): Promise<boolean> {
  await enforceLimits(database, context.log).run()
  return false
}

export async function removeFieldValues({ database, context }: Side): Promise<boolean> {
  await removeDeletedFieldValues(database, context.log).run()
  return false
}

export async function moveDueReactions({ database, context }: Side): Promise<boolean> {
  const due = await database.collections.reactions
    .find({ state: 'queued', due_at: { $lte: new Date() } })
    .limit(50)
    .toArray()
  if (due.length === 0) return false
  return (await moveReactions(database, context.session, due)) > 0
}

/** All that engines have to do, until there is nothing left but what is paused. */
export async function drain(side: Side): Promise<void> {
  await takeOver(side)
  await enforce(side)
  const { imports } = side.database.collections
  for (let rounds = 0; rounds < 60; rounds += 1) {
    // What waits after a failure needn't be waited for.
    await imports.updateMany({ settled: false }, { $unset: { step_not_before: '' } })
    const acts = [start, step, batch, settle]
    let hasActed = false
    for (const act of acts) hasActed = (await act(side)) || hasActed
    if (!hasActed && (await imports.countDocuments({ settled: false, state: { $ne: 'paused' } })) === 0) break
  }
  await removeFieldValues(side)
}
