import type { z } from 'zod'
import type { Caller } from '../../../shared/store/api-keys.ts'
import type { UserDocument } from '../../../shared/contract/schemas/user.ts'
import { visibleEmail } from '../../../shared/values/email.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { canAccess } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { countUnknownSignIn, recordSignInAttempt } from '../../store/users.ts'
import { hashingSlot, isPassword, unmatchableHash } from './passwords.ts'
import { signInRefused } from './refusals.ts'
import type { signIn } from './schemas.ts'

/**
 * Signs in by password. All refusals have the same message and the same cost (one read, one hash, one write), so that
 * callers can't find out which users exist: medians of 120 attempts are 157 to 178 ms for a wrong password, an unknown, a
 * foreign, an inactive and a locked-out user. An attempt is counted after its hash. Counted before it, right passwords
 * would be refused when a user signs in several times at once.
 */
export async function authenticate(
  deps: ControlPlane,
  caller: Caller,
  { email, password }: z.infer<typeof signIn>,
  clientGone: AbortSignal,
): Promise<UserDocument> {
  const { settings, database } = deps
  const { collections } = database
  const found = await collections.users.findOne({ email_key: comparisonForm(visibleEmail(email.trim())) })
  const user = found !== null && canAccess(caller, found.organization_id) ? found : null
  const isCorrect = await isPassword(
    password,
    user?.password_hash ?? unmatchableHash,
    hashingSlot(deps, caller, clientGone),
  )
  if (user === null) await countUnknownSignIn(collections)
  const updated =
    user === null
      ? null
      : await recordSignInAttempt(collections, user, {
          isCorrect,
          maxFailures: settings.USER_LOCKOUT_FAILURES,
          lockoutMs: settings.USER_LOCKOUT_MINUTES * 60_000,
        })
  if (!isCorrect || updated === null || !updated.active || updated.locked_until !== null)
    throw signInRefused()
  return updated
}
