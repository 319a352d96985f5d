import type { Database } from '../../shared/database.ts'
import type { Logger } from '../../shared/logger.ts'
import type { Staging } from '../../shared/staging/staging.ts'
import { listUnsettledAmong } from '../../shared/store/imports.ts'
import type { Chore } from './maintenance.ts'

/** How long inline content may lie here before its import is in the database: longer than any request lasts. */
const youngMs = 3_600_000

/** Removes files that no import needs: of a creation that broke off, or written while an import was being cleared up. */
export function sweepStaging({ collections }: Database, staging: Staging, log: Logger): Chore {
  return {
    name: 'sweeping the staging',
    everyMs: 10 * 60_000,
    async run() {
      const old = await staging.listImports({ olderThanMs: youngMs })
      const needed = new Set(await listUnsettledAmong(collections, old))
      for (const id of old) {
        if (needed.has(id)) continue
        await staging.removeImport(id)
        log.info({ import_id: id }, 'removed staged files that no import needs')
      }
    },
  }
}
