import type { Database } from '../../../shared/runtime/database.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import { dropSecrets, finalizedWithSecrets } from '../../../shared/store/import-secrets.ts'
import type { Chore } from './maintenance.ts'

/**
 * Drops the secrets of imports that need them no longer, where that isn't done yet: an engine died after a callback, or
 * an earlier version left them.
 */
export function dropImportSecrets({ collections }: Database, log: Logger): Chore {
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
