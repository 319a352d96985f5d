import { errorMessage } from '../../../shared/contract/errors.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import { ApiRefusal, type ImportView } from '../api-client.ts'
import { CommandFailure, isOverQuota, usage } from '../failures.ts'
import { removeByFtp, uploadByFtp, type FtpTarget } from '../ftp-upload.ts'
import type { Session } from '../session.ts'
import type { SourceFile } from '../source-file.ts'
import { printable, type Terminal } from '../terminal.ts'

export const maxInlineBytes = 10 * binaryMegabyte

interface Sent {
  created: ImportView
  /** Null for a file that was sent inline. */
  uploadedAs: string | null
}

/** Sends a file inline, or uploads it when it is too large for that, compressed, or not valid text as a whole. */
export async function sendFile(
  session: Session,
  file: SourceFile,
  { via }: { via?: 'inline' | 'ftp' },
  create: (file_source: Record<string, unknown>) => Promise<ImportView>,
): Promise<Sent> {
  if (via === 'inline' && file.isPacked)
    throw usage(`${file.name} is compressed and can only be uploaded: leave out --via inline`)
  if (via === 'inline' || (via === undefined && !file.isPacked && file.size <= maxInlineBytes)) {
    const content = await file.text()
    if (content === null && via === 'inline')
      throw new CommandFailure(
        `${file.name} has bytes that are not valid ${file.characterSet} and can't be sent inline: leave out --via inline, and only the records with such bytes fail`,
      )
    try {
      if (content !== null) return { created: await create({ type: 'json', content }), uploadedAs: null }
    } catch (error) {
      // The service's limit for inline content may be lower.
      const isTooLarge = error instanceof ApiRefusal && error.status === 413 && !isOverQuota(error)
      if (via === 'inline' || !isTooLarge) throw error
    }
  }
  const filename = await upload(session, file)
  try {
    return { created: await create({ type: 'upload_directory', filename }), uploadedAs: filename }
  } catch (error) {
    // Without a reply, there may be an import that reads the upload.
    if (error instanceof ApiRefusal) await removeUpload(session, filename)
    else sayStays(session.terminal, filename, 'remove it when no import reads it')
    throw error
  }
}

export async function removeUpload(session: Session, name: string): Promise<void> {
  try {
    await removeByFtp(ftpTarget(session), name)
  } catch (error) {
    sayStays(session.terminal, name, `it couldn't be removed (${errorMessage(error)})`)
  }
}

export const sayStays = ({ err }: Terminal, name: string, what: string): boolean =>
  err.write(`${name} stays in the upload directory: ${printable(what)}\n`)

async function upload(session: Session, file: SourceFile): Promise<string> {
  const { err } = session.terminal
  let shown = -1
  const name = await uploadByFtp(ftpTarget(session), file, (bytes) => {
    const percent = file.size === 0 ? 100 : Math.min(100, Math.floor((bytes / file.size) * 100))
    if (!err.isTTY || percent === shown) return
    shown = percent
    err.write(`\ruploading ${percent}%\u001b[K`)
  })
  err.write(err.isTTY ? `\ruploaded as ${name}\u001b[K\n` : `uploaded as ${name}\n`)
  return name
}

function ftpTarget({ settings }: Session): FtpTarget {
  const service = new URL(settings.ROLLCALL_URL)
  return {
    url: new URL(settings.ROLLCALL_FTP ?? `ftp://${service.hostname}:2121`),
    key: settings.ROLLCALL_API_KEY ?? '',
  }
}
