import { isDuplicateKey } from '../runtime/driver-errors.ts'
import type { Collections } from '../contract/schemas/collections.ts'

/**
 * The locks of uploads: leases in the database, by its clock, with a fencing token. See
 * shared/contract/schemas/upload.ts.
 */

/** After this time the upload of a dead process can be resumed. */
export const uploadLeaseMs = 15_000
export const uploadRenewalMs = 4_000

const leaseEnd = { $add: ['$$NOW', uploadLeaseMs] }

export interface UploadLockHolder {
  /** `<organization id>/<file name>` */
  id: string
  token: string
}

/**
 * Acquires the lock, unless it has another holder: then null. `expired`: the previous holder didn't release it, and it
 * may resume, as after a suspension of its process.
 */
export async function acquireUploadLock(
  { uploadLocks }: Collections,
  { id, token }: UploadLockHolder,
): Promise<'free' | 'expired' | null> {
  const { matchedCount } = await uploadLocks.updateOne(
    { _id: id, $expr: { $lt: ['$lease_until', '$$NOW'] } },
    [{ $set: { token, lease_until: leaseEnd } }],
  )
  if (matchedCount === 1) return 'expired'
  try {
    // With another token in the document the filter matches nothing, and the insert fails on the duplicate id.
    await uploadLocks.updateOne({ _id: id, token }, [{ $set: { lease_until: leaseEnd } }], { upsert: true })
    return 'free'
  } catch (error) {
    if (isDuplicateKey(error)) return null
    throw error
  }
}

/** Whether the lock has a holder whose lease hasn't expired. */
export async function isUploadLocked({ uploadLocks }: Collections, id: string): Promise<boolean> {
  return (await uploadLocks.findOne({ _id: id, $expr: { $gte: ['$lease_until', '$$NOW'] } })) !== null
}

/** False when the lock was lost to another holder, or is gone. */
export async function renewUploadLock(
  { uploadLocks }: Collections,
  { id, token }: UploadLockHolder,
): Promise<boolean> {
  const { matchedCount } = await uploadLocks.updateOne({ _id: id, token }, [
    { $set: { lease_until: leaseEnd } },
  ])
  return matchedCount === 1
}

/** Ends the lease, so that the next holder acquires the lock as `expired`. Changes nothing when the lock was lost. */
export async function expireUploadLock(
  { uploadLocks }: Collections,
  { id, token }: UploadLockHolder,
): Promise<void> {
  await uploadLocks.updateOne({ _id: id, token }, { $set: { lease_until: new Date(0) } })
}

/** Changes nothing when the lock was lost to another holder. */
export async function releaseUploadLock(
  { uploadLocks }: Collections,
  { id, token }: UploadLockHolder,
): Promise<void> {
  await uploadLocks.deleteOne({ _id: id, token })
}
