import { randomBytes } from 'node:crypto'
import { errorMessage } from '../../../shared/contract/errors.ts'
import { recordsIn, type ImportCounts, type ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { closeChunks, sumImport, deleteChunks } from '../../../shared/store/chunks.ts'
import { dropSecrets } from '../../../shared/store/secrets.ts'
import { fullViews } from '../../../shared/processes/import-views.ts'
import { wakeUp } from '../../../shared/store/wake-up.ts'
import { insertCallback } from '../../store/callbacks.ts'
import type { EndedImport } from '../../store/import-queues.ts'
import { fixTotals, markFinalized } from '../../../shared/store/imports.ts'
import { driverRetryReason } from '../../../shared/runtime/driver-errors.ts'
import { within } from '../../../shared/runtime/within.ts'
import type { StagedQuota } from '../../../shared/storage/uploads/staged-quota.ts'
import type { EngineParts } from '../../engine-parts.ts'

export interface FinalizingContext extends Omit<EngineParts, 'folder'> {
  /** Gives back what the import had staged. */
  quota: StagedQuota
}

/** A removal that takes longer is no longer awaited; the sweep of the staging removes what is left. */
export const removalMs = 10_000

/**
 * Finalizes an import that has ended, once no chunk of it is leased: fixes its totals, frees its list and queues its
 * callback; removes its files and chunks, and its secrets unless the callback needs them. Idempotent: several engines
 * may do it at the same time, and one may die at any point. False while a chunk is leased.
 *
 * The callback isn't queued where the state changes, because a cancel changes it too, in a control plane, and the counts
 * that the callback sends aren't final then.
 */
export async function finalizeImport(document: EndedImport, context: FinalizingContext): Promise<boolean> {
  const { _id: importId } = document
  const { collections } = context.database
  if ((await closeChunks(collections, importId)) > 0) return false
  await fixTotals(collections, importId, await sumImport(collections, importId))
  await queueCallback(importId, context)
  await dropSecrets(collections, importId)
  await removeWorkingData(document, context)
  await deleteChunks(collections, importId)
  await markAndReport(document, context)
  return true
}

/** Whether a small import has nothing that must be done after its end. Its files are removed by the sweep too. */
export const isFinalizedAtEnd = ({ callback, has_secrets, source }: ImportDocument): boolean =>
  callback === null && !has_secrets && source.deleted_blob === undefined

/** The same for an import that was written whole: its totals are fixed, and it has no chunks. */
export async function finalizeSmallImport(
  document: ImportDocument,
  { counts, keptBytes }: { counts: ImportCounts; keptBytes: number },
  context: FinalizingContext,
): Promise<void> {
  const { _id: importId, callback, has_secrets: hasSecrets } = document
  const { collections } = context.database
  const ended = { ...document, state: 'finished' as const }
  const isFinalized = isFinalizedAtEnd(document)
  if (callback !== null) await queueCallback(importId, context)
  if (hasSecrets) await dropSecrets(collections, importId)
  await removeWorkingData(ended, context, { keptBytes, isFinalized })
  if (isFinalized) reportFinalized(ended, counts, context)
  else await markAndReport(ended, context)
}

/** Only one engine reports the end. */
async function markAndReport(document: EndedImport, context: FinalizingContext): Promise<void> {
  const totals = await markFinalized(context.database.collections, document._id)
  if (totals !== null) reportFinalized(document, totals, context)
}

function reportFinalized(
  { state, source, options }: EndedImport,
  totals: ImportCounts,
  { metrics, log }: FinalizingContext,
): void {
  metrics.importEnded(state, source.type)
  if (options.dry_run || state !== 'finished') return
  if (totals.failed === 0 || totals.failed !== recordsIn(totals)) return
  metrics.everyRowFailed()
  log.warn('every row failed: nothing of the file was imported')
}

/**
 * Queues the callback of an ended import whose counts are final, if it has one. Its body is fixed here: the reply that
 * a request for the import would get. Idempotent: a callback that is queued already stays as it is.
 */
async function queueCallback(importId: number, { database, secrets }: FinalizingContext): Promise<void> {
  const { collections } = database
  const document = await collections.imports.findOne({ _id: importId, callback: { $ne: null } })
  if (document === null) return
  // The callback is due at once: `finished_at` is by the database's clock.
  const { callback, finished_at: dueAt } = document
  if (callback === null || dueAt === null) return
  const [view] = await fullViews(collections, [document], secrets)
  const body = JSON.stringify({ success: true, data: view, error_code: null, error_message: null })
  const webhookId = `msg_${randomBytes(18).toString('base64url')}`
  if (await insertCallback(collections, document, { url: callback.url, webhookId, body, dueAt }))
    await wakeUp(collections, { reason: 'callback' })
}

/**
 * Files that can't be removed stay in the organization's quota until the sweep removes them. A temporary error of the
 * database is thrown, so that the import is finalized again, unless it is finalized.
 */
async function removeWorkingData(
  document: EndedImport,
  context: FinalizingContext,
  { keptBytes, isFinalized = false }: { keptBytes?: number; isFinalized?: boolean } = {},
): Promise<void> {
  const { log } = context
  const warn = (why: string) => {
    log.warn(`staged files can't be removed; the sweep of the staging tries again: ${why}`)
  }
  try {
    const isLate = await within(removalMs, removeFiles(document, context, keptBytes), 'late')
    if (isLate === 'late')
      warn(
        `removing its files has not ended after ${removalMs / 1000} s; check that the file server of DATA_DIR answers`,
      )
  } catch (error) {
    if (!isFinalized && driverRetryReason(error) !== null) throw error
    warn(errorMessage(error))
  }
}

async function removeFiles(
  document: EndedImport,
  { staging, uploads, quota, log }: FinalizingContext,
  keptBytes?: number,
): Promise<void> {
  const { _id: importId, organization_id: organizationId, source, content, pinned, started_at } = document
  // The upload that the import has read; where it never began the one of its creation, if that still has its name.
  const [blob, name] = started_at === null ? [source.deleted_blob, source.filename] : [pinned]
  if (source.deleted_blob !== undefined && blob !== undefined) {
    const filename = await uploads.deleteFile(organizationId, blob, name)
    const line = { event: 'delete', organization_id: organizationId, filename }
    if (filename !== null) log.info({ ...line, result: 'complete' }, 'the upload of an import was deleted')
  }
  await Promise.all([
    // A small import with its content in its document has no file.
    content === undefined ? staging.removeImport(importId) : null,
    source.type === 'upload_directory' ? uploads.unpin(importId) : null,
  ])
  await quota.removeEntry(document, keptBytes)
}
