import type { Database } from '../../../shared/runtime/database.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import { dropSecrets, finalizedWithSecrets } from '../../../shared/store/import-secrets.ts'
import type { MaintenanceJob } from './maintenance.ts'

/**
 * Drops the secrets of imports that need them no longer. Usually the end of the import or of its callback does so. They are
 * left where an engine died in between, and in imports of earlier versions of Rollcall.
 */
export function dropImportSecrets({ collections }: Database, log: Logger): MaintenanceJob {
  return {
    name: 'dropping the secrets of ended imports',
    everyMs: 10 * 60_000,
    async run() {
      let imports = 0
      for await (const id of finalizedWithSecrets(collections))
        if (await dropSecrets(collections, id)) imports += 1
      if (imports > 0) log.info({ imports }, 'dropped the secrets of imports that need them no longer')
    },
  }
}
