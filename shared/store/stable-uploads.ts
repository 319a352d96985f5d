import type { Collections } from '../contract/schemas/collections.ts'
import { dayMs } from '../values/durations.ts'

/** Files in upload directories on disk that are complete, by their fingerprints. */

type StableUploads = Pick<Collections, 'settledUploads'>

const entryId = (organizationId: number, fingerprint: string): string => `${organizationId}/${fingerprint}`

export async function recordStable(
  { settledUploads }: StableUploads,
  organizationId: number,
  fingerprint: string,
): Promise<void> {
  await settledUploads.updateOne(
    { _id: entryId(organizationId, fingerprint) },
    { $currentDate: { published_at: true } },
    { upsert: true },
  )
}

export async function isStable(
  { settledUploads }: StableUploads,
  organizationId: number,
  fingerprint: string,
): Promise<boolean> {
  return (await settledUploads.findOne({ _id: entryId(organizationId, fingerprint) })) !== null
}

/** The fingerprint of the same content before its time was set; the same one where no time was set. */
export async function originalFingerprint(
  { settledUploads }: StableUploads,
  organizationId: number,
  fingerprint: string,
): Promise<string> {
  const entry = await settledUploads.findOne({ _id: entryId(organizationId, fingerprint) })
  return entry?.original ?? fingerprint
}

/** Imports that were pinned before the time was set compare fingerprints to their end, and may be paused for long. */
const keptMs = 90 * dayMs

/** Records that the time of a stable file is about to be set. */
export async function recordNewTime(
  collections: StableUploads,
  organizationId: number,
  { before, after }: { before: string; after: string },
): Promise<void> {
  const original = await originalFingerprint(collections, organizationId, before)
  await collections.settledUploads.updateOne(
    { _id: entryId(organizationId, after) },
    [{ $set: { published_at: { $add: ['$$NOW', keptMs] }, original: { $literal: original } } }],
    { upsert: true },
  )
}
