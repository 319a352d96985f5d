import type { Database } from '../database.ts'
import { stagingFolder, type StagingLocation } from '../staging/open-staging.ts'
import { diskUploads } from './disk-uploads.ts'
import { gridUploads } from './grid-uploads.ts'
import type { Uploads } from './upload-store.ts'

/** By `STAGING`: DATA_DIR of this machine, or the database. All processes must be given the same. */
export function openUploads(
  location: StagingLocation,
  { client, collections }: Pick<Database, 'client' | 'collections'>,
): Uploads {
  return location.STAGING === 'gridfs'
    ? gridUploads(client, collections)
    : diskUploads({ dataFolder: location.DATA_DIR, stagingFolder: stagingFolder(location), collections })
}
