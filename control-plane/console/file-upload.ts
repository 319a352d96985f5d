import type { UploadView } from '../resources/uploads/schemas.ts'
import { ApiError, call, get, pause, putBytes, Unreachable } from './api.ts'

/** Sends a file to the upload directory in pieces, and resumes after a lost connection. */

const minPieceBytes = 256 * 1024
const maxPieceBytes = 8 * 1024 * 1024
const retryMs = 2_000
/** The lock of a connection that died is free after 30 s. */
const conflictTimeoutMs = 60_000

export interface UploadProgress {
  sent: number
  total: number
  /** Whether the connection is lost and tried again. */
  isWaiting: boolean
}

interface Upload {
  file: File
  name: string
  signal: AbortSignal
  onProgress: (progress: UploadProgress) => void
}

const pathOf = (name: string): string => `/uploads/${encodeURIComponent(name)}`

/** Resolves when the file is there under its name. */
export async function uploadFile({ file, name, signal, onProgress }: Upload): Promise<void> {
  const total = file.size
  const show = (sent: number, isWaiting: boolean) => onProgress({ sent, total, isWaiting })
  let sent = 0
  let pieceBytes = minPieceBytes
  let conflictSince: number | null = null
  show(0, false)
  while (sent < total || total === 0) {
    const end = Math.min(total, sent + pieceBytes)
    const range = total === 0 ? {} : { 'content-range': `bytes ${sent}-${end - 1}/${total}` }
    const headers = { 'content-type': 'application/octet-stream', ...range }
    const begunAt = Date.now()
    try {
      await putBytes(pathOf(name), file.slice(sent, end), { headers, signal })
      sent = end
      conflictSince = null
      pieceBytes = nextPieceBytes(pieceBytes, Date.now() - begunAt)
      if (total === 0) break
    } catch (error) {
      // After a lost connection the service may have more or less of the file, or still wait for the rest of a piece.
      const isConflict = error instanceof ApiError && (error.status === 409 || error.status === 416)
      if (!isConflict && !(error instanceof Unreachable)) throw error
      if (isConflict) conflictSince ??= begunAt
      if (conflictSince !== null && Date.now() - conflictSince > conflictTimeoutMs) throw error
      show(sent, true)
      await pause(retryMs, signal)
      sent = await bytesThere(name, total, signal)
      pieceBytes = minPieceBytes
    }
    show(sent, false)
  }
}

/** A piece takes about a second, so that the progress moves and little is sent again. */
function nextPieceBytes(bytes: number, ms: number): number {
  if (ms < 700) return Math.min(maxPieceBytes, bytes * 2)
  return ms > 2_000 ? Math.max(minPieceBytes, bytes / 2) : bytes
}

async function bytesThere(name: string, total: number, signal: AbortSignal): Promise<number> {
  const uploads = await get<UploadView[]>('/uploads', signal)
  const found = uploads.find(({ filename }) => filename === name)
  return found?.size === total ? total : (found?.unfinished_size ?? 0)
}

/** Deletes an upload, finished or not. What was deleted already is no fault. */
export async function deleteUpload(name: string): Promise<void> {
  await call('DELETE', pathOf(name)).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.code === 'not_found')) throw error
  })
}
