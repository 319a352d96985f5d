import { isStagingFull } from '../../shared/storage/staging/staging.ts'
import {
  UploadChanged,
  type TakeUp,
  type UploadInProgress,
  type UploadStore,
} from '../../shared/storage/uploads/upload-store.ts'
import { FtpError, refusal } from '../ftp-error.ts'
import type { ReservedQuota, UploadOutcome } from './reserved-quota.ts'
import type { UploadLock } from './upload-lock.ts'
import type { UploadQuota } from './upload-quota.ts'

export interface UploadOptions {
  append: boolean
  /** The byte at which to resume, from REST; undefined starts anew. */
  start: number | undefined
  /** Bytes that are still to come, from ALLO. */
  announced?: number | undefined
}

interface UploadParts {
  store: UploadStore
  name: string
  lock: UploadLock
  quota: ReservedQuota
  takeUp: TakeUp
}

/**
 * One upload: begun -> opened -> received -> prepared -> published, or left unfinished. Nothing changes in the
 * directory before `open`. Afterwards the data lie in a hidden file whose name contains the token of the upload's lock.
 * A session that resumes the upload renames that file first, so an upload that lost its lock can't publish it.
 */
export class Upload {
  readonly #parts: UploadParts
  #file: UploadInProgress | null = null
  #released: Promise<void> | null = null
  #state: 'untouched' | 'unfinished' | 'over quota' | 'published' = 'untouched'

  /**
   * The upload releases the lock at its end, unless this throws: FtpError 554 when `start` is beyond the bytes present,
   * 552 when the directory is full.
   */
  static async begin(
    store: UploadStore,
    name: string,
    options: UploadOptions & { lock: UploadLock; quota: UploadQuota },
  ): Promise<Upload> {
    return options.quota.withUploadLocks([name], () => Upload.#beginLocked(store, name, options))
  }

  static async #beginLocked(
    store: UploadStore,
    name: string,
    options: UploadOptions & { lock: UploadLock; quota: UploadQuota },
  ): Promise<Upload> {
    const { append, start = 0, announced, lock, quota } = options
    const [finished, unfinished] = await Promise.all([store.find(name), store.findUnfinished(name)])
    const present = (unfinished ?? finished)?.size ?? 0
    if (!append && start > present)
      throw refusal(554, name, `has ${present} bytes, so it can't be resumed at byte ${start}; ask SIZE`)
    const keep = append ? null : start
    const reserved = await quota.reserve({
      name,
      token: lock.token,
      start: keep ?? present,
      finished: finished?.size ?? null,
      unfinished: unfinished?.size ?? null,
      expected: announced === undefined ? null : (keep ?? present) + announced,
    })
    if (reserved === null) throw overQuota(name)
    const takeUp = { name, token: lock.token, wasAbandoned: lock.isAfterExpiry, keep }
    return new Upload({ store, name, lock, quota: reserved, takeUp })
  }

  private constructor(parts: UploadParts) {
    this.#parts = parts
  }

  /** Aborted when another session has taken over the upload. */
  get lost(): AbortSignal {
    return this.#parts.lock.lost
  }

  /**
   * Opens the hidden file with the bytes to keep. Throws `signal`'s reason, and FtpError 426 when another session has taken
   * over the upload. 450 means that the bytes to keep have changed, 452 that the disk is full.
   */
  async open(signal: AbortSignal): Promise<void> {
    const { store, name, takeUp, lock } = this.#parts
    // Checked before opening, which would take the file away from a session that has the lock by now.
    if (!(await lock.isStillLocked())) throw takenOver(name)
    this.#state = 'unfinished'
    try {
      this.#file = await mapFullDisk(() => store.takeUp({ ...takeUp, signal }))
    } catch (error) {
      if (error instanceof UploadChanged)
        throw refusal(450, name, 'changed or taken over while the upload began; try again')
      throw error
    }
  }

  /** Writes the data. Throws FtpError 552 and 452; errors of the source pass through. */
  async receive(data: AsyncIterable<Uint8Array>): Promise<void> {
    const { name, quota } = this.#parts
    const file = this.#openFile()
    for await (const piece of data) {
      if (!(await quota.allow(file.size + piece.length))) {
        this.#state = 'over quota'
        throw overQuota(name)
      }
      await mapFullDisk(() => file.write(piece))
    }
  }

  /**
   * Makes the upload ready to publish without a visible change: all bytes on the disk, and the lock confirmed. Throws
   * FtpError 426 when another session has taken over the upload, 452 when the disk is full.
   */
  async prepare(): Promise<void> {
    const { name, lock } = this.#parts
    const file = this.#openFile()
    const [isLocked] = await Promise.all([lock.confirm(), mapFullDisk(() => file.prepare())])
    if (!isLocked) throw takenOver(name)
  }

  /** Gives the prepared file its final name. Throws FtpError 426 as `prepare` does, and `signal`'s reason. */
  async publish(signal?: AbortSignal): Promise<void> {
    const { name, quota, lock } = this.#parts
    const file = this.#openFile()
    await quota.end(async () => {
      signal?.throwIfAborted()
      if (!(await file.publish())) throw takenOver(name)
      this.#state = 'published'
      // Released in parallel with the update of the usage: the usage doesn't need the lock, and the client waits for both.
      this.#released = lock.release()
      return { published: file.size }
    })
  }

  /**
   * Must be called last, after every outcome. An upload that isn't published stays for REST and APPE, unless it passed
   * the quota: then it is removed, as it would fill the directory for days. Throws the store's errors when closing the
   * file; the lock is released all the same.
   */
  async end(): Promise<void> {
    const { quota, lock } = this.#parts
    let isClosed = true
    try {
      isClosed = (await this.#file?.close()) ?? true
      // Errors are ignored: the usage is recounted before it refuses an upload, and a purge removes what is left.
      if (this.#state !== 'published') await quota.end(() => this.#outcome()).catch(() => undefined)
    } finally {
      // A write may still arrive. The next session then waits for the lock to expire, and resumes on a copy.
      if (isClosed) await (this.#released ?? lock.release())
      else lock.letExpire()
    }
  }

  #openFile(): UploadInProgress {
    if (this.#file === null) throw new Error('the upload is not open')
    return this.#file
  }

  async #outcome(): Promise<UploadOutcome> {
    const file = this.#file
    if (this.#state === 'untouched') return 'untouched'
    if (file !== null && (file.isCopy || this.#state === 'over quota' || this.lost.aborted)) {
      await file.discard()
      return 'removed'
    }
    if (file !== null) return { unfinished: file.size }
    // Opening failed, so the unfinished file of an earlier upload may still be there.
    const left = await this.#parts.store.findUnfinished(this.#parts.name)
    return left === null ? 'removed' : { unfinished: left.size }
  }
}

const takenOver = (name: string) => refusal(426, name, 'another session has taken over this upload')

const overQuota = (name: string) =>
  refusal(552, name, 'the upload directory is full; delete files, or ask the operator for a higher limit')

async function mapFullDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isStagingFull(error) ? new FtpError(452, 'the disk of the server is full; try again later') : error
  }
}
