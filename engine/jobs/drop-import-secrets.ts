import type { Database } from '../../shared/runtime/database.ts'
import { dropSecrets, finalizedWithSecrets } from '../../shared/store/secrets.ts'
import { minuteMs } from '../../shared/values/durations.ts'
import type { MaintenanceJob } from './maintenance.ts'

/**
 * Drops the secrets of imports that need them no longer. Usually this happens when the import or its callback ends. Some
 * are left where an engine died in between.
 */
export function dropImportSecrets({ collections }: Database): MaintenanceJob {
  return {
    name: 'dropping the secrets of ended imports',
    everyMs: 10 * minuteMs,
    runOnce: async () => {
      let imports = 0
      for await (const id of finalizedWithSecrets(collections))
        if (await dropSecrets(collections, id)) imports += 1
      return { imports }
    },
    done: { level: 'info', text: 'dropped the secrets of imports that need them no longer' },
  }
}
