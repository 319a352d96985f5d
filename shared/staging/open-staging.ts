import path from 'node:path'
import type { Collections } from '../schemas/collections.ts'
import { DiskReserve } from './disk-reserve.ts'
import { diskStaging } from './disk-staging.ts'
import { gridStaging } from './grid-staging.ts'
import type { Staging } from './staging.ts'

/** What of the settings says where files lie. Plain values: worker threads are given it. */
export interface StagingLocation {
  STAGING: 'disk' | 'gridfs'
  DATA_DIR: string
  /** Without it there is no reserve. */
  DISK_RESERVE_MB?: number
}

export const stagingFolder = ({ DATA_DIR }: StagingLocation): string => path.join(DATA_DIR, 'staging')

/** By `STAGING`: DATA_DIR of this machine, or the database. All processes must be given the same. */
export function openStaging(location: StagingLocation, collections: Collections): Staging {
  return location.STAGING === 'gridfs'
    ? gridStaging(collections.staging)
    : diskStaging(
        stagingFolder(location),
        new DiskReserve(location.DATA_DIR, (location.DISK_RESERVE_MB ?? 0) * 1_000_000),
      )
}
