import { ensureSchema, openDatabase, type Database } from './database.ts'
import { StartError } from '../contract/errors.ts'
import { startEmbeddedMongoDB, type EmbeddedMongoDB } from './mongod/embedded-mongodb.ts'
import { findMongod } from './mongod/find-mongod.ts'
import type { Process } from './service.ts'
import type { MarkedFolder } from '../storage/staging/marked-folder.ts'

/**
 * The database, with the complete URI for threads that open connections of their own. `passwordFile` has the password
 * of the embedded server, and is null when `MONGODB_URI` is set.
 */
type StartedDatabase = Database & { uri: string; passwordFile: string | null }

type DatabaseContext = Pick<Process, 'settings' | 'log' | 'stopping' | 'add'>

/**
 * Connects to `MONGODB_URI`, or to an embedded server that it starts, and brings collections and indexes up to date.
 * Everything that it starts stops with the process, the server last.
 */
export async function startDatabase(process: DatabaseContext): Promise<StartedDatabase> {
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

async function startEmbedded(process: DatabaseContext): Promise<EmbeddedMongoDB> {
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

/** For `/readyz`: checks that the disk has space, the database answers and DATA_DIR is available. */
export function readinessProblem(database: Database, folder: MarkedFolder): () => Promise<string | null> {
  return async () => {
    // Checked first, because an embedded server doesn't answer for that very reason.
    const fullDisk = await folder.reserve.problem()
    if (fullDisk !== null) return fullDisk
    await pingDatabase(database)
    return folder.check()
  }
}

/** Throws unless the database answers. */
export async function pingDatabase({ db }: Database): Promise<void> {
  // The reason must be a TimeoutError. For other aborts the driver emits no end of a checkout, and metrics would count
  // it as waiting for ever. The driver's own `timeoutMS` doesn't end a command in time.
  await db.command({ ping: 1 }, { signal: AbortSignal.timeout(2_000) })
}
