import { rename, rm, type FileHandle } from 'node:fs/promises'
import { fingerprintOf } from './file-fingerprint.ts'
import type { UploadInProgress } from './upload-store.ts'

/**
 * Large uploads go to the disk bit by bit: hundreds of megabytes at its end would hold up everybody's next sync.
 */
const syncEveryBytes = 8 * 1024 * 1024

export interface DiskUploadOptions {
  /** Open for appending. */
  handle: FileHandle
  /** Its path, which bears the token of the upload's lock. */
  own: string
  final: string
  size: number
  isCopy: boolean
  /** Notes that the file of this fingerprint is whole. */
  onStable: (fingerprint: string) => Promise<void>
}

/** The hidden file of an upload on disk. Who takes it up renames it first: then there is none that this could publish. */
export class DiskUpload implements UploadInProgress {
  size: number
  isCopy: boolean
  readonly #options: DiskUploadOptions
  #isOpen = true
  #unsynced = 0
  /** The last of the syncs on the way; its failure shows at the next one. */
  #syncing: Promise<void> = Promise.resolve()

  constructor(options: DiskUploadOptions) {
    this.#options = options
    this.size = options.size
    this.isCopy = options.isCopy
  }

  async write(piece: Uint8Array): Promise<void> {
    const { handle } = this.#options
    this.isCopy = false
    try {
      await handle.writeFile(piece)
    } catch (error) {
      // A full disk takes a part of it.
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

  async prepare(): Promise<void> {
    const { handle, onStable } = this.#options
    await this.#syncing
    await handle.sync()
    // Before the move: an import that finds the file need not watch it.
    await onStable(fingerprintOf(await handle.stat({ bigint: true })))
  }

  async publish(): Promise<boolean> {
    const { own, final } = this.#options
    try {
      await rename(own, final)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw error
    }
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
    await rm(this.#options.own, { force: true })
  }
}
