import { openDatabase, type Database } from './database.ts'
import { ensureSchema } from './ensure-schema.ts'
import { StartError } from '../contract/errors.ts'
import type { Process } from './service.ts'
import type { MarkedFolder } from '../storage/staging/marked-folder.ts'

/** The database, with the complete URI for threads that open connections of their own. */
type StartedDatabase = Database & { uri: string }

type DatabaseContext = Pick<Process, 'settings' | 'log' | 'add'>

/**
 * Connects to `MONGODB_URI`, and brings collections and indexes up to date. The connection is closed when the process
 * stops. Throws a StartError.
 */
export async function startDatabase(process: DatabaseContext): Promise<StartedDatabase> {
  const { settings, log } = process
  const { MONGODB_URI: uri, MONGODB_DATABASE: name } = settings
  if (uri === undefined)
    throw new StartError(
      'MONGODB_URI is not set: set it to a replica set, for instance mongodb://db.example.com:27017/?replicaSet=rs0, or run `npm start`, which starts a server of its own',
    )
  const database = await openDatabase({ uri, name })
  process.add({ stop: () => database.close() })
  await ensureSchema(database.db, log)
  return { ...database, uri }
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
