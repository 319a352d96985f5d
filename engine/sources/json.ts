import { ImportError } from '../../shared/errors.ts'
import { stagedSource } from '../../shared/staging/staging.ts'
import type { Source } from './source.ts'

/** Inline content was staged by the control plane before the import existed: there is nothing to bring. */
export const jsonSource: Source = async (document, { staging }) => {
  const name = stagedSource(document._id)
  const file = await staging.open(name)
  if (file === null)
    throw new ImportError(
      'source_missing',
      'the inline content is no longer staged: was DATA_DIR/staging emptied, or do control plane and engine not share DATA_DIR?',
    )
  await file.close()
  return name
}
