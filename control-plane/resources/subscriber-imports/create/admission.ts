import { RequestError } from '../../../api/request-error.ts'
import { stagedContent } from '../../../../shared/storage/staging/packed-content.ts'
import { DiskReserveReached } from '../../../../shared/storage/staging/disk-reserve.ts'
import { isStagingFull, type Staging } from '../../../../shared/storage/staging/staging.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import type { InlineContent } from '../../../api/body/parse-body.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { importOverQuota, noSpaceRefusal, tooManyImports } from '../refusals.ts'

/**
 * Counts the import to its organization's quota in bytes and to the number of its unfinished imports, and stages inline
 * content that isn't in its document, under the id that the import will have. Throws 413 over the quota, 429 where too
 * many are unfinished, and 507 where the disk is full.
 */
export async function admitImport(
  deps: ControlPlane,
  { content }: { content: InlineContent | null },
  document: ImportDocument,
): Promise<void> {
  const { stagedQuota, settings } = deps
  const packed = document.source.type === 'json' ? content?.packed : undefined
  const outcome = await stagedQuota.enter(document.organization_id, document._id, packed?.length ?? 0)
  if (outcome === 'over_quota') throw importOverQuota(settings.UPLOAD_MAX_MB)
  if (outcome === 'too_many_imports') throw tooManyImports(settings.IMPORTS_MAX_UNFINISHED)
  if (packed === undefined) return
  try {
    if (document.content === undefined)
      await deps.staging.write(stagedContent(document._id), asStream(packed))
    else await requireSpace(deps.staging)
  } catch (error) {
    await withdrawImport(deps, document)
    if (!isStagingFull(error)) throw error
    throw new RequestError('internal_error', noSpaceRefusal, { status: 507, retryAfter: 60, cause: error })
  }
}

async function requireSpace(staging: Staging): Promise<void> {
  const problem = await staging.spaceProblem()
  if (problem !== null) throw new DiskReserveReached(problem)
}

async function* asStream(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/**
 * For an import that was not created after all. Failures are ignored: an hour later the entry goes before anything is
 * refused, and the engines' sweep removes it and content without an import.
 */
export async function withdrawImport(
  { stagedQuota, staging }: ControlPlane,
  document: ImportDocument,
): Promise<void> {
  await staging.removeImport(document._id).catch(() => undefined)
  await stagedQuota.removeEntry(document).catch(() => undefined)
}
