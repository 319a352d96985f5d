import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { errorMessage } from '../../../shared/contract/errors.ts'
import { usage } from '../failures.ts'
import type { UploadView } from '../../resources/uploads/schemas.ts'
import { counted, putUpload, removeByHttp, uploadProgress } from '../http-upload.ts'
import type { Session } from '../session.ts'
import { requireFile } from '../source-file.ts'
import { printable, writeTable } from '../terminal.ts'
import { printRecord } from './records.ts'

/** Lists, sends and removes files of the upload directory. */

export async function listUploads(session: Session, options: { json?: true }): Promise<void> {
  const uploads = await session.client.get<UploadView[]>('/uploads')
  const columns = ['filename', 'size', 'modified_at', 'unfinished_size'] as const
  const rows = uploads.map((upload) => columns.map((column) => upload[column]))
  if (options.json === true) session.print(uploads)
  else writeTable(session.terminal, session.terminal.out, [...columns], rows)
}

/**
 * Sends a file as it is (`-` is standard input), from its beginning: an unfinished one of that name may be the beginning
 * of another file.
 */
export async function putFile(
  session: Session,
  file: string,
  name: string | undefined,
  options: { json?: true },
): Promise<void> {
  const { input, err } = session.terminal
  if (file === '-' && name === undefined)
    throw usage('standard input has no name: add the name that the upload is to have')
  const size = file === '-' ? null : await sizeOf(file)
  const source = size === null ? input : createReadStream(file, { end: Math.max(0, size - 1) })
  const progress = uploadProgress(err, size)
  const bytes = Readable.from(counted(source as AsyncIterable<Buffer>, 0, progress.show))
  const upload = await putUpload(session.client, name ?? path.basename(file), {
    bytes,
    headers: size === null ? {} : { 'content-length': String(size) },
  }).finally(() => progress.end())
  if (options.json === true) session.print(upload)
  else printRecord(session.terminal, { ...upload })
}

async function sizeOf(file: string): Promise<number> {
  const stats = await stat(file).catch((error: unknown) => {
    throw usage(`can't read ${file}: ${errorMessage(error)}`)
  })
  requireFile(file, stats)
  return stats.size
}

export async function removeFile(session: Session, name: string, options: { json?: true }): Promise<void> {
  await removeByHttp(session.client, name)
  if (options.json === true) session.print(null)
  else session.say(printable(`${name} was removed.`))
}
