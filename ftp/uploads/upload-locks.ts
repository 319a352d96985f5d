import { isDuplicateKey } from '../../shared/runtime/database.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'

/**
 * Who uploads which file, by the database's clock. An FTP process holds a lock by its token; see
 * shared/contract/schemas/upload-lock.ts.
 */

/** The upload of a dead process can be gone on with after this time. */
export const uploadLeaseMs = 15_000
export const uploadRenewalMs = 4_000

const leaseEnd = { $add: ['$$NOW', uploadLeaseMs] }

export interface UploadLockHolder {
  /** `<organization id>/<file name>` */
  id: string
  token: string
}

/**
 * Takes the lock. `left` when somebody had it who didn't give it back, and who may wake up yet; null when somebody
 * has it.
 */
export async function takeUploadLock(
  { uploadLocks }: Collections,
  { id, token }: UploadLockHolder,
): Promise<'free' | 'left' | null> {
  const { matchedCount } = await uploadLocks.updateOne(
    { _id: id, $expr: { $lt: ['$lease_until', '$$NOW'] } },
    [{ $set: { token, lease_until: leaseEnd } }],
  )
  if (matchedCount === 1) return 'left'
  try {
    // With another's token there it matches nothing, and inserting is refused.
    await uploadLocks.updateOne({ _id: id, token }, [{ $set: { lease_until: leaseEnd } }], { upsert: true })
    return 'free'
  } catch (error) {
    if (isDuplicateKey(error)) return null
    throw error
  }
}

/** Whether somebody alive has the lock. */
export async function isUploadLocked({ uploadLocks }: Collections, id: string): Promise<boolean> {
  return (await uploadLocks.findOne({ _id: id, $expr: { $gte: ['$lease_until', '$$NOW'] } })) !== null
}

/** False when it is another's, or nobody's, by now. */
export async function renewUploadLock(
  { uploadLocks }: Collections,
  { id, token }: UploadLockHolder,
): Promise<boolean> {
  const { matchedCount } = await uploadLocks.updateOne({ _id: id, token }, [
    { $set: { lease_until: leaseEnd } },
  ])
  return matchedCount === 1
}

/** By its holder; nothing when it is another's by now. */
export async function releaseUploadLock(
  { uploadLocks }: Collections,
  { id, token }: UploadLockHolder,
): Promise<void> {
  await uploadLocks.deleteOne({ _id: id, token })
}
