import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { openStaging } from '../../shared/storage/staging/open-staging.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'

/** The staging of a DATA_DIR on disk, which needs no database. */
export const folderStaging = (dataFolder: string): Staging =>
  openStaging({ STAGING: 'disk', DATA_DIR: dataFolder }, {} as Collections)
