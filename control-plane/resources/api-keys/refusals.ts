import { moreThanCaller } from '../../api/authorization.ts'
import { invalid, notFound } from '../../api/refusal.ts'

export const noApiKey = notFound('API key')
export const moreThanYours = moreThanCaller('an API key')
export const noSuchUser = invalid(
  (organizationId: number) => `user_id names no user of organization ${organizationId}`,
  2,
)
