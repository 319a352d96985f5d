import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../shared/runtime/clock.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { releaseUploadLock, takeUploadLock, uploadLeaseMs } from './upload-locks.ts'
import { newUploadToken } from '../../shared/storage/uploads/upload-names.ts'

/** The lock of a process that died has run out by then. */
const timeoutMs = uploadLeaseMs + 15_000
const retryMs = 20

/**
 * Runs what changes the files behind these names, and the counts with them, under a lock for each name that holds over all
 * processes. These locks last for a moment; the lock of an upload lasts as long as the upload and is another one. Throws
 * when a lock isn't free within half a minute, and what `work` throws.
 */
export async function withUploadLocks<T>(
  collections: Collections,
  organizationId: number,
  names: string[],
  work: () => Promise<T>,
): Promise<T> {
  // Sorted, or two renames would wait for each other.
  const [name, ...others] = [...new Set(names)].sort()
  if (name === undefined) return work()
  // File names contain no slash, so this is not the lock of an upload.
  const holder = { id: `${organizationId}/${name}/turn`, token: newUploadToken() }
  const until = clock.monotonicMs() + timeoutMs
  while ((await takeUploadLock(collections, holder)) === null) {
    if (clock.monotonicMs() > until)
      throw new Error(
        `${JSON.stringify(name)} was locked by other changes for ${timeoutMs / 1000} s: try again`,
      )
    await sleep(retryMs)
  }
  try {
    return await withUploadLocks(collections, organizationId, others, work)
  } finally {
    // Not awaited: the work is done, and a lock that isn't released runs out by itself.
    void releaseUploadLock(collections, holder).catch(() => undefined)
  }
}
