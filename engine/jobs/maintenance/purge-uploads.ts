import type { Logger } from '../../../shared/runtime/logger.ts'
import type { Uploads } from '../../../shared/storage/uploads/upload-store.ts'
import type { Chore } from './maintenance.ts'

/** How long an upload that broke off can be gone on with. */
const unfinishedDays = 7

/** Once an hour, removes uploads that broke off and were not gone on with. */
export function purgeUploads(uploads: Uploads, log: Logger): Chore {
  return {
    name: 'purging unfinished uploads',
    everyMs: 60 * 60_000,
    async run() {
      const removed = await uploads.purge({ olderThanMs: unfinishedDays * 24 * 3_600_000 })
      if (removed > 0) log.info({ uploads: removed }, 'removed uploads that broke off a week ago')
    },
  }
}
