import path from 'node:path'
import type { Collections } from '../../contract/schemas/collections.ts'
import { DiskReserve } from './disk-reserve.ts'
import { diskStaging } from './disk-staging.ts'
import { gridStaging } from './grid-staging.ts'
import { guardedStaging } from './guarded-staging.ts'
import type { MarkedFolder } from './marked-folder.ts'
import type { Staging } from './staging.ts'

/** What of the settings says where files lie. Plain values: worker threads are given it. */
export interface StagingLocation {
  STAGING: 'disk' | 'gridfs'
  DATA_DIR: string
  /** Without it there is no reserve. */
  DISK_RESERVE_MB?: number
}

export const stagingFolder = ({ DATA_DIR }: StagingLocation): string => path.join(DATA_DIR, 'staging')

/**
 * By `STAGING`: DATA_DIR of this machine, or the database. All processes must be given the same. Without `folder` nothing
 * says whether DATA_DIR is available.
 */
export function openStaging(
  location: StagingLocation,
  collections: Collections,
  folder?: MarkedFolder,
): Staging {
  if (location.STAGING === 'gridfs') return gridStaging(collections.staging)
  const reserve = new DiskReserve(location.DATA_DIR, (location.DISK_RESERVE_MB ?? 0) * 1_000_000)
  const staging = diskStaging(stagingFolder(location), reserve)
  return folder === undefined ? staging : guardedStaging(staging, folder)
}
