import type { Database } from '../../runtime/database.ts'
import { stagingFolder, type StagingLocation } from '../staging/open-staging.ts'
import type { MarkedFolder } from '../staging/marked-folder.ts'
import { diskUploads } from './disk-uploads.ts'
import { gridUploads } from './grid-uploads.ts'
import { guardedUploads } from './guarded-uploads.ts'
import type { Uploads } from './upload-store.ts'

/**
 * Opens the uploads in DATA_DIR or in the database, as `STAGING` says. All processes must have the same setting.
 * Without `folder` the availability of DATA_DIR is not checked.
 */
export function openUploads(
  location: StagingLocation,
  database: Pick<Database, 'sessions' | 'collections'>,
  folder?: MarkedFolder,
): Uploads {
  if (location.STAGING === 'gridfs') return gridUploads(database)
  const uploads = diskUploads({
    dataFolder: location.DATA_DIR,
    stagingFolder: stagingFolder(location),
    collections: database.collections,
  })
  return folder === undefined ? uploads : guardedUploads(uploads, folder)
}
