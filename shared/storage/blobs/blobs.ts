import { ObjectId } from 'mongodb'
import type { RandomAccessFile } from '../../containers/random-access-file.ts'

/**
 * Bytes by id, on disk (disk-blobs.ts) or in the database (grid-blobs.ts). Records refer to blobs: uploads
 * (shared/store/uploads.ts) and imports. A blob has one writer at a time, and only its end changes. Ids are
 * `<room>/<group>/<rest>`; on disk they are paths in DATA_DIR.
 *
 * Errors are those of the file system or the database. `isStagingFull` recognizes a full one.
 */
export interface Blobs {
  /** Opens a blob for appending at its present end; a new id begins a new blob. */
  append(id: string, options?: { isNew: boolean }): Promise<BlobWriter>
  /** Opens a blob for reading; null when it is gone. */
  open(id: string): Promise<Blob | null>
  /** In bytes; 0 when it is gone. */
  size(id: string): Promise<number>
  /** Removes the bytes after the first `size`. The blob must have no writer. */
  truncate(id: string, size: number): Promise<void>
  /** A missing blob is no error. */
  remove(id: string): Promise<void>
  /** Ids that begin with a room, or a room and a group; with `olderThanMs` those of blobs whose last write is older. */
  list(prefix: string, options?: { olderThanMs: number }): AsyncIterable<string[]>
}

export interface Blob extends RandomAccessFile {
  /** When it was opened. */
  readonly size: number
  close(): Promise<void>
}

export interface BlobWriter {
  /** In bytes, with those that are on their way. */
  readonly size: number
  /** Appends the buffers in order. The caller may reuse them when it resolves. */
  append(buffers: Uint8Array[]): Promise<void>
  /** Makes the appended bytes readable. */
  flush(): Promise<void>
  /** Makes the appended bytes readable and durable. */
  sync(): Promise<void>
  /** Resolves to false when a write may still arrive. */
  close(): Promise<boolean>
}

/** The id of a new blob of an upload. Its group keeps folders small. */
export function newUploadBlob(): string {
  const id = new ObjectId().toHexString()
  return `uploads/${id.slice(-2)}/${id}`
}
