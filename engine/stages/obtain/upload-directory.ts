import { ImportError } from '../../../shared/contract/errors.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { findContainer, headBytes } from '../../../shared/containers/container-kind.ts'
import { unpacked, uploadBound } from '../../../shared/containers/unpack.ts'
import { isSameContent } from '../../../shared/storage/uploads/file-fingerprint.ts'
import type { PinnedUpload, Uploads } from '../../../shared/storage/uploads/upload-store.ts'
import { StillWritten, type Source } from './source.ts'

/**
 * The file that was pinned when the import began: a later rename has no effect. A complete one that is no container is
 * read in place and checked again afterwards (refuseIfWrittenInto). All others are copied, out of their containers. Into
 * an incomplete one a program may still write: its fingerprint must be the same at two checks, and before and after the
 * copy.
 */
export const uploadDirectorySource: Source = async (document, context) => {
  const { filename } = document.source
  const { staging, target, uploads, signal, spool } = context
  // Where pinning failed or found no file, the import began without a pin, and each try makes one of its own.
  const storedPin = document.upload?.pin ?? null
  const { _id: importId, organization_id: organizationId } = document
  const pin = storedPin ?? (await uploads.pin({ organizationId, name: filename, importId, signal }))
  const pinned = pin === null ? null : await uploads.openPin(organizationId, pin)
  if (pin === null || pinned === null) throw missing(filename, { isPinned: pin !== null })
  try {
    const fingerprint = await pinned.fingerprint()
    if (pin.is_settled) refuseIfChanged(fingerprint, pin.fingerprint, filename)
    else if (!(await seemsComplete(document, pinned, fingerprint)))
      throw new StillWritten(filename, fingerprint)

    const isReadInPlace = pin.is_settled && storedPin !== null && !(await isContainer(pinned))
    const staged = isReadInPlace ? await pinned.staged() : null
    if (staged !== null) return staged

    const checkUnchanged = async () => {
      const after = await pinned.fingerprint()
      if (pin.is_settled) refuseIfChanged(after, pin.fingerprint, filename)
      else if (after !== fingerprint) throw new StillWritten(filename, after)
    }
    const what = JSON.stringify(filename)
    const bound = uploadBound(pinned.size, what)
    const content = unpacked(pinned.content(signal), { ...{ what, signal, bound, spool }, file: pinned })
    try {
      await staging.write(target, content)
      await checkUnchanged()
    } catch (error) {
      // Only the file with this step's token in its name: after a suspension the step may have another holder, to
      // which the import's other files belong.
      await staging.remove(target).catch(() => undefined)
      // A container that was written into seems to be damaged.
      if (error instanceof ImportError) await checkUnchanged()
      throw error
    }
    return target
  } finally {
    await pinned.close()
    // A pin that isn't stored ends with this try.
    if (storedPin === null) await uploads.releasePin(pin).catch(() => undefined)
  }
}

/**
 * For a file that was read in place, under the name `staged`: throws an ImportError when it was changed since it was
 * pinned, or is gone.
 */
export async function refuseIfWrittenInto(
  { source, upload, organization_id: organizationId }: ImportDocument,
  staged: string,
  uploads: Uploads,
): Promise<void> {
  const pin = upload?.pin ?? null
  if (pin?.reference !== staged) return
  const pinned = await uploads.openPin(organizationId, pin)
  if (pinned === null) throw missing(source.filename, { isPinned: true })
  try {
    refuseIfChanged(await pinned.fingerprint(), pin.fingerprint, source.filename)
  } finally {
    await pinned.close()
  }
}

async function isContainer(pinned: PinnedUpload): Promise<boolean> {
  const head = Buffer.alloc(headBytes)
  return findContainer(head.subarray(0, await pinned.read(head, 0))) !== null
}

async function seemsComplete(
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
    `${JSON.stringify(filename)} was written into after the import began, so its rows may be incomplete: write files into the upload directory under another name and rename them when they are complete, or upload them over HTTP or by FTP; then create the import again`,
  )
}

const missing = (filename: string, { isPinned }: { isPinned: boolean }) =>
  new ImportError(
    'source_missing',
    isPinned
      ? `the file ${JSON.stringify(filename)} that was kept for the import is gone: was DATA_DIR/staging emptied?`
      : `there is no file ${JSON.stringify(filename)} in the upload directory: upload it and create the import again`,
    { isMissing: isPinned },
  )
