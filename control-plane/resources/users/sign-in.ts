import type { z } from 'zod'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import type { UserDocument } from '../../../shared/contract/schemas/user.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { reaches } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { hashingFor } from './hashing-slots.ts'
import { isPassword, nobodysHash } from './passwords.ts'
import type { signIn } from './schemas.ts'

/**
 * Sign-ins by password, and the lockout. Every refusal has one message and costs the same: one read, one hash, one
 * write, whoever is asked for.
 */
export async function authenticate(
  deps: ControlPlane,
  caller: Caller,
  { email, password }: z.infer<typeof signIn>,
  clientGone: AbortSignal,
): Promise<UserDocument> {
  const { users } = deps.database.collections
  const found = await users.findOne({ email_key: comparisonForm(email.trim()) })
  const user = found !== null && reaches(caller, found.organization_id) ? found : null
  const slotRequest = hashingFor(deps, caller, clientGone)
  const isRight = await isPassword(password, user?.password_hash ?? nobodysHash, slotRequest)
  const after = user === null ? await noteForNobody(deps) : await noteTry(deps, user, isRight)
  if (!isRight || after === null || !after.active || after.locked_until !== null)
    throw new RequestError(
      'not_authorized',
      'the email or the password is wrong, or the user is inactive or locked out',
    )
  return after
}

/**
 * Counts a try, in one write that only counts while the user isn't locked out: of tries in parallel, those whose turn
 * comes after the lockout are refused by it, right ones too. `locked_until` is null afterwards unless it holds. Null
 * when the user is gone or has another password by now.
 */
function noteTry(
  { database, settings }: ControlPlane,
  user: UserDocument,
  isRight: boolean,
): Promise<UserDocument | null> {
  const isLocked = { $gt: ['$locked_until', '$$NOW'] }
  // A lockout that is over has begun the count anew.
  const failures = isRight
    ? 0
    : { $add: [{ $cond: [{ $eq: ['$locked_until', null] }, '$password_failures', 0] }, 1] }
  const lockedUntil = isRight
    ? null
    : {
        $cond: [
          { $gte: [failures, settings.USER_LOCKOUT_FAILURES] },
          { $add: ['$$NOW', settings.USER_LOCKOUT_MINUTES * 60_000] },
          null,
        ],
      }
  return database.collections.users.findOneAndUpdate(
    { _id: user._id, password_hash: user.password_hash },
    [
      {
        $set: {
          password_failures: { $cond: [isLocked, '$password_failures', failures] },
          locked_until: { $cond: [isLocked, '$locked_until', lockedUntil] },
          // Written in any case: a refusal by the lockout would be quicker otherwise.
          password_tried_at: '$$NOW',
        },
      },
    ],
    { returnDocument: 'after' },
  )
}

/** The write that a try for a user costs, for one whom there isn't. */
async function noteForNobody({ database }: ControlPlane): Promise<null> {
  await database.collections.counters.updateOne(
    { _id: 'sign_in_for_nobody' },
    { $inc: { next: 1 } },
    { upsert: true },
  )
  return null
}

/** Ends a lockout and forgets the failures that were counted; resolves to whether there was a lockout. */
export async function resetLockout({ database }: ControlPlane, user: UserDocument): Promise<boolean> {
  const { users } = database.collections
  const cleared = { $set: { password_failures: 0, locked_until: null } }
  const isLocked = { $gt: ['$locked_until', '$$NOW'] }
  const { modifiedCount } = await users.updateOne({ _id: user._id, $expr: isLocked }, cleared)
  if (modifiedCount === 1) return true
  await users.updateOne({ _id: user._id, $expr: { $not: [isLocked] } }, cleared)
  return false
}
