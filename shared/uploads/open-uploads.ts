import type { Database } from '../database.ts'
import { stagingFolder, type StagingPlace } from '../staging/open-staging.ts'
import { diskUploads } from './disk-uploads.ts'
import { gridUploads } from './grid-uploads.ts'
import type { Uploads } from './upload-store.ts'

/** By `STAGING`: DATA_DIR of this machine, or the database. All processes must be given the same. */
export function openUploads(
  place: StagingPlace,
  { client, collections }: Pick<Database, 'client' | 'collections'>,
): Uploads {
  return place.STAGING === 'gridfs'
    ? gridUploads(client, collections)
    : diskUploads({ dataFolder: place.DATA_DIR, stagingFolder: stagingFolder(place), collections })
}
