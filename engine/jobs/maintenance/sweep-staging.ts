import type { Database } from '../../../shared/runtime/database.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import { leaveImport } from '../../../shared/store/staged-usage.ts'
import { listNotFinalizedAmong } from '../../../shared/store/imports.ts'
import type { Uploads } from '../../../shared/storage/uploads/upload-store.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** Inline content is staged before its import is in the database. No request takes this long. */
const minAgeMs = 3_600_000

/**
 * Removes files that no import needs, and pins of imports that have ended. Such files are left by a creation that broke
 * off, or were written while their import was finalized.
 */
export function sweepStaging(
  { collections }: Database,
  { staging, uploads }: { staging: Staging; uploads: Uploads },
  log: Logger,
): MaintenanceJob {
  return {
    name: 'sweeping the staging',
    everyMs: 10 * 60_000,
    async run() {
      const old = await staging.listImports({ olderThanMs: minAgeMs })
      // Read before the imports: an import that begins in between needs its pin.
      const pinned = await uploads.listPinned()
      const needed = new Set(await listNotFinalizedAmong(collections, [...old, ...pinned]))
      for (const id of pinned) if (!needed.has(id)) await uploads.unpin(id)
      for (const id of old) {
        if (needed.has(id)) continue
        await staging.removeImport(id)
        await leaveImport(collections, id)
        log.info({ import_id: id }, 'removed staged files that no import needs')
      }
      await staging.sweep()
    },
  }
}
