import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../runtime/clock.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import { acquireUploadLock, releaseUploadLock, uploadLeaseMs } from '../../store/upload-locks.ts'
import { newUploadToken } from './upload-names.ts'

/** Long enough for the lock of a dead process to expire. */
const timeoutMs = uploadLeaseMs + 15_000
const retryMs = 20

/**
 * Runs work that changes the files behind these names and their counts, under one lock for each name across all
 * processes. These locks last a moment; the lock of an upload is another one and lasts as long as the upload. Throws
 * when a lock isn't free within 30 s, and what `work` throws.
 */
export async function withUploadLocks<T>(
  collections: Collections,
  organizationId: number,
  names: string[],
  work: () => Promise<T>,
): Promise<T> {
  // Sorted, so that two renames in opposite directions can't deadlock.
  const [name, ...others] = [...new Set(names)].sort()
  if (name === undefined) return work()
  // File names contain no slash, so this id is never that of an upload's own lock. Processes of all versions share it.
  const holder = { id: `${organizationId}/${name}/turn`, token: newUploadToken() }
  const deadline = clock.monotonicMs() + timeoutMs
  while ((await acquireUploadLock(collections, holder)) === null) {
    if (clock.monotonicMs() > deadline)
      throw new Error(
        `${JSON.stringify(name)} was locked by other changes for ${timeoutMs / 1000} s: try again`,
      )
    await sleep(retryMs)
  }
  try {
    return await withUploadLocks(collections, organizationId, others, work)
  } finally {
    // Not awaited: the work is done, and a lock that isn't released expires by itself.
    void releaseUploadLock(collections, holder).catch(() => undefined)
  }
}
