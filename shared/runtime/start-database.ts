import { ensureSchema, openDatabase, type Database } from './database.ts'
import { StartError } from '../contract/errors.ts'
import { startEmbeddedMongoDB, type EmbeddedMongoDB } from './mongod/embedded-mongodb.ts'
import { findMongod } from './mongod/find-mongod.ts'
import type { Process } from './service.ts'
import type { MarkedFolder } from '../storage/staging/marked-folder.ts'

/**
 * The database as `openDatabase` gives it, with the whole URI for threads that connect by themselves, and the file that
 * holds the password of the embedded server; null where `MONGODB_URI` names another server.
 */
type StartedDatabase = Database & { uri: string; passwordFile: string | null }

/** What of a process a database is started with. */
type Starting = Pick<Process, 'settings' | 'log' | 'stopping' | 'add'>

/**
 * The database that the settings name, or an embedded server, connected and with every collection and index in
 * place. What was started for it stops with the process, the server last.
 */
export async function startDatabase(process: Starting): Promise<StartedDatabase> {
  const { settings } = process
  const { uri, passwordFile } =
    settings.MONGODB_URI === undefined
      ? await startEmbedded(process)
      : { uri: settings.MONGODB_URI, passwordFile: null }
  const database = await openDatabase({ uri, name: settings.MONGODB_DATABASE })
  process.add({ stop: () => database.close() })
  await ensureSchema(database.db, process.log)
  return { ...database, uri, passwordFile }
}

async function startEmbedded(process: Starting): Promise<EmbeddedMongoDB> {
  const { settings, log, stopping: signal } = process
  if (!settings.EMBEDDED_MONGODB)
    throw new StartError(
      'MONGODB_URI is not set, and EMBEDDED_MONGODB=false allows no embedded server: set MONGODB_URI to a replica set, for instance mongodb://db.example.com:27017/?replicaSet=rs0',
    )
  const server = await startEmbeddedMongoDB({
    dataFolder: settings.DATA_DIR,
    cacheMB: settings.MONGOD_CACHE_MB,
    findMongod: (distrust) =>
      findMongod({
        binarySetting: settings.MONGOD_BINARY,
        cacheFolder: settings.MONGOD_CACHE_DIR,
        log,
        signal,
        distrust,
      }),
    log,
    signal,
  })
  return process.add(server)
}

/** For `/readyz`: whether the database answers, and DATA_DIR is available. */
export function readinessProblem(database: Database, folder: MarkedFolder): () => Promise<string | null> {
  const problemOfDatabase = databaseProblem(database)
  return async () => (await problemOfDatabase()) ?? folder.check()
}

/** Whether the database answers. */
export function databaseProblem(database: Database): () => Promise<string | null> {
  return async () => {
    // Its reason is a TimeoutError, of which the driver tells the checkout's failure; of other aborts it tells no end, and
    // metrics would count them as waiting for ever. The driver's own `timeoutMS` doesn't end a command in time.
    await database.db.command({ ping: 1 }, { signal: AbortSignal.timeout(2_000) })
    return null
  }
}
