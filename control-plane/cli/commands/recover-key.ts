import { existsSync } from 'node:fs'
import path from 'node:path'
import { keyHashSecret } from '../../../shared/store/api-keys.ts'
import { loadSettings } from '../../../shared/runtime/config.ts'
import { ensureDataFolder } from '../../../shared/runtime/data-folder.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { ProcessRegistration } from '../../../shared/processes/process-registration.ts'
import type { Part } from '../../../shared/runtime/service.ts'
import { startOwnMongoDB } from '../../../shared/runtime/mongod/own-mongodb.ts'
import { startDatabase } from '../../../shared/runtime/start-database.ts'
import { recoverKey } from '../../store/bootstrap.ts'
import { CommandFailure } from '../failures.ts'

/** Works directly on the database of the settings, because the API needs a key for everything. */
export async function makeRecoveredKey(): Promise<string> {
  const settings = loadSettings()
  const log = createLogger({
    process: 'recover-key',
    level: settings.LOG_LEVEL === 'info' ? 'warn' : settings.LOG_LEVEL,
  })
  const parts: Part[] = []
  const add = <T extends Part>(part: T): T => {
    parts.push(part)
    return part
  }
  const startServer = async () =>
    add(await startOwnMongoDB({ settings, log, stopping: new AbortController().signal })).uri
  const where =
    settings.MONGODB_URI === undefined
      ? `in DATA_DIR, ${path.resolve(settings.DATA_DIR)}`
      : `at MONGODB_URI in the database ${settings.MONGODB_DATABASE}`
  const hint = 'use the settings that the service runs with: MONGODB_URI, or else DATA_DIR'
  const nothing = () => new CommandFailure(`there is no Rollcall ${where}`, { hint })
  if (settings.MONGODB_URI === undefined) {
    if (!existsSync(path.join(settings.DATA_DIR, 'mongodb'))) throw nothing()
    await ensureDataFolder(settings.DATA_DIR, log)
  }
  try {
    const database = await startDatabase({
      settings: { ...settings, MONGODB_URI: settings.MONGODB_URI ?? (await startServer()) },
      log,
      add,
    })
    if ((await database.collections.organizations.findOne()) === null) throw nothing()
    // The transaction blocks all changes of keys. If this process is killed in it, others abort it once the lease
    // expires.
    add(await new ProcessRegistration('control-plane', database, log).start())
    return await recoverKey(database, await keyHashSecret(database.collections))
  } finally {
    for (const part of parts.reverse()) await part.stop()
  }
}
