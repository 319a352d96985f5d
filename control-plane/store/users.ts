import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { UserDocument } from '../../shared/contract/schemas/user.ts'

/** Writes of `users`. Emails are unique over the installation by an index, whose error passes through. */

export async function insertUser(
  { users }: Collections,
  document: UserDocument,
  session: ClientSession,
): Promise<void> {
  await users.insertOne(document, { session })
}

/** The changed user; null when there is none with that id. */
export function updateUser(
  { users }: Collections,
  id: number,
  fields: Readonly<Record<string, unknown>>,
  session: ClientSession,
): Promise<UserDocument | null> {
  return users.findOneAndUpdate({ _id: id }, { $set: fields }, { session, returnDocument: 'after' })
}

export async function deleteUserDocument(
  { users }: Collections,
  id: number,
  session: ClientSession,
): Promise<void> {
  await users.deleteOne({ _id: id }, { session })
}

const isLockedOut = { $gt: ['$locked_until', '$$NOW'] }

/**
 * Records an attempt to sign in, in one write that counts only while the user isn't locked out. Of parallel attempts,
 * those after the lockout are refused by it, correct ones too. Returns null when the user is gone or has another
 * password by now; `locked_until` of the result is null unless the user is locked out.
 */
export function recordSignInAttempt(
  { users }: Collections,
  { _id, password_hash }: UserDocument,
  attempt: { isCorrect: boolean; maxFailures: number; lockoutMs: number },
): Promise<UserDocument | null> {
  const { isCorrect, maxFailures, lockoutMs } = attempt
  // The first failure after an expired lockout starts the count anew.
  const failures = isCorrect
    ? 0
    : { $add: [{ $cond: [{ $eq: ['$locked_until', null] }, '$password_failures', 0] }, 1] }
  const lockedUntil = isCorrect
    ? null
    : { $cond: [{ $gte: [failures, maxFailures] }, { $add: ['$$NOW', lockoutMs] }, null] }
  return users.findOneAndUpdate(
    { _id, password_hash },
    [
      {
        $set: {
          password_failures: { $cond: [isLockedOut, '$password_failures', failures] },
          locked_until: { $cond: [isLockedOut, '$locked_until', lockedUntil] },
          // Changes in every case: without a change, the refusal of a locked-out user would be measurably faster.
          password_tried_at: '$$NOW',
        },
      },
    ],
    { returnDocument: 'after' },
  )
}

/** Ends a lockout and resets the count of failures. Resolves to whether the user was locked out. */
export async function clearLockout(
  { users }: Collections,
  id: number,
  session: ClientSession,
): Promise<boolean> {
  const cleared = { $set: { password_failures: 0, locked_until: null } }
  const { modifiedCount } = await users.updateOne({ _id: id, $expr: isLockedOut }, cleared, { session })
  if (modifiedCount === 1) return true
  await users.updateOne({ _id: id, $expr: { $not: [isLockedOut] } }, cleared, { session })
  return false
}

/** Costs the same write as the failed sign-in of an existing user, so that no time tells which emails are known. */
export async function countUnknownSignIn({ counters }: Collections): Promise<void> {
  await counters.updateOne({ _id: 'sign_in_for_nobody' }, { $inc: { next: 1 } }, { upsert: true })
}
