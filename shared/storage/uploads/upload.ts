import { isStagingFull } from '../staging/staging.ts'
import { UploadChanged, type ResumeOptions, type UploadInProgress, type UploadStore } from './upload-store.ts'
import { UploadRefused } from './upload-refused.ts'
import type { ReservedQuota, UploadOutcome } from './reserved-quota.ts'
import type { UploadLock } from './upload-lock.ts'
import type { UploadQuota } from './upload-quota.ts'

export interface UploadOptions {
  append: boolean
  /** The byte at which to resume; undefined starts anew. */
  start: number | undefined
  /** `start` must be the end of the unfinished upload, or 0 without one. */
  isAtEnd?: boolean
  /** Bytes that are still to come, where the client says so. */
  announced?: number | undefined
}

interface UploadParts {
  store: UploadStore
  name: string
  lock: UploadLock
  quota: ReservedQuota
  resumeOptions: ResumeOptions
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
  /** The last writes of `prepare` or `sync`. Where a client leaves, the upload ends while they are in flight. */
  #confirmed: Promise<unknown> = Promise.resolve()
  #state: 'untouched' | 'unfinished' | 'over_quota' | 'published' = 'untouched'

  /**
   * The upload releases the lock at its end, unless this throws: UploadRefused when `start` is beyond the bytes present,
   * and when the directory is full.
   */
  static async begin(
    store: UploadStore,
    name: string,
    options: UploadOptions & { lock: UploadLock; quota: UploadQuota },
  ): Promise<Upload> {
    const { append, start = 0, isAtEnd = false, announced, lock, quota } = options
    return quota.withUploadLocks([name], async () => {
      const [finished, unfinished] = await Promise.all([store.find(name), store.findUnfinished(name)])
      const present = (unfinished ?? finished)?.size ?? 0
      const end = unfinished?.size ?? 0
      if (isAtEnd && start !== end)
        throw wrongStart(
          name,
          unfinished === null
            ? `has no unfinished upload, so it begins at byte 0, not ${start}`
            : `has an unfinished upload of ${end} bytes, so it resumes at byte ${end}, not ${start}`,
        )
      if (!append && start > present)
        throw wrongStart(name, `has ${present} bytes, so it can't be resumed at byte ${start}`)
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
      const resumeOptions = { name, token: lock.token, wasAbandoned: lock.isAfterExpiry, keep }
      return new Upload({ store, name, lock, quota: reserved, resumeOptions })
    })
  }

  private constructor(parts: UploadParts) {
    this.#parts = parts
  }

  /** In bytes, of an open upload. */
  get size(): number {
    return this.#openFile().size
  }

  /** Aborted when another session has taken over the upload. */
  get lost(): AbortSignal {
    return this.#parts.lock.lost
  }

  /**
   * Opens the hidden file with the bytes to keep. Throws `signal`'s reason, and UploadRefused when another session has
   * taken over the upload, when the bytes to keep have changed, and when the disk is full.
   */
  async open(signal: AbortSignal): Promise<void> {
    const { store, name, resumeOptions, lock } = this.#parts
    // Checked before opening, which would take the file away from a session that has the lock by now.
    if (!(await lock.isStillLocked())) throw takenOver(name)
    this.#state = 'unfinished'
    try {
      this.#file = await refuseFullDisk(name, () => store.beginOrResume({ ...resumeOptions, signal }))
      lock.markContentReplaced()
    } catch (error) {
      if (error instanceof UploadChanged)
        throw new UploadRefused('changed', name, 'changed or taken over while the upload began; try again')
      throw error
    }
  }

  /** Writes the data. Throws UploadRefused over the quota and on a full disk; errors of the source pass through. */
  async receive(data: AsyncIterable<Uint8Array>): Promise<void> {
    const { name, quota } = this.#parts
    const file = this.#openFile()
    for await (const piece of data) {
      if (!(await quota.allow(file.size + piece.length))) {
        this.#state = 'over_quota'
        throw overQuota(name)
      }
      await refuseFullDisk(name, () => file.write(piece))
    }
  }

  /**
   * Makes the upload ready to publish without a visible change: all bytes on the disk, and the lock confirmed. Throws
   * UploadRefused when another session has taken over the upload, and when the disk is full.
   */
  async prepare(): Promise<void> {
    await this.#confirm((file) => file.prepare())
  }

  /** Makes the received bytes durable; the upload stays unfinished. Throws as `prepare` does. */
  async sync(): Promise<void> {
    await this.#confirm((file) => file.sync())
  }

  /** Gives the prepared file its final name. Throws when another session has taken over, and `signal`'s reason. */
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
   * Must be called last, after every outcome. An upload that isn't published can be resumed, unless it passed the quota:
   * then it is removed, as it would fill the directory for days. Throws the store's errors when closing the
   * file; the lock is released all the same.
   */
  async end(): Promise<void> {
    const { quota, lock } = this.#parts
    let isClosed = true
    try {
      await this.#confirmed
      isClosed = (await this.#file?.close()) ?? true
      // Errors are ignored: the usage is recounted before it refuses an upload, and a purge removes what is left.
      if (this.#state !== 'published') await quota.end(() => this.#outcome()).catch(() => undefined)
    } finally {
      // A write may still arrive. The next session then waits for the lock to expire, and resumes on a copy.
      if (isClosed) await (this.#released ?? lock.release())
      else lock.letExpire()
    }
  }

  async #confirm(write: (file: UploadInProgress) => Promise<void>): Promise<void> {
    const { name, lock } = this.#parts
    const file = this.#openFile()
    const written = refuseFullDisk(name, () => write(file))
    this.#confirmed = written.catch(() => undefined)
    const [isLocked] = await Promise.all([lock.confirm(), written])
    if (!isLocked) throw takenOver(name)
  }

  #openFile(): UploadInProgress {
    if (this.#file === null) throw new Error('the upload is not open')
    return this.#file
  }

  async #outcome(): Promise<UploadOutcome> {
    const file = this.#file
    if (this.#state === 'untouched') return 'untouched'
    if (file !== null && (file.isCopy || this.#state === 'over_quota' || this.lost.aborted)) {
      await file.discard()
      return 'removed'
    }
    if (file !== null) return { unfinished: file.size }
    // Opening failed, so the unfinished file of an earlier upload may still be there.
    const left = await this.#parts.store.findUnfinished(this.#parts.name)
    return left === null ? 'removed' : { unfinished: left.size }
  }
}

const wrongStart = (name: string, message: string) => new UploadRefused('wrong_start', name, message)

const takenOver = (name: string) =>
  new UploadRefused('taken_over', name, 'another session has taken over this upload')

const overQuota = (name: string) =>
  new UploadRefused(
    'over_quota',
    name,
    'the upload directory is full; delete files, or ask the operator for a higher limit',
  )

async function refuseFullDisk<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isStagingFull(error)) throw error
    throw new UploadRefused('disk_full', name, 'the disk of the server is full; try again later', {
      cause: error,
    })
  }
}
