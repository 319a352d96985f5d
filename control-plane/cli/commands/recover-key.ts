import { keyHashSecret } from '../../../shared/api-keys.ts'
import { loadSettings } from '../../../shared/config.ts'
import { ensureDataFolder } from '../../../shared/data-folder.ts'
import { createLogger } from '../../../shared/logger.ts'
import type { Part } from '../../../shared/service.ts'
import { startDatabase } from '../../../shared/start-database.ts'
import { recoverKey } from '../../recover-key.ts'

/** Straight on the database that the settings name: the API needs a key for everything. */
export async function makeRecoveredKey(): Promise<string> {
  const settings = loadSettings()
  const log = createLogger({
    process: 'recover-key',
    level: settings.LOG_LEVEL === 'info' ? 'warn' : settings.LOG_LEVEL,
  })
  const parts: Part[] = []
  const stopping = new AbortController()
  if (settings.MONGODB_URI === undefined) await ensureDataFolder(settings.DATA_DIR)
  try {
    const database = await startDatabase({
      settings,
      log,
      stopping: stopping.signal,
      add: (part) => {
        parts.push(part)
        return part
      },
      ready: () => undefined,
      stop: () => {
        stopping.abort()
      },
    })
    return await recoverKey(database, await keyHashSecret(database.collections))
  } finally {
    for (const part of parts.reverse()) await part.stop()
  }
}
