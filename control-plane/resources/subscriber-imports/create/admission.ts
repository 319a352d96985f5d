import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import type { InlineContent } from '../../../api/body/staged-content.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { importOverQuota, tooManyImports } from '../refusals.ts'

/** Whether the organization can have one more import: its quota in bytes, and the number of its unfinished imports. */

/** Counts the import to its organization's quota. Throws 413 over the quota, and 429 where too many are unfinished. */
export async function admitImport(
  { stagedQuota, settings }: ControlPlane,
  { content }: { content: InlineContent | null },
  { _id, organization_id, source }: ImportDocument,
): Promise<void> {
  const bytes = source.type === 'json' && content !== null ? content.bytes : 0
  const outcome = await stagedQuota.enter(organization_id, _id, bytes)
  if (outcome === 'over_quota') throw importOverQuota(settings.UPLOAD_MAX_MB)
  if (outcome === 'too_many_imports') throw tooManyImports(settings.IMPORTS_MAX_UNFINISHED)
}

/** For an import that was not created after all. A failure is ignored: the quota is recounted before it refuses anything. */
export async function removeQuotaEntry(
  { stagedQuota }: ControlPlane,
  document: ImportDocument,
): Promise<void> {
  await stagedQuota.removeEntry(document).catch(() => undefined)
}
