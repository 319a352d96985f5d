import { takeOverFromEngines, type TakeOverOptions } from '../scheduler/take-over.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'
import type { Uploads } from '../../shared/storage/uploads/upload-store.ts'
import {
  dropImportSecrets,
  enforceLimits,
  purgeLogs,
  purgeUploads,
  removeDeletedFieldValues,
  sweepStaging,
  type MaintenanceJob,
} from './maintenance.ts'

export interface MaintenanceDeps extends TakeOverOptions {
  staging: Staging
  uploads: Uploads
}

/** Every job that an engine runs at an interval. */
export function maintenanceJobs(deps: MaintenanceDeps): MaintenanceJob[] {
  const { database, uploads, log } = deps
  return [
    takeOverFromEngines(deps),
    enforceLimits(database, log),
    sweepStaging(database, deps, log),
    purgeUploads(uploads, log),
    purgeLogs(database, log),
    removeDeletedFieldValues(database, log),
    dropImportSecrets(database, log),
  ]
}
