import { errorMessage } from '../../../shared/contract/errors.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import type { CreatedImportView } from '../../resources/subscriber-imports/schemas.ts'
import { ApiRefusal } from '../api-client.ts'
import { isOverQuota, usage } from '../failures.ts'
import { ftpAddress, removeByFtp, uploadByFtp, type FtpTarget } from '../ftp-upload.ts'
import { removeByHttp, uploadByHttp, uploadProgress } from '../http-upload.ts'
import type { ImportFlags } from '../import-options.ts'
import type { Session } from '../session.ts'
import type { SourceFile } from '../source-file.ts'
import { printable, writeSentence, type Terminal } from '../terminal.ts'

export const maxInlineBytes = 10 * binaryMegabyte

/** A file in the upload directory that was sent for one import. */
export interface Upload {
  filename: string
  via: 'http' | 'ftp'
  /** Whether this command has sent it. */
  isNew: boolean
}

type SendFlags = Pick<ImportFlags, 'via' | 'characterSet' | 'idempotencyKey'>

/** Whether the file could go inline by its kind: it is UTF-8, no container, and asked for as nothing else. */
export function isInlineKind(file: SourceFile, { characterSet }: SendFlags): boolean {
  return ['auto', 'utf-8'].includes(characterSet) && file.sample(1) !== null
}

/** The file's content if it goes inline, or null if it is to be uploaded. Throws wrong usage if `--via` can't be. */
export async function inlineContent(file: SourceFile, flags: SendFlags): Promise<string | null> {
  const { via } = flags
  if (via === 'http' || via === 'ftp' || (via === undefined && file.size > maxInlineBytes)) return null
  const content = isInlineKind(file, flags) ? await file.text() : null
  if (content === null && via === 'inline')
    throw usage(
      `${file.name} can't be sent inline, because it is packed or not UTF-8 as a whole: leave out --via inline`,
    )
  return content
}

/** Creates the import with the content inline. Resolves to null if the service's limit for that is lower. */
export async function createInline(
  content: string,
  { via }: SendFlags,
  create: (file_source: Record<string, unknown>) => Promise<CreatedImportView>,
): Promise<CreatedImportView | null> {
  try {
    return await create({ type: 'json', content })
  } catch (error) {
    const isTooLarge = error instanceof ApiRefusal && error.status === 413 && !isOverQuota(error)
    if (via === 'inline' || !isTooLarge) throw error
    return null
  }
}

export async function uploadFile(session: Session, file: SourceFile, flags: SendFlags): Promise<Upload> {
  const { err } = session.terminal
  const progress = uploadProgress(err, file.size)
  const { client } = session
  const { idempotencyKey } = flags
  const via = flags.via === 'ftp' ? 'ftp' : 'http'
  const { name, isNew } =
    via === 'ftp'
      ? { name: await uploadByFtp(ftpTarget(session), file, progress.show), isNew: true }
      : await uploadByHttp({ client, file, idempotencyKey, onProgress: progress.show })
  progress.end()
  writeSentence(err, `uploaded as ${printable(name)}`)
  return { filename: name, via, isNew }
}

export async function removeUpload(session: Session, { filename, via }: Upload): Promise<void> {
  try {
    if (via === 'ftp') await removeByFtp(ftpTarget(session), filename)
    else await removeByHttp(session.client, filename)
  } catch (error) {
    if (error instanceof ApiRefusal && error.code === 'not_found') return
    sayStays(session.terminal, filename, `it couldn't be removed (${errorMessage(error)})`)
  }
}

export const sayStays = ({ err }: Terminal, name: string, what: string): void => {
  writeSentence(err, printable(`${name} stays in the upload directory: ${what}`))
}

const ftpTarget = ({ settings }: Session): FtpTarget => ({
  address: ftpAddress(settings),
  key: settings.ROLLCALL_API_KEY ?? '',
})
