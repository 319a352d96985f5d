import type { UploadView } from '../resources/uploads/schemas.ts'
import { ApiError, call, get, pause, Unreachable } from './api.ts'

const pieceBytes = 4 * 1024 * 1024
const retryMs = 2_000

interface Upload {
  file: Blob
  /** In the upload directory. */
  name: string
  /** What the directory has of this name; left out for a name that is new. */
  present?: UploadView | undefined
  signal: AbortSignal
  onProgress: (bytes: number) => void
}

const uploadPath = (name: string): string => `/uploads/${encodeURIComponent(name)}`

/** Sends a file in pieces. After a lost connection it is resumed from what the service has. */
export async function upload({ file, name, present, signal, onProgress }: Upload): Promise<void> {
  // An unfinished upload of this name may be another file's beginning, which only a whole body replaces.
  let isWhole = file.size === 0 || (present?.unfinished_size ?? null) !== null
  let isInterrupted = false
  for (let sent = 0; ;) {
    const end = isWhole ? file.size : Math.min(sent + pieceBytes, file.size)
    const headers: Record<string, string> = { 'content-type': 'application/octet-stream' }
    if (!isWhole) headers['content-range'] = `bytes ${sent}-${end - 1}/${file.size}`
    try {
      // This throws where the file was changed since it was chosen, which `fetch` would show as a lost connection.
      await file.slice(sent, sent + 1).arrayBuffer()
      await call('PUT', uploadPath(name), file.slice(sent, end), { headers, signal })
      sent = end
      onProgress(sent)
      if (sent === file.size) return
    } catch (error) {
      // The service may still hold the lock of the connection that was lost, or have more of the piece than was known.
      const isConflict = error instanceof ApiError && [409, 416].includes(error.status)
      if (!(error instanceof Unreachable) && !(isInterrupted && isConflict)) throw error
      isInterrupted = true
      await pause(retryMs, signal)
      const found = (await get<UploadView[]>('/uploads', signal)).find(({ filename }) => filename === name)
      const isNew = found !== undefined && found.modified_at !== present?.modified_at
      // Only the reply was lost.
      if (isNew && found.size === file.size && found.unfinished_size === null) return
      const size = found?.unfinished_size ?? 0
      // One that has all its bytes and isn't finished is sent anew.
      isWhole = file.size === 0 || size >= file.size || (isWhole && size === present?.unfinished_size)
      sent = isWhole ? 0 : size
    }
  }
}

export const deleteUpload = (name: string, options = {}): Promise<null> =>
  call('DELETE', uploadPath(name), undefined, options)
