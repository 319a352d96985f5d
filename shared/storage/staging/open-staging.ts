import path from 'node:path'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { Blobs } from '../blobs/blobs.ts'
import { diskBlobs } from '../blobs/disk-blobs.ts'
import { gridBlobs } from '../blobs/grid-blobs.ts'
import { DiskReserve } from './disk-reserve.ts'
import type { MarkedFolder } from './marked-folder.ts'
import { stagingOf, type Staging } from './staging.ts'

/** The settings that say where files lie. Plain values, because they are passed to worker threads. */
export interface StagingLocation {
  STAGING: 'disk' | 'gridfs'
  DATA_DIR: string
  /** There is no reserve without it. */
  DISK_RESERVE_MB?: number
}

export const stagingFolder = ({ DATA_DIR }: StagingLocation): string => path.join(DATA_DIR, 'staging')

/**
 * Opens the blobs in DATA_DIR or in the database, as `STAGING` says. All processes must have the same setting. Without
 * `folder` the availability of DATA_DIR is not checked.
 */
export function openBlobs(location: StagingLocation, collections: Collections, folder?: MarkedFolder): Blobs {
  if (location.STAGING === 'gridfs') return gridBlobs(collections.blobPieces)
  return diskBlobs(location.DATA_DIR, folder?.reserve ?? new DiskReserve(location))
}

/** Opens the staging in these blobs. */
export function openStaging(
  location: StagingLocation,
  collections: Collections,
  folder?: MarkedFolder,
): Staging {
  const reserve = folder?.reserve ?? new DiskReserve(location)
  const staging = stagingOf(openBlobs(location, collections, folder), reserve)
  return folder === undefined ? staging : guardedStaging(staging, folder)
}

/**
 * Staging where `write`, `create`, `removeImport` and `listImports` throw FolderUnavailable while DATA_DIR is
 * unavailable. A `write` succeeds only when DATA_DIR is still available after it. `open` has no guard: a caller that
 * finds no file checks the folder itself.
 */
function guardedStaging(staging: Staging, folder: MarkedFolder): Staging {
  return {
    ...staging,
    async write(name, content) {
      await folder.require()
      const size = await staging.write(name, content)
      await folder.require({ fresh: true })
      return size
    },
    create: folder.guarded((name) => staging.create(name)),
    removeImport: folder.guarded((importId, options) => staging.removeImport(importId, options)),
    async listImports(options) {
      await folder.require({ fresh: true })
      return staging.listImports(options)
    },
  }
}
