import { findContainer, headBytes } from '../../../shared/containers/container-kind.ts'
import { readRange } from '../../../shared/containers/random-access-file.ts'
import { unpacked, uploadBound } from '../../../shared/containers/unpack.ts'
import { ImportError } from '../../../shared/contract/errors.ts'
import type { Source } from './source.ts'

/**
 * The file that was pinned when the import began: what became of its name since has no effect, and its bytes never
 * change. It is read in place, or unpacked into the staging where it is a container.
 */
export const uploadDirectorySource: Source = async (document, context) => {
  const { filename } = document.source
  const { staging, target, uploads, signal, spool } = context
  const { _id: importId, organization_id: organizationId } = document
  const blob = document.pinned ?? (await uploads.pin({ organizationId, name: filename, importId }))?.blob
  const file = blob === undefined ? null : await staging.open(blob)
  if (blob === undefined || file === null) throw missing(filename, { isPinned: blob !== undefined })
  try {
    const head = Buffer.alloc(headBytes)
    if (findContainer(head.subarray(0, await file.read(head, 0))) === null) return blob
    const what = JSON.stringify(filename)
    const bound = uploadBound(file.size, what)
    const bytes = readRange(file, { start: 0, end: file.size, signal })
    await staging.write(target, unpacked(bytes, { ...{ what, signal, bound, spool }, file }))
    return target
  } finally {
    await file.close()
  }
}

const missing = (filename: string, { isPinned }: { isPinned: boolean }) =>
  new ImportError(
    'source_missing',
    isPinned
      ? `the file ${JSON.stringify(filename)} that was kept for the import is gone: was DATA_DIR/uploads emptied?`
      : `there is no file ${JSON.stringify(filename)} in the upload directory: upload it and create the import again`,
    { isMissing: isPinned },
  )
