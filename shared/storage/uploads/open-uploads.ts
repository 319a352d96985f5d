import type { Database } from '../../runtime/database.ts'
import { DiskReserve } from '../staging/disk-reserve.ts'
import { stagingFolder, type StagingLocation } from '../staging/open-staging.ts'
import type { MarkedFolder } from '../staging/marked-folder.ts'
import { diskUploads } from './disk-uploads.ts'
import { gridUploads } from './grid-uploads.ts'
import type { Uploads, UploadStore } from './upload-store.ts'

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
    reserve: folder?.reserve ?? new DiskReserve(location),
  })
  return folder === undefined ? uploads : guardedUploads(uploads, folder)
}

/**
 * Uploads whose directories, new pins and purge throw FolderUnavailable while DATA_DIR is unavailable, because an
 * unmounted folder would seem to have no uploads. A missing file of a pin counts as gone only when DATA_DIR is
 * available afterwards.
 */
function guardedUploads(uploads: Uploads, folder: MarkedFolder): Uploads {
  return {
    ...uploads,
    directory: (organizationId) => guardedStore(uploads.directory(organizationId), folder),
    async pin(upload) {
      await folder.require()
      const pin = await uploads.pin(upload)
      if (pin === null) await folder.require({ fresh: true })
      return pin
    },
    async openPin(organizationId, pin) {
      const pinned = await uploads.openPin(organizationId, pin)
      if (pinned === null) await folder.require({ fresh: true })
      return pinned
    },
    async purge(options) {
      await folder.require({ fresh: true })
      return uploads.purge(options)
    },
  }
}

function guardedStore(store: UploadStore, folder: MarkedFolder): UploadStore {
  return {
    prepare: folder.guarded(() => store.prepare()),
    list: folder.guarded(() => store.list()),
    find: folder.guarded((name: string) => store.find(name)),
    findUnfinished: folder.guarded((name: string) => store.findUnfinished(name)),
    listUnfinished: folder.guarded(() => store.listUnfinished()),
    open: folder.guarded((name: string) => store.open(name)),
    remove: folder.guarded((name: string) => store.remove(name)),
    removeUnfinished: folder.guarded((name: string) => store.removeUnfinished(name)),
    rename: folder.guarded((from: string, to: string) => store.rename(from, to)),
    setTime: folder.guarded((name: string, time: Date) => store.setTime(name, time)),
    beginOrResume: folder.guarded((options) => store.beginOrResume(options)),
    count: folder.guarded(() => store.count()),
    countPinned: folder.guarded((importIds: number[]) => store.countPinned(importIds)),
  }
}
