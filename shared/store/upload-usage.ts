import { isDuplicateKey } from '../runtime/database.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { UploadUsageDocument } from '../contract/schemas/upload.ts'

/**
 * What upload directories hold, against their limits. Uploads reserve as they write; each reservation is one guarded
 * write of the organization's figures, so that any number of sessions on any machines stay within the limits together.
 * What imports have staged is part of the same figures (staged-usage.ts).
 */

/** `Infinity` is without a limit. */
export interface UploadLimits {
  files: number
  bytes: number
}

export const isUnlimited = ({ files, bytes }: UploadLimits): boolean =>
  files === Infinity && bytes === Infinity

type Reservation = UploadUsageDocument['uploads'][number]

/** Of an organization's figures: what its imports have staged. */
export const stagedBytes = {
  $add: [{ $sum: '$imports.source' }, { $sum: '$imports.partition' }, { $ifNull: ['$pinned', 0] }],
}

const total = {
  bytes: { $add: ['$bytes', { $sum: '$uploads.bytes' }, stagedBytes, { $ifNull: ['$kept', 0] }] },
  files: { $add: ['$files', { $sum: '$uploads.files' }] },
}

/** Only the limits that there are: Infinity is no BSON integer. */
export function fits(
  more: { bytes: number; files: number },
  limits: UploadLimits,
): Record<string, unknown>[] {
  return (['bytes', 'files'] as const)
    .filter((field) => limits[field] !== Infinity && more[field] > 0)
    .map((field) => ({ $lte: [{ $add: [total[field], more[field]] }, limits[field]] }))
}

/** The settings as limits; 0 is none. */
export const uploadLimits = (settings: {
  UPLOAD_MAX_FILES: number
  UPLOAD_MAX_MB: number
}): UploadLimits => ({
  files: settings.UPLOAD_MAX_FILES === 0 ? Infinity : settings.UPLOAD_MAX_FILES,
  bytes: settings.UPLOAD_MAX_MB === 0 ? Infinity : settings.UPLOAD_MAX_MB * 1_000_000,
})

/** An expression: the figures were counted, and no longer ago than this, by the database's clock; `Infinity` is ever. */
export const countedWithin = (maxAgeMs: number) => ({
  $gt: ['$counted_at', maxAgeMs === Infinity ? new Date(0) : { $subtract: ['$$NOW', maxAgeMs] }],
})

/** With the database's time: that of the process is not to be compared with the times in it. */
export type UsageNow = UploadUsageDocument & { now: Date }

/** Null when the directory's figures were never counted. */
export async function readUsage(
  { uploadUsage }: Collections,
  organizationId: number,
): Promise<UsageNow | null> {
  const [usage] = await uploadUsage
    .aggregate<UsageNow>([{ $match: { _id: organizationId } }, { $addFields: { now: '$$NOW' } }])
    .toArray()
  return usage ?? null
}

/**
 * Enters an upload with what it needs at once, and resolves to when the figures were counted. `moved` are bytes that
 * were counted for its name before and are the upload's own from here on. Null when that passes a limit, or when the
 * figures are older than `maxAgeMs`, or none.
 */
export async function reserveUpload(
  { uploadUsage }: Collections,
  organizationId: number,
  { reservation, moved, maxAgeMs }: { reservation: Reservation; moved: number; maxAgeMs: number },
  limits: UploadLimits,
): Promise<Date | null> {
  const usage = await uploadUsage.findOneAndUpdate(
    {
      _id: organizationId,
      $expr: {
        $and: [
          countedWithin(maxAgeMs),
          ...fits({ bytes: reservation.bytes - moved, files: reservation.files }, limits),
        ],
      },
    },
    { $inc: { bytes: -moved, revision: 1 }, $push: { uploads: reservation } },
    { projection: { counted_at: 1 } },
  )
  return usage?.counted_at ?? null
}

/** More bytes for an upload. False when that passes the limit, or when it isn't entered any more. */
export async function growUpload(
  { uploadUsage }: Collections,
  organizationId: number,
  { token, bytes }: { token: string; bytes: number },
  limits: UploadLimits,
): Promise<boolean> {
  const { matchedCount } = await uploadUsage.updateOne(
    {
      _id: organizationId,
      'uploads.token': token,
      $expr: { $and: fits({ bytes, files: 0 }, limits) },
    },
    // A count doesn't look at reservations: its revision stays.
    { $inc: { 'uploads.$.bytes': bytes } },
  )
  return matchedCount === 1
}

