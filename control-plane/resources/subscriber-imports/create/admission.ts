import { RequestError } from '../../../api/request-error.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import type { InlineContent } from '../../../api/body/staged-content.ts'
import type { ControlPlane } from '../../../control-plane.ts'

/** Whether the organization can have one more import: its quota in bytes, and the number of its unfinished imports. */

export const importOverQuota = (megabytes: number): string =>
  `the content does not fit into the organization's quota of ${megabytes} MB, which its uploads, the files of its unfinished imports and the failed rows of the last 7 days share, and nothing was created: remove uploads, cancel imports or let them end, and create the import again`

export const tooManyImportsRefusal = (max: number): string =>
  `the organization has ${max} imports that are not finished, failed or cancelled, and may not have more; nothing was created: cancel some or let them end, and create the import again`

/** Counts the import to its organization's quota. Throws 413 over the quota, and 429 where too many are unfinished. */
export async function admitImport(
  { stagedQuota, settings }: ControlPlane,
  { content }: { content: InlineContent | null },
  { _id, organization_id, source }: ImportDocument,
): Promise<void> {
  const bytes = source.type === 'json' && content !== null ? content.bytes : 0
  const outcome = await stagedQuota.enter(organization_id, _id, bytes)
  if (outcome === 'over_quota')
    throw new RequestError('invalid_request', importOverQuota(settings.UPLOAD_MAX_MB), { status: 413 })
  if (outcome === 'too_many_imports')
    throw new RequestError('not_authorized', tooManyImportsRefusal(settings.IMPORTS_MAX_UNFINISHED), {
      status: 429,
      retryAfter: 60,
    })
}

/** For an import that was not created after all. A failure is ignored: the quota is recounted before it refuses anything. */
export async function removeQuotaEntry(
  { stagedQuota }: ControlPlane,
  document: ImportDocument,
): Promise<void> {
  await stagedQuota.removeEntry(document).catch(() => undefined)
}
