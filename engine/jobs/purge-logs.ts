import { idsOfImport } from '../../shared/contract/schemas/import.ts'
import type { Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { listImportsWithOldLogs, markLogsPurged } from '../../shared/store/imports.ts'
import { deleteRange } from '../../shared/store/key-ranges.ts'
import { minuteMs } from '../../shared/values/durations.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** Removes the logs of imports that ended long ago. Their counts stay in the import. */
export function purgeLogs(database: Database, log: Logger): MaintenanceJob {
  const { collections } = database
  return {
    name: 'purging old logs',
    everyMs: 10 * minuteMs,
    runOnce: async () => {
      const ids = await listImportsWithOldLogs(collections)
      for (const id of ids) {
        await deleteRange(collections.outcomes, idsOfImport(id))
        await deleteRange(collections.failures, idsOfImport(id))
        await markLogsPurged(database, id)
        log.info({ import_id: id }, 'purged the logs of an import that ended long ago')
      }
      return { imports: ids.length }
    },
  }
}
