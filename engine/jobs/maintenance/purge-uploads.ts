import type { Logger } from '../../../shared/runtime/logger.ts'
import type { Uploads } from '../../../shared/storage/uploads/upload-store.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** An upload that broke off can be resumed for this time. */
const unfinishedDays = 7

/** Removes uploads that broke off and were not resumed. */
export function purgeUploads(uploads: Uploads, log: Logger): MaintenanceJob {
  return {
    name: 'purging unfinished uploads',
    everyMs: 60 * 60_000,
    async run() {
      const removed = await uploads.purge({ olderThanMs: unfinishedDays * 24 * 3_600_000 })
      if (removed > 0) log.info({ uploads: removed }, 'removed uploads that broke off a week ago')
    },
  }
}