/**
 * An upload has ended; what is there of it, or gone by it, is counted from here on. `seen`: when the figures were
 * counted last before it ended. A count since then may know of it already: what is gone isn't taken away twice, and
 * figures that are too high are counted anew before they refuse anybody.
 */
export async function endUpload(
  { uploadUsage }: Collections,
  organizationId: number,
  { token, change, seen }: { token: string; change: { bytes: number; files: number }; seen: Date | null },
): Promise<void> {
  const $pull = { uploads: { token } }
  if (seen !== null) {
    const { matchedCount } = await uploadUsage.updateOne(
      { _id: organizationId, 'uploads.token': token, counted_at: seen },
      { $inc: { ...change, revision: 1 }, $pull },
    )
    if (matchedCount === 1) return
  }
  const { bytes, files } = change
  const more = { bytes: Math.max(0, bytes), files: Math.max(0, files) }
  await uploadUsage.updateOne({ _id: organizationId }, { $inc: { ...more, revision: 1 }, $pull })
}

/** Files were removed or replaced; a count since `seen` may know of it already. */
export async function freeUsage(
  { uploadUsage }: Collections,
  organizationId: number,
  change: { bytes: number; files: number },
  seen: Date,
): Promise<void> {
  await uploadUsage.updateOne({ _id: organizationId, counted_at: seen }, { $inc: { ...change, revision: 1 } })
}

/** Before one more name is there. False when that passes the limit. */
export async function addName(
  { uploadUsage }: Collections,
  organizationId: number,
  limits: UploadLimits,
): Promise<boolean> {
  const { matchedCount } = await uploadUsage.updateOne(
    { _id: organizationId, $expr: { $and: fits({ bytes: 0, files: 1 }, limits) } },
    { $inc: { files: 1, revision: 1 } },
  )
  return matchedCount === 1
}

/** Uploads that are entered and whose lock somebody holds; those of killed processes are not among them. */
export async function listLiveUploads(
  { uploadLocks }: Collections,
  usage: UploadUsageDocument | null,
): Promise<Reservation[]> {
  if (usage === null || usage.uploads.length === 0) return []
  const ids = usage.uploads.map(({ name }) => `${usage._id}/${name}`)
  // Not `distinct`, which doesn't know $$NOW.
  const locks = await uploadLocks
    .find({ _id: { $in: ids }, $expr: { $gte: ['$lease_until', '$$NOW'] } }, { projection: { token: 1 } })
    .toArray()
  const alive = new Set(locks.map(({ token }) => token))
  return usage.uploads.filter(({ token }) => alive.has(token))
}

/**
 * Puts counted figures in the place of those that were read before counting; false when they changed meanwhile. Of the
 * uploads only those with the tokens in `live` stay, with what they have reserved by now; the imports in `gone` go, of which
 * `kept` bytes stay until their logs are purged.
 */
export async function correctUsage(
  { uploadUsage }: Collections,
  organizationId: number,
  read: UploadUsageDocument | null,
  {
    live,
    gone,
    kept,
    ...counted
  }: { bytes: number; files: number; pinned: number; live: string[]; gone: number[]; kept: number },
): Promise<boolean> {
  const update = { $set: counted, $currentDate: { counted_at: true } } as const
  if (read !== null) {
    const { matchedCount } = await uploadUsage.updateOne(
      { _id: organizationId, revision: read.revision },
      {
        ...update,
        $inc: { revision: 1, kept },
        $pull: { uploads: { token: { $nin: live } }, imports: { import_id: { $in: gone } } },
      },
    )
    return matchedCount === 1
  }
  try {
    // None has a negative one: it is inserted, or there are figures by now.
    await uploadUsage.updateOne(
      { _id: organizationId, revision: { $lt: 0 } },
      { ...update, $setOnInsert: { revision: 0, uploads: [] } },
      { upsert: true },
    )
    return true
  } catch (error) {
    if (isDuplicateKey(error)) return false
    throw error
  }
}
