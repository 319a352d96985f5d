import { messageOf } from '../shared/errors.ts'
import { recordsIn } from '../shared/schemas/import.ts'
import { closeChunks, countsOfChunks, deleteChunks } from '../shared/store/chunks.ts'
import { dropSecrets } from '../shared/store/import-secrets.ts'
import type { EndedImport } from '../shared/store/import-queues.ts'
import { fixTotals, markSettled } from '../shared/store/imports.ts'
import { queueCallback } from './callbacks/queue-callback.ts'
import type { StepContext } from './step.ts'

export type SettlingContext = Pick<
  StepContext,
  'database' | 'secrets' | 'staging' | 'uploads' | 'quota' | 'metrics' | 'log'
>

/**
 * Clears up after an import that has ended, once no chunk of it is held: its totals are fixed, its list is free and its
 * callback is queued. Its files and chunks go, and its secrets unless the callback needs them. Any number of engines may
 * do so at once, and one may break off anywhere. False while a chunk is held.
 */
export async function settleImport(document: EndedImport, context: SettlingContext): Promise<boolean> {
  const { _id: importId, state, source } = document
  const { database, secrets, metrics, log } = context
  const { collections } = database
  if ((await closeChunks(collections, importId)) > 0) return false
  const totals = await countsOfChunks(collections, importId)
  await fixTotals(collections, importId, totals)
  await queueCallback(database, importId, secrets)
  await dropSecrets(collections, importId)
  await removeWorkingData(document, context)
  // Another engine may have been faster.
  if (!(await markSettled(collections, importId))) return true
  metrics.importEnded(state, source.type)
  if (state !== 'finished' || totals.failed === 0 || totals.failed !== recordsIn(totals)) return true
  metrics.everyRowFailed()
  log.warn({ import_id: importId }, 'every row failed: nothing of the file was imported')
  return true
}

/** What can't be removed stays counted. */
async function removeWorkingData(
  document: Pick<EndedImport, '_id' | 'organization_id'>,
  context: SettlingContext,
): Promise<void> {
  const { staging, uploads, quota } = context
  const importId = document._id
  try {
    await Promise.all([staging.removeImport(importId), uploads.unpin(importId)])
    await quota.leave(document)
  } catch (error) {
    context.log.warn(
      { import_id: importId },
      `staged files can't be removed, the sweep tries again later: ${messageOf(error)}`,
    )
  }
  await deleteChunks(context.database.collections, importId)
}
