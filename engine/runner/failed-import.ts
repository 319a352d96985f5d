import type { FailureReason } from '../metrics.ts'
import type { ImportState } from '../../shared/contract/import-state.ts'
import type { Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { logImportState } from '../../shared/processes/import-log.ts'
import { sumImport } from '../../shared/store/chunks.ts'

const clientFaults: FailureReason[] = [
  'source_refused',
  'content_refused',
  'quota_exceeded',
  'plan_invalid',
  'nothing_valid',
]

/** Logs that this engine has failed an import, with its counts so far. Throws the database's errors. */
export async function logFailedImport(
  { database: { collections }, log }: { database: Database; log: Logger },
  importId: number,
  { from, message, reason }: { from: ImportState; message: string; reason: FailureReason },
): Promise<void> {
  const document = await collections.imports.findOne({ _id: importId, state: 'failed' })
  if (document === null) return
  const { counts } = await sumImport(collections, importId)
  logImportState(log, document, {
    ...{ from, to: 'failed', by: { by: 'service' } },
    end: {
      ...{ at: document.finished_at!, counts, reason: message },
      isOfClient: clientFaults.includes(reason),
    },
  })
}
