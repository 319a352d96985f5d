import { rm, type FileHandle } from 'node:fs/promises'
import { tryRename } from './disk-folder.ts'
import type { DiskReserve } from '../staging/disk-reserve.ts'
import { buildFingerprint } from './file-fingerprint.ts'
import type { UploadInProgress } from './upload-store.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'

/**
 * Large uploads are synced in portions. One sync of hundreds of megabytes would delay the syncs of all other uploads.
 */
const syncEveryBytes = 8 * binaryMegabyte

interface DiskUploadOptions {
  /** Open for appending. */
  handle: FileHandle
  reserve: DiskReserve
  /** The hidden path; its name has the token of the upload's lock. */
  unfinishedPath: string
  finalPath: string
  size: number
  isCopy: boolean
  /** Records that the file with this fingerprint is complete. */
  onStable: (fingerprint: string) => Promise<void>
}

/**
 * The hidden file of an upload on disk. A session that resumes the upload renames the file first, so the former one
 * can't publish it.
 */
export class DiskUpload implements UploadInProgress {
  size: number
  isCopy: boolean
  readonly #options: DiskUploadOptions
  #isOpen = true
  #unsynced = 0
  /** The sync in progress. Its error is thrown before the next one begins. */
  #syncing: Promise<void> = Promise.resolve()

  constructor(options: DiskUploadOptions) {
    this.#options = options
    this.size = options.size
    this.isCopy = options.isCopy
  }

  async write(piece: Uint8Array): Promise<void> {
    const { handle, reserve } = this.#options
    await reserve.check()
    this.isCopy = false
    try {
      await handle.writeFile(piece)
    } catch (error) {
      // On a full disk a part of the piece was written.
      this.size = (await handle.stat()).size
      throw error
    }
    this.size += piece.length
    this.#unsynced += piece.length
    if (this.#unsynced < syncEveryBytes) return
    this.#unsynced = 0
    await this.#syncing
    this.#syncing = handle.datasync()
    this.#syncing.catch(() => undefined)
  }

  async sync(): Promise<void> {
    await this.#syncing
    await this.#options.handle.sync()
  }

  async prepare(): Promise<void> {
    const { handle, onStable } = this.#options
    await this.sync()
    // Recorded before the rename, so that an import that finds the file need not wait for it.
    await onStable(buildFingerprint(await handle.stat({ bigint: true })))
  }

  async publish(): Promise<boolean> {
    const { unfinishedPath, finalPath } = this.#options
    if (!(await tryRename(unfinishedPath, finalPath))) return false
    this.isCopy = false
    return true
  }

  async close(): Promise<boolean> {
    if (this.#isOpen) {
      this.#isOpen = false
      await this.#syncing.catch(() => undefined)
      await this.#options.handle.close()
    }
    return true
  }

  async discard(): Promise<void> {
    await rm(this.#options.unfinishedPath, { force: true })
  }
}
