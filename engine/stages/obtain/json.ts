import { ImportError } from '../../../shared/contract/errors.ts'
import { stagedContent } from '../../../shared/storage/staging/packed-content.ts'
import type { Source } from './source.ts'

/** The control plane stores inline content in the import's document, or stages it before it creates the import. */
export const jsonSource: Source = async (document, { staging }) => {
  const name = stagedContent(document._id)
  const file = await staging.open(name)
  if (file !== null) {
    await file.close()
    return name
  }
  throw new ImportError(
    'source_missing',
    'the inline content is no longer staged: was DATA_DIR/staging emptied, or do control plane and engine not share DATA_DIR?',
    { isMissing: true },
  )
}
