import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../shared/runtime/clock.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { releaseUploadLock, takeUploadLock, uploadLeaseMs } from './upload-locks.ts'
import { newUploadToken } from '../../shared/storage/uploads/upload-names.ts'

/** A dead process's turn has ended by then. */
const timeoutMs = uploadLeaseMs + 15_000
const retryMs = 20

/**
 * Does what changes to which file names lead, and the figures with it, in one turn at a time for each name, over all
 * processes. A turn lasts for a moment; an upload's lock, which lasts as long as the upload, is another thing. Throws
 * when no turn came within half a minute, and what `work` throws.
 */
export async function withUploadLocks<T>(
  collections: Collections,
  organizationId: number,
  names: string[],
  work: () => Promise<T>,
): Promise<T> {
  // In one order, or two renames would wait for each other.
  const [name, ...others] = [...new Set(names)].sort()
  if (name === undefined) return work()
  // No name holds a slash, so these are nobody's uploads.
  const holder = { id: `${organizationId}/${name}/turn`, token: newUploadToken() }
  const until = clock.monotonicMs() + timeoutMs
  while ((await takeUploadLock(collections, holder)) === null) {
    if (clock.monotonicMs() > until)
      throw new Error(`too much was going on with ${JSON.stringify(name)} to have a turn: try it again`)
    await sleep(retryMs)
  }
  try {
    return await withUploadLocks(collections, organizationId, others, work)
  } finally {
    // Nobody waits for the answer but who wants the next turn, and it runs out by itself.
    void releaseUploadLock(collections, holder).catch(() => undefined)
  }
}
