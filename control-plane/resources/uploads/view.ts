import type { NamedUpload } from '../../../shared/storage/uploads/upload-directory.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { UploadView } from './schemas.ts'

export function toView({ name, finished, unfinished }: NamedUpload, zoneName: string): UploadView {
  const modifiedAt = (finished ?? unfinished)?.modifiedAt
  if (modifiedAt === undefined) throw new Error('an upload is neither finished nor unfinished')
  return {
    filename: name,
    size: finished?.size ?? null,
    modified_at: formatInstant(modifiedAt, zoneName),
    unfinished_size: unfinished?.size ?? null,
  }
}
