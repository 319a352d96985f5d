import { moreThanCaller } from '../../api/authorization.ts'

export const moreThanYours = moreThanCaller('a user')
