import { randomBytes } from 'node:crypto'
import type { Database } from '../../../shared/runtime/database.ts'
import { fullViews } from '../../../shared/store/import-views.ts'
import type { SecretBox } from '../../../shared/runtime/secret-box.ts'
import { insertCallback } from '../../store/callbacks.ts'
import { notifyEngines } from '../../../shared/store/wake-up.ts'

/**
 * Queues the callback of an ended import whose counts are final, if it has one. Its body is fixed here: the reply that
 * a request for the import would get. Idempotent: a callback that is queued already stays as it is.
 */
export async function queueCallback(
  { collections }: Database,
  importId: number,
  secrets: SecretBox,
): Promise<void> {
  const document = await collections.imports.findOne({ _id: importId, callback: { $ne: null } })
  if (document === null) return
  // The callback is due at once: `finished_at` is by the database's clock.
  const { callback, finished_at: dueAt } = document
  if (callback === null || dueAt === null) return
  const [view] = await fullViews(collections, [document], secrets)
  const body = JSON.stringify({ success: true, data: view, error_code: null, error_message: null })
  const webhookId = `msg_${randomBytes(18).toString('base64url')}`
  if (await insertCallback(collections, document, { url: callback.url, webhookId, body, dueAt }))
    await notifyEngines(collections, 'callback')
}
