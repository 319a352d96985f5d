import type { Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'
import type { Uploads } from '../../shared/storage/uploads/open-uploads.ts'
import { listNotFinalizedAmong } from '../../shared/store/imports.ts'
import { removeImportEntry, removeLostEntries } from '../../shared/store/staged-usage.ts'
import { hourMs, minuteMs } from '../../shared/values/durations.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** Younger files are left alone: inline content is staged before its import is stored, and no request takes this long. */
const minStagedAgeMs = hourMs

/**
 * Removes files that no import needs, and pins of imports that have ended. Such files are left by a creation that broke
 * off, or were written while their import was finalized.
 */
export function sweepStaging(
  { collections }: Pick<Database, 'collections'>,
  { staging, uploads }: { staging: Staging; uploads: Uploads },
  log: Logger,
): MaintenanceJob {
  return {
    name: 'sweeping the staging',
    everyMs: 10 * minuteMs,
    runOnce: async () => {
      const old = await staging.listImports({ olderThanMs: minStagedAgeMs })
      // Read before the imports: an import that begins in between needs its pin.
      const pinned = await uploads.listPinned()
      const needed = new Set(await listNotFinalizedAmong(collections, [...old, ...pinned]))
      const [unneeded, unpinned] = [old, pinned].map((ids) => ids.filter((id) => !needed.has(id)))
      for (const id of unpinned!) await uploads.unpin(id)
      for (const id of unneeded!) {
        await staging.removeImport(id)
        await removeImportEntry(collections, id)
        log.info({ import_id: id }, 'removed staged files that no import needs')
      }
      await removeLostEntries(collections)
      return { imports: unneeded!.length, pins: unpinned!.length }
    },
  }
}
