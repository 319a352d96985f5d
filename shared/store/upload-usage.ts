import { isDuplicateKey } from '../runtime/driver-errors.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { UploadUsageDocument } from '../contract/schemas/upload.ts'
import { decimalMegabyte } from '../values/byte-sizes.ts'

/**
 * Usage of the upload directories, and their limits. Uploads reserve as they write. Each reservation is one guarded
 * write of the organization's usage, so concurrent sessions on all machines stay within the limits together. The same
 * document has the staged bytes of imports (staged-usage.ts).
 */

/** `Infinity` means no limit. */
export interface UploadLimits {
  files: number
  bytes: number
}

export const isUnlimited = ({ files, bytes }: UploadLimits): boolean =>
  files === Infinity && bytes === Infinity

type Reservation = UploadUsageDocument['uploads'][number]

/** An expression: the bytes that the imports of an organization have staged. */
export const stagedBytes = {
  $add: [{ $sum: '$imports.source' }, { $sum: '$imports.partition' }, { $ifNull: ['$pinned', 0] }],
}

const totals = {
  bytes: { $add: ['$bytes', { $sum: '$uploads.bytes' }, stagedBytes, { $ifNull: ['$kept', 0] }] },
  files: { $add: ['$files', { $sum: '$uploads.files' }] },
}

/** Conditions for the usage to stay within the limits. A limit of Infinity, which is no BSON integer, has none. */
export function limitConditions(
  more: { bytes: number; files: number },
  limits: UploadLimits,
): Record<string, unknown>[] {
  return (['bytes', 'files'] as const)
    .filter((field) => limits[field] !== Infinity && more[field] > 0)
    .map((field) => ({ $lte: [{ $add: [totals[field], more[field]] }, limits[field]] }))
}

/** The settings as limits; 0 means no limit. */
export const uploadLimits = (settings: {
  UPLOAD_MAX_FILES: number
  UPLOAD_MAX_MB: number
}): UploadLimits => ({
  files: settings.UPLOAD_MAX_FILES === 0 ? Infinity : settings.UPLOAD_MAX_FILES,
  bytes: settings.UPLOAD_MAX_MB === 0 ? Infinity : settings.UPLOAD_MAX_MB * decimalMegabyte,
})

/** An expression: the usage was counted at most this long ago, by the database's clock. `Infinity` allows any age. */
export const countedWithin = (maxAgeMs: number) => ({
  $gt: ['$counted_at', maxAgeMs === Infinity ? new Date(0) : { $subtract: ['$$NOW', maxAgeMs] }],
})

/** The usage, and the database's time: the process's clock must not be compared with times in the document. */
export type UsageNow = UploadUsageDocument & { now: Date }

/** Null when the organization has no usage yet. */
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
 * Adds the reservation of an upload, and resolves to the time at which the usage was last counted. `moved` are bytes
 * that were counted for the name and belong to the reservation from now on. Null when a limit would be exceeded, and
 * when the usage was counted longer than `maxAgeMs` ago or never.
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
          ...limitConditions({ bytes: reservation.bytes - moved, files: reservation.files }, limits),
        ],
      },
    },
    { $inc: { bytes: -moved, revision: 1 }, $push: { uploads: reservation } },
    { projection: { counted_at: 1 } },
  )
  return usage?.counted_at ?? null
}

/** Adds bytes to the reservation of an upload. False when the limit would be exceeded, or the reservation is gone. */
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
      $expr: { $and: limitConditions({ bytes, files: 0 }, limits) },
    },
    // A count doesn't depend on reservations, so the revision stays.
    { $inc: { 'uploads.$.bytes': bytes } },
  )
  return matchedCount === 1
}

/**
 * Replaces the reservation of an ended upload by its change of bytes and files. `seen` is the last count before it
 * ended. A later count may include the upload already, and then a decrease is not subtracted a second time. A usage
 * that is too high does no harm, because it is counted again before an upload is refused.
 */
export async function endUpload(
  { uploadUsage }: Collections,
  organizationId: number,
  { token, change, seen }: { token: string; change: { bytes: number; files: number }; seen: Date },
): Promise<void> {
  const $pull = { uploads: { token } }
  const { matchedCount } = await uploadUsage.updateOne(
    { _id: organizationId, 'uploads.token': token, counted_at: seen },
    { $inc: { ...change, revision: 1 }, $pull },
  )
  if (matchedCount === 1) return
  const { bytes, files } = change
  const more = { bytes: Math.max(0, bytes), files: Math.max(0, files) }
  await uploadUsage.updateOne({ _id: organizationId }, { $inc: { ...more, revision: 1 }, $pull })
}

/** Subtracts removed or replaced files. False, without a change, when a count since `seen` may have done so already. */
export async function freeUsage(
  { uploadUsage }: Collections,
  organizationId: number,
  change: { bytes: number; files: number },
  seen: Date,
): Promise<boolean> {
  const { matchedCount } = await uploadUsage.updateOne(
    { _id: organizationId, counted_at: seen },
    { $inc: { ...change, revision: 1 } },
  )
  return matchedCount === 1
}

/** Makes the last count too old for an upload, so that the directory is counted again first. */
export async function expireUsage({ uploadUsage }: Collections, organizationId: number): Promise<void> {
  const counted_at = new Date(0)
  await uploadUsage.updateOne({ _id: organizationId }, { $set: { counted_at }, $inc: { revision: 1 } })
}

/** Adds a file name, before it is created. False when the limit would be exceeded. */
export async function addName(
  { uploadUsage }: Collections,
  organizationId: number,
  limits: UploadLimits,
): Promise<boolean> {
  const { matchedCount } = await uploadUsage.updateOne(
    { _id: organizationId, $expr: { $and: limitConditions({ bytes: 0, files: 1 }, limits) } },
    { $inc: { files: 1, revision: 1 } },
  )
  return matchedCount === 1
}

/** Reservations whose upload lock has a valid lease. Those of killed processes are left out. */
export async function listLiveUploads(
  { uploadLocks }: Collections,
  usage: UploadUsageDocument | null,
): Promise<Reservation[]> {
  if (usage === null || usage.uploads.length === 0) return []
  const ids = usage.uploads.map(({ name }) => `${usage._id}/${name}`)
  // `distinct` does not support $$NOW.
  const locks = await uploadLocks
    .find({ _id: { $in: ids }, $expr: { $gte: ['$lease_until', '$$NOW'] } }, { projection: { token: 1 } })
    .toArray()
  const alive = new Set(locks.map(({ token }) => token))
  return usage.uploads.filter(({ token }) => alive.has(token))
}

/**
 * Replaces the usage by a new count. An optimistic lock: false when it has changed since `read`. Reservations stay
 * only for the tokens in `live`. The entries of the imports in `gone` are removed, and their `kept` bytes are added.
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
    // No document has a negative revision: this inserts one, or fails because there is one by now.
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
