import type { Collections } from '../../contract/schemas/collections.ts'
import { compareEntries, listImportsWithPins, setPinned } from '../../store/staged-usage.ts'
import { correctUsage, listLiveUploads, readUsage } from '../../store/upload-usage.ts'
import { hourMs } from '../../values/durations.ts'
import type { UploadStore } from './upload-store.ts'

/**
 * Recounts the storage of an organization, and replaces the stored usage, which each change otherwise updates. It runs
 * when there is no usage yet, when it is old, and before a refusal. Processes may have been killed between two updates.
 */

/** A usage that is older is recounted, because other programs may put files into the directory too. */
export const maxUsageAgeMs = hourMs
/** Tries of one recount; if uploads keep changing meanwhile, the last known usage stays. */
const maxCounts = 3
/** Pinned files are few, and counted fast. */
const maxPinnedCounts = 20

/**
 * Single-flight: concurrent calls of a process for one organization share a count. They share one that has begun, which
 * `singleFlight` in control-plane/store doesn't allow: changes since then are in the stored usage already.
 */
export function countUsage(
  collections: Collections,
  organizationId: number,
  store: UploadStore,
): Promise<void> {
  const running = counts.get(collections) ?? new Map<number, Promise<void>>()
  counts.set(collections, running)
  let count = running.get(organizationId)
  if (count === undefined) {
    count = countNow(collections, organizationId, store).finally(() => running.delete(organizationId))
    running.set(organizationId, count)
  }
  return count
}

/** Attempts it, and again after a count where it is refused, because the stored usage may be too high. */
export async function retryAfterCount(
  collections: Collections,
  organizationId: number,
  store: UploadStore,
  attempt: () => Promise<boolean>,
): Promise<boolean> {
  if (await attempt()) return true
  await countUsage(collections, organizationId, store)
  return attempt()
}

const counts = new WeakMap<Collections, Map<number, Promise<void>>>()

/** Leaves the usage as it is when it changed during each of the counts. */
async function countNow(collections: Collections, organizationId: number, store: UploadStore): Promise<void> {
  for (let tries = 0; tries < maxCounts; tries += 1) {
    const usage = await readUsage(collections, organizationId)
    const uploads = await listLiveUploads(collections, usage)
    const { finished, unfinished } = await store.count()
    const pinned = await store.countPinned(await listImportsWithPins(collections, organizationId))
    const { gone, kept } = await compareEntries(collections, organizationId, usage)
    // The bytes of an upload in progress are in its reservation.
    for (const { name } of uploads) unfinished.delete(name)
    const names = new Set([...finished.keys(), ...unfinished.keys()])
    for (const { name, files } of uploads) if (files === 0) names.add(name)
    const bytes = [...finished.values(), ...unfinished.values()].reduce((sum, size) => sum + size, 0)
    const live = uploads.map(({ token }) => token)
    const counted = { bytes, files: names.size, pinned, live, gone, kept }
    if (await correctUsage(collections, organizationId, usage, counted)) return
  }
}

/**
 * Recounts the bytes of pinned files without a name, after a name or a pin was removed. A concurrent change of the
 * usage makes it count again, so the last count includes all changes.
 */
export async function countPinned(
  collections: Collections,
  organizationId: number,
  store: UploadStore,
): Promise<void> {
  for (let tries = 0; tries < maxPinnedCounts; tries += 1) {
    const usage = await readUsage(collections, organizationId)
    if (usage === null) return
    const hasNoImports = (usage.imports ?? []).length === 0
    const pinned = hasNoImports
      ? 0
      : await store.countPinned(await listImportsWithPins(collections, organizationId))
    if (pinned === (usage.pinned ?? 0) || (await setPinned(collections, usage, pinned))) return
  }
}
