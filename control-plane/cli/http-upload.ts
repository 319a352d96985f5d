import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorMessage } from '../../shared/contract/errors.ts'
import { clock } from '../../shared/runtime/clock.ts'
import type { UploadView } from '../resources/uploads/schemas.ts'
import { ApiRefusal, type ApiClient } from './api-client.ts'
import { CommandFailure } from './failures.ts'
import { fileChanged, type SourceFile } from './source-file.ts'
import { uploadName } from './upload-name.ts'
import { isTemporary } from './watch.ts'

interface HttpUpload {
  client: ApiClient
  file: SourceFile
  /** The idempotency key of the import, if it has one: the same file then has the same name each time. */
  idempotencyKey?: string | undefined
  onProgress: (bytes: number) => void
}

const retryMs = 1_000
/** The lock of a control plane that was killed is free after 30 s. */
const retryTimeoutMs = 60_000

/**
 * Uploads a file for an import, and resolves to its name. The name has the fingerprint of the content, so an unfinished
 * file of that name is the beginning of this one: an interrupted command, or an earlier one, is resumed. `isNew` is
 * false for a finished upload that an earlier command with the same idempotency key has left.
 */
export async function uploadByHttp(upload: HttpUpload): Promise<{ name: string; isNew: boolean }> {
  const { client, file, idempotencyKey } = upload
  const fingerprint = await file.fingerprint()
  const makeName = (mark: string): string => uploadName(file.name, `${fingerprint}-${mark}`)
  const uploads = await client.get<UploadView[]>('/uploads')
  let name = makeName(
    idempotencyKey === undefined
      ? randomBytes(4).toString('hex')
      : createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 8),
  )
  const same = uploads.find(({ filename }) => filename === name)
  if (same?.size === file.size) return { name, isNew: false }
  const [before, after] = makeName('|').split('|') as [string, string]
  const unfinished =
    same ??
    uploads.find(
      ({ filename, size }) => size === null && filename.startsWith(before) && filename.endsWith(after),
    )
  if (unfinished === undefined) await sendWithRetries(upload, name, 0)
  else {
    name = unfinished.filename
    try {
      await sendWithRetries(upload, name, resumableSize(unfinished, file))
    } catch (error) {
      // Another command is sending it, or has finished it since.
      if (!isConflict(error)) throw error
      name = makeName(randomBytes(4).toString('hex'))
      await sendWithRetries(upload, name, 0)
    }
  }
  return { name, isNew: true }
}

async function sendWithRetries(upload: HttpUpload, name: string, from: number): Promise<void> {
  let isInterrupted = false
  for (let progressAt = clock.monotonicMs(); ;) {
    try {
      if (isInterrupted) {
        const uploads = await upload.client.get<UploadView[]>('/uploads')
        const found = uploads.find(({ filename }) => filename === name)
        // Only the reply was lost.
        if (found?.size === upload.file.size) return
        const size = resumableSize(found, upload.file)
        if (size > from) progressAt = clock.monotonicMs()
        from = size
      }
      await send(upload, name, from)
      return
    } catch (error) {
      // After an interruption the lock of the process that died may still be there, or more bytes may have arrived.
      const canRetry = isTemporary(error) || (isInterrupted && isConflict(error))
      if (!canRetry || clock.monotonicMs() - progressAt > retryTimeoutMs) throw error
      isInterrupted = true
    }
    await sleep(retryMs)
  }
}

const isConflict = (error: unknown): boolean =>
  error instanceof ApiRefusal && ['validation_failed', 'invalid_request'].includes(error.code)

/** How much of the file is there. One that has all its bytes and isn't finished is sent anew. */
const resumableSize = (found: UploadView | undefined, file: SourceFile): number =>
  found?.size === null && found.unfinished_size !== null && found.unfinished_size < file.size
    ? found.unfinished_size
    : 0

async function send({ client, file, onProgress }: HttpUpload, name: string, from: number): Promise<void> {
  let readError: unknown = null
  const source = file.bytes(from).on('error', (error: NodeJS.ErrnoException) => {
    // A request that fails aborts the reading.
    if (error.code !== 'ABORT_ERR') readError = error
  })
  const headers = {
    'content-length': String(file.size - from),
    ...(from === 0 ? {} : { 'content-range': `bytes ${from}-${file.size - 1}/${file.size}` }),
  }
  try {
    await putUpload(client, name, { bytes: Readable.from(counted(source, from, onProgress)), headers })
  } catch (error) {
    if (await file.hasChanged()) throw fileChanged(file)
    if (readError === null) throw error
    throw new CommandFailure(`can't read ${file.name}: ${errorMessage(readError)}`)
  }
  if (!(await file.hasChanged())) return
  await removeByHttp(client, name)
  throw fileChanged(file)
}

/** Shows on a terminal how much of a file is sent. Its size may be unknown (null). */
export function uploadProgress(err: NodeJS.WriteStream, size: number | null) {
  let shown = ''
  return {
    show: (sent: number) => {
      const percent = size === 0 ? 100 : Math.min(100, Math.floor((sent / (size ?? 1)) * 100))
      const progress = size === null ? `${sent.toLocaleString('en')} bytes` : `${percent}%`
      if (!err.isTTY || progress === shown) return
      shown = progress
      err.write(`\ruploading ${progress}\u001b[K`)
    },
    end: () => {
      if (shown !== '') err.write('\r\u001b[K')
    },
  }
}

export async function* counted(
  bytes: AsyncIterable<Buffer>,
  from: number,
  onProgress: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  let sent = from
  for await (const piece of bytes) {
    yield piece
    sent += piece.length
    onProgress(sent)
  }
}

export const putUpload = (
  client: ApiClient,
  name: string,
  { bytes, headers }: { bytes: Readable; headers: Record<string, string> },
): Promise<UploadView> => client.putBytes<UploadView>(`/uploads/${encodeURIComponent(name)}`, bytes, headers)

export const removeByHttp = (client: ApiClient, name: string): Promise<void> =>
  client.delete(`/uploads/${encodeURIComponent(name)}`)
