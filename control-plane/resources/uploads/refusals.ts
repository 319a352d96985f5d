import type { UploadRefused } from '../../../shared/storage/uploads/upload-refused.ts'
import { RequestError } from '../../api/request-error.ts'

/** What the upload directory refuses, as replies of the API. Scripts that call `curl -f` see their statuses alone. */

export const noUpload = (filename: string): string => `there is no upload ${JSON.stringify(filename)}`

export const overQuotaRefusal = (limits: { UPLOAD_MAX_MB: number; UPLOAD_MAX_FILES: number }): string =>
  `the upload directory is full: it may have ${limits.UPLOAD_MAX_FILES} files and ${limits.UPLOAD_MAX_MB} MB with what imports have staged (UPLOAD_MAX_FILES and UPLOAD_MAX_MB, of which 0 is without a limit): delete uploads, or ask the operator for a higher limit`

export const diskFullRefusal =
  'the disk of the uploads is full; what came stays as an unfinished upload: resume it later, or tell the operator'

export const isUploadedElsewhere = (filename: string): string =>
  `${JSON.stringify(filename)} is being uploaded by another request or session: try again when that has ended`

export const anotherWriter = (message: string): RequestError =>
  new RequestError('validation_failed', message, { status: 409 })

export const takenOver = (filename: string): string =>
  `another request or session has taken over the upload of ${JSON.stringify(filename)}`

export function toRequestError(
  { code, filename, message }: UploadRefused,
  settings: { UPLOAD_MAX_MB: number; UPLOAD_MAX_FILES: number },
): RequestError {
  switch (code) {
    // The name of a file that can't be is in no directory. A creation checks it before.
    case 'bad_name':
    case 'no_such_file':
      return new RequestError('not_found', noUpload(filename), { status: 404 })
    case 'wrong_start':
      return new RequestError('invalid_request', `Content-Range: ${JSON.stringify(filename)} ${message}`, {
        status: 416,
      })
    case 'locked':
      return anotherWriter(isUploadedElsewhere(filename))
    case 'changed':
      return anotherWriter(
        `${JSON.stringify(filename)} was changed or taken over while the upload began: try again`,
      )
    case 'taken_over':
      return anotherWriter(takenOver(filename))
    case 'over_quota':
      return new RequestError('invalid_request', overQuotaRefusal(settings), { status: 413 })
    case 'disk_full':
      return new RequestError('internal_error', diskFullRefusal, { status: 507, retryAfter: 60 })
  }
}
