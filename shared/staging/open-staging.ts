import path from 'node:path'
import type { Collections } from '../schemas/collections.ts'
import { diskStaging } from './disk-staging.ts'
import { gridStaging } from './grid-staging.ts'
import type { Staging } from './staging.ts'

/** What of the settings says where files lie. Plain values: worker threads are given it. */
export interface StagingPlace {
  STAGING: 'disk' | 'gridfs'
  DATA_DIR: string
}

export const stagingFolder = ({ DATA_DIR }: StagingPlace): string => path.join(DATA_DIR, 'staging')

/** By `STAGING`: DATA_DIR of this machine, or the database. All processes must be given the same. */
export function openStaging(place: StagingPlace, collections: Collections): Staging {
  return place.STAGING === 'gridfs' ? gridStaging(collections.staging) : diskStaging(stagingFolder(place))
}
