import { moreThanCaller } from '../../api/authorization.ts'
import { invalid, notFound } from '../../api/refusal.ts'

export const noApiKey = notFound('API key')
export const moreThanYours = moreThanCaller('an API key')
export const noSuchUser = invalid(
  (organizationId: number) => `user_id names no user of organization ${organizationId}`,
  2,
)

export const uploadsOnly = invalid('uploads_folder can be given with the role uploads alone')
export const noUserWithUploads = invalid(
  'a key with the role uploads belongs to no user: leave user_id out, or set it to null',
)
export const otherCase = invalid(
  (folder: string, present: string) =>
    `uploads_folder ${JSON.stringify(folder)} differs from the folder ${JSON.stringify(present)} of another key in case alone: write it as that one`,
  'ACME',
  'acme',
)
export const isFile = invalid(
  (folder: string) =>
    `uploads_folder ${JSON.stringify(folder)} is the name of a file in the upload directory: rename or delete that first`,
  'acme',
)
