import { ImportError } from '../../../shared/contract/errors.ts'
import { stagedContent } from '../../../shared/storage/staging/packed-content.ts'
import { stagedSource } from '../../../shared/storage/staging/staging.ts'
import type { Source } from './source.ts'

/**
 * Inline content was staged by the control plane before the import existed: there is nothing to bring. Control planes
 * of 0.1.0 staged it unpacked.
 */
export const jsonSource: Source = async (document, { staging }) => {
  for (const name of [stagedContent(document._id), stagedSource(document._id)]) {
    const file = await staging.open(name)
    if (file === null) continue
    await file.close()
    return name
  }
  throw new ImportError(
    'source_missing',
    'the inline content is no longer staged: was DATA_DIR/staging emptied, or do control plane and engine not share DATA_DIR?',
    { isMissing: true },
  )
}
