import type { UploadRefused } from '../../../shared/storage/uploads/upload-refused.ts'
import { refusal } from '../../api/refusal.ts'
import type { RequestError } from '../../api/request-error.ts'

/** What the upload directory refuses, as replies of the API. Scripts that call `curl -f` see their statuses alone. */

const badRequest = { code: 'invalid_request', status: 400 } as const
const badRange = { code: 'invalid_request', status: 416 } as const
const anotherWriter = { code: 'validation_failed', status: 409 } as const

export const noUpload = refusal(
  { code: 'not_found', status: 404 },
  (filename: string) => `there is no upload ${JSON.stringify(filename)}`,
  'subscribers.csv',
)

export const badName = refusal(
  { code: 'validation_failed', status: 422 },
  (problem: string) => `filename ${problem}`,
  'must be a plain file name without a path',
)

export const isFolder = refusal(
  { code: 'validation_failed', status: 422 },
  (filename: string) => `filename ${JSON.stringify(filename)} is the name of a folder: choose another one`,
  'acme',
)

export const noSuchFolder = refusal(
  { code: 'validation_failed', status: 422 },
  (filename: string) =>
    `filename ${JSON.stringify(filename)} is in no folder that there is: a folder is there while an API key has it as uploads_folder, or a file lies in it`,
  'acme/subscribers.csv',
)

export const badContentRange = refusal(
  badRequest,
  'Content-Range must be "bytes FIRST-LAST/TOTAL", such as "bytes 1000-1999/5000", with FIRST up to LAST and LAST below TOTAL',
)

export const wrongLength = refusal(
  badRequest,
  (contentLength: number, length: number) =>
    `Content-Length is ${contentLength}, and Content-Range has ${length} bytes: send as many bytes as the range has`,
  500,
  1_000,
)

/** An unfinished upload that has all its bytes can't be resumed, as no range is left to send. */
export const wrongBodyLength = refusal(
  badRequest,
  (than: 'more' | 'fewer', end: number, total: number) =>
    `the body has ${than} bytes than Content-Range says; the upload stays unfinished: ${end === total ? 'send the whole file again' : `resume it at byte ${end}`}`,
  'fewer',
  1_500,
  5_000,
)

export const wrongStart = refusal(
  badRange,
  (filename: string, reason: string) => `Content-Range: ${JSON.stringify(filename)} ${reason}`,
  'subscribers.csv',
  'has an unfinished upload of 1000 bytes, so it resumes at byte 1000, not 0',
)

export const beyondEnd = refusal(
  badRange,
  (filename: string, size: number) =>
    size === 0
      ? `${JSON.stringify(filename)} is empty: leave Range out`
      : `${JSON.stringify(filename)} has ${size} bytes: Range must name at least one of them, from 0 to ${size - 1}`,
  'subscribers.csv',
  48_213,
)

export const isUploadedElsewhere = refusal(
  anotherWriter,
  (filename: string) =>
    `${JSON.stringify(filename)} is being uploaded by another request or session: try again when that has ended`,
  'subscribers.csv',
)

export const takenOver = refusal(
  anotherWriter,
  (filename: string) => `another request or session has taken over the upload of ${JSON.stringify(filename)}`,
  'subscribers.csv',
)

const changedMeanwhile = refusal(
  anotherWriter,
  (filename: string) =>
    `${JSON.stringify(filename)} was changed or taken over while the upload began: try again`,
  'subscribers.csv',
)

export const overQuota = refusal(
  { code: 'invalid_request', status: 413 },
  (limits: { UPLOAD_MAX_MB: number; UPLOAD_MAX_FILES: number }) =>
    `the upload directory is full: it may have ${limits.UPLOAD_MAX_FILES} files and ${limits.UPLOAD_MAX_MB} MB with what imports have staged (UPLOAD_MAX_FILES and UPLOAD_MAX_MB, of which 0 is without a limit): delete uploads, or ask the operator for a higher limit`,
  { UPLOAD_MAX_FILES: 10_000, UPLOAD_MAX_MB: 10_240 },
)

export const diskFull = refusal(
  { code: 'internal_error', status: 507, retryAfter: 60 },
  'the disk of the uploads is full; what came stays as an unfinished upload: resume it later, or tell the operator',
)

export function toRequestError(
  { code, filename, message }: UploadRefused,
  settings: { UPLOAD_MAX_MB: number; UPLOAD_MAX_FILES: number },
): RequestError {
  switch (code) {
    // The name of a file that can't be is in no directory. A creation checks it before.
    case 'bad_name':
    case 'no_such_file':
      return noUpload(filename)
    case 'is_folder':
      return isFolder(filename)
    case 'no_such_folder':
      return noSuchFolder(filename)
    case 'wrong_start':
      return wrongStart(filename, message)
    case 'locked':
      return isUploadedElsewhere(filename)
    case 'changed':
      return changedMeanwhile(filename)
    case 'taken_over':
      return takenOver(filename)
    case 'over_quota':
      return overQuota(settings)
    case 'disk_full':
      return diskFull()
  }
}
