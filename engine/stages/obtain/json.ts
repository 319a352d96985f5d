import { ImportError } from '../../../shared/contract/errors.ts'
import { stagedContent } from '../../../shared/storage/staging/packed-content.ts'
import { stagedSource } from '../../../shared/storage/staging/staging.ts'
import type { Source } from './source.ts'

/** The control plane stages inline content before it creates the import. Control planes of 0.1.0 stage it unpacked. */
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
