import { StartError } from '../../contract/errors.ts'
import type { Process } from '../service.ts'
import { startEmbeddedMongoDB, type EmbeddedMongoDB } from './embedded-mongodb.ts'

/**
 * Starts the embedded server of `DATA_DIR`, for a process without `MONGODB_URI`. Throws a StartError. This file loads no
 * schema of the database: `npm start`, which needs none, takes 4 MB less.
 */
export async function startOwnMongoDB({
  settings,
  log,
  stopping,
}: Pick<Process, 'settings' | 'log' | 'stopping'>): Promise<EmbeddedMongoDB> {
  if (!settings.EMBEDDED_MONGODB)
    throw new StartError(
      'MONGODB_URI is not set, and EMBEDDED_MONGODB=false allows no embedded server: set MONGODB_URI to a replica set, for instance mongodb://db.example.com:27017/?replicaSet=rs0',
    )
  return startEmbeddedMongoDB({
    dataFolder: settings.DATA_DIR,
    cacheMB: settings.MONGOD_CACHE_MB,
    binarySetting: settings.MONGOD_BINARY,
    cacheFolder: settings.MONGOD_CACHE_DIR,
    log,
    signal: stopping,
  })
}
