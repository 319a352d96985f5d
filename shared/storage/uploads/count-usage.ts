import type { Collections } from '../../contract/schemas/collections.ts'
import { compareEntries, enterMissing, listImportsWithPins, setPinned } from '../../store/staged-usage.ts'
import { correctUsage, listLiveUploads, readUsage } from '../../store/upload-usage.ts'
import type { UploadStore } from './upload-store.ts'

/**
 * Counts what an organization keeps with us, in the place of the figures that are kept as it changes: when there are
 * none yet, when they are old, and before anything is refused, because processes may have been killed meanwhile.
 */

/** Counting meets changes; it is tried so often, and what is known holds otherwise. */
const maxCounts = 3
/** They are few, and counted fast. */
const maxPinnedCounts = 20

/** For all of the process that want it now, once. */
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

const counts = new WeakMap<Collections, Map<number, Promise<void>>>()

/** Leaves the figures as they are when others change them each time that they are counted. */
async function countNow(collections: Collections, organizationId: number, store: UploadStore): Promise<void> {
  for (let tries = 0; tries < maxCounts; tries += 1) {
    const usage = await readUsage(collections, organizationId)
    const uploads = await listLiveUploads(collections, usage)
    const { finished, unfinished } = await store.count()
    const pinned = await store.countPinned(await listImportsWithPins(collections, organizationId))
    const { gone, kept, missing } = await compareEntries(collections, organizationId, usage)
    // What an upload in progress has is in its reservation.
    for (const { name } of uploads) unfinished.delete(name)
    const names = new Set([...finished.keys(), ...unfinished.keys()])
    for (const { name, files } of uploads) if (files === 0) names.add(name)
    const bytes = [...finished.values(), ...unfinished.values()].reduce((sum, size) => sum + size, 0)
    const live = uploads.map(({ token }) => token)
    const counted = { bytes, files: names.size, pinned, live, gone, kept }
    if (!(await correctUsage(collections, organizationId, usage, counted))) continue
    await enterMissing(collections, organizationId, missing)
    return
  }
}

/**
 * Counts anew what imports keep although no name leads to it any more: after a name went, or an import gave its file
 * back. Whoever changes figures meanwhile makes it count again, so the last one to count has seen all.
 */
export async function countPinned(
  collections: Collections,
  organizationId: number,
  store: UploadStore,
): Promise<void> {
  for (let tries = 0; tries < maxPinnedCounts; tries += 1) {
    const usage = await readUsage(collections, organizationId)
    if (usage === null) return
    const isNone = (usage.imports ?? []).length === 0
    const pinned = isNone
      ? 0
      : await store.countPinned(await listImportsWithPins(collections, organizationId))
    if (pinned === (usage.pinned ?? 0) || (await setPinned(collections, usage, pinned))) return
  }
}
