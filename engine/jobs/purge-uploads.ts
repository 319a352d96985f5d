import type { Uploads } from '../../shared/storage/uploads/open-uploads.ts'
import { dayMs, hourMs } from '../../shared/values/durations.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** An upload that broke off can be resumed for this time. */
const unfinishedDays = 7

/** Removes uploads that broke off and weren't resumed, and those that the console made for an import that never came. */
export function purgeUploads(uploads: Uploads): MaintenanceJob {
  return {
    name: 'purging unfinished uploads',
    everyMs: hourMs,
    runOnce: async () => ({ uploads: await uploads.purge({ olderThanMs: unfinishedDays * dayMs }) }),
    done: {
      level: 'info',
      text: 'removed uploads that broke off a week ago, or that the console left behind',
    },
  }
}
