import { moreThanCaller } from '../../api/authorization.ts'
import { invalid, notFound, refusal } from '../../api/refusal.ts'

export const noUser = notFound('user')
export const moreThanYours = moreThanCaller('a user')
export const emailTaken = invalid(
  (email: string) => `email is taken: there is a user with ${email} already`,
  'jane@example.com',
)
export const noTerms = invalid(
  'terms_and_conditions_version can be only null: this service has no terms and conditions to agree to',
)
export const ownUser = invalid((id: number) => `you cannot delete your own user, which is user ${id}`, 3)
/** One sentence for a wrong password, an unknown, foreign, inactive or locked-out user. */
export const signInRefused = refusal(
  'not_authorized',
  'the email or the password is wrong, or the user is inactive or locked out',
)
