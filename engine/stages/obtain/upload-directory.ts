import { ImportError } from '../../../shared/contract/errors.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { gunzipUpload, isGzipName } from '../../../shared/net/gzip.ts'
import { isSameContent } from '../../../shared/storage/uploads/file-fingerprint.ts'
import type { PinnedUpload, Uploads } from '../../../shared/storage/uploads/upload-store.ts'
import { StillWritten, type Source } from './source.ts'

/**
 * The file that was pinned when the import began: what is done to its name later changes nothing. One that is whole is
 * read where its pin lies, and looked at again when that is done (refuseIfWrittenInto). Of others a copy is taken: what
 * is written in place can't be kept from that, so it must look the same at two looks, and before and after the copy.
 */
export const uploadDirectorySource: Source = async (document, context) => {
  const { filename } = document.source
  const { staging, target, uploads, signal } = context
  const { upload } = document
  // It couldn't be pinned when the import began, or wasn't seen there by the engine that began it; what was found then,
  // still being written, isn't kept either.
  const isToBePinned = !upload?.pin
  const pin = isToBePinned
    ? await uploads.pin({
        organizationId: document.organization_id,
        name: filename,
        importId: document._id,
        signal,
      })
    : upload.pin
  const pinned = pin === null ? null : await uploads.openPin(pin)
  if (pin === null || pinned === null) throw missing(filename, { isPinned: pin !== null })
  try {
    const fingerprint = await pinned.fingerprint()
    if (pin.is_settled) refuseIfChanged(fingerprint, pin.fingerprint, filename)
    else if (!(await seemsWhole(document, pinned, fingerprint))) throw new StillWritten(filename, fingerprint)

    const isAsItIs = pin.is_settled && !isToBePinned && !isGzipName(filename)
    const staged = isAsItIs ? await pinned.staged() : null
    if (staged !== null) return staged

    const content = pinned.content(signal)
    await staging.write(
      target,
      isGzipName(filename)
        ? gunzipUpload(content as AsyncIterable<Buffer>, JSON.stringify(filename))
        : content,
    )
    try {
      const after = await pinned.fingerprint()
      if (pin.is_settled) refuseIfChanged(after, pin.fingerprint, filename)
      else if (after !== fingerprint) throw new StillWritten(filename, after)
    } catch (error) {
      // By its name, which holds this step's token: an engine that was suspended here may no longer hold the step, and
      // the other files are those of the engine that took the step over.
      await staging.remove(target).catch(() => undefined)
      throw error
    }
    return target
  } finally {
    await pinned.close()
    // The pin of this attempt alone: the import names another one, or none.
    if (isToBePinned) await uploads.releasePin(pin).catch(() => undefined)
  }
}

/**
 * For a file that was read where its pin lies, `staged`: that it was what was pinned from the first byte to the last.
 * Throws an import's error when it was written into, or is gone.
 */
export async function refuseIfWrittenInto(
  { source, upload }: ImportDocument,
  staged: string,
  uploads: Uploads,
): Promise<void> {
  const pin = upload?.pin ?? null
  if (pin?.reference !== staged) return
  const pinned = await uploads.openPin(pin)
  if (pinned === null) throw missing(source.filename, { isPinned: true })
  try {
    refuseIfChanged(await pinned.fingerprint(), pin.fingerprint, source.filename)
  } finally {
    await pinned.close()
  }
}

async function seemsWhole(
  { upload }: ImportDocument,
  pinned: PinnedUpload,
  fingerprint: string,
): Promise<boolean> {
  return upload?.waiting?.fingerprint === fingerprint || pinned.isQuiet()
}

function refuseIfChanged(fingerprint: string, before: string, filename: string): void {
  if (isSameContent(fingerprint, before)) return
  throw new ImportError(
    'source_unreadable',
    `${JSON.stringify(filename)} was written into after the import began, and nobody can tell which of its rows were meant: put files into the upload directory under another name and rename them when they are whole, or upload them by FTP; then create the import again`,
  )
}

const missing = (filename: string, { isPinned }: { isPinned: boolean }) =>
  new ImportError(
    'source_missing',
    isPinned
      ? `the file ${JSON.stringify(filename)} that was kept for the import is gone: was DATA_DIR/staging emptied?`
      : `there is no file ${JSON.stringify(filename)} in the upload directory: upload it and create the import again`,
    { isMissing: true },
  )
