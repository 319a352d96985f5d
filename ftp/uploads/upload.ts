import { isStagingFull } from '../../shared/storage/staging/staging.ts'
import {
  UploadChanged,
  type TakeUp,
  type UploadInProgress,
  type UploadStore,
} from '../../shared/storage/uploads/upload-store.ts'
import { FtpError } from '../ftp-error.ts'
import type { ReservedQuota, UploadOutcome } from './reserved-quota.ts'
import type { UploadLock } from './upload-lock.ts'
import type { UploadQuota } from './upload-quota.ts'

export interface UploadOptions {
  append: boolean
  /** Where to go on, from REST; undefined begins anew. */
  start: number | undefined
  /** Bytes that are about to come, from ALLO. */
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
 * One upload: refused or begun -> opened -> received -> published, or left unfinished. Before `open` nothing changes
 * in the directory. After it the data lie in a hidden file that bears the token of the upload's lock. Who goes on with
 * it takes it away first, so an upload that lost its lock in any moment has nothing that it could publish.
 */
export class Upload {
  readonly #parts: UploadParts
  #file: UploadInProgress | null = null
  #released: Promise<void> | null = null
  #state: 'untouched' | 'unfinished' | 'over quota' | 'published' = 'untouched'

  /**
   * Takes over the lock, unless it throws: FtpError 554 where `start` is behind what there is, 552 where the directory is
   * full.
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
    if (!append && start > present) throw new FtpError(554, `the upload has only ${present} bytes so far`)
    const keep = append ? null : start
    const reserved = await quota.reserve({
      name,
      token: lock.token,
      start: keep ?? present,
      finished: finished?.size ?? null,
      unfinished: unfinished?.size ?? null,
      expected: announced === undefined ? null : (keep ?? present) + announced,
    })
    if (reserved === null) throw overQuota()
    const takeUp = { name, token: lock.token, wasLeft: lock.wasLeft, keep }
    return new Upload({ store, name, lock, quota: reserved, takeUp })
  }

  private constructor(parts: UploadParts) {
    this.#parts = parts
  }

  /** Aborted when another session took the upload over. */
  get lost(): AbortSignal {
    return this.#parts.lock.lost
  }

  /**
   * Takes up the hidden file, with what is to be kept of it. Throws FtpError 426 when the upload isn't ours any more, 450
   * when what it was to go on with has changed, 452 when the disk is full, and `signal`'s reason.
   */
  async open(signal: AbortSignal): Promise<void> {
    const { store, takeUp, lock } = this.#parts
    // Whoever has it by now must not lose what he receives.
    if (!(await lock.isStillLocked())) throw takenOver()
    this.#state = 'unfinished'
    try {
      this.#file = await tellingFullDisk(() => store.takeUp({ ...takeUp, signal }))
    } catch (error) {
      if (error instanceof UploadChanged) throw new FtpError(450, `${error.message}: try it again`)
      throw error
    }
  }

  /** Writes what comes. Throws FtpError 552 or 452; an error of the source passes through. */
  async receive(data: AsyncIterable<Uint8Array>): Promise<void> {
    const file = this.#file!
    for await (const piece of data) {
      if (!(await this.#parts.quota.allow(file.size + piece.length))) {
        this.#state = 'over quota'
        throw overQuota()
      }
      await tellingFullDisk(() => file.write(piece))
    }
  }

  /**
   * What publishing needs and doesn't change what others see: all bytes on the disk, and the lock still ours. Throws
   * FtpError 426 when it isn't, 452 when the disk is full.
   */
  async prepare(): Promise<void> {
    const file = this.#file!
    const [isOurs] = await Promise.all([this.#parts.lock.confirm(), tellingFullDisk(() => file.prepare())])
    if (!isOurs) throw takenOver()
  }

  /** Gives the prepared file its final name. Throws FtpError 426 when the upload isn't ours any more, and `signal`'s reason. */
  async publish(signal?: AbortSignal): Promise<void> {
    const { quota, lock } = this.#parts
    const file = this.#file!
    await quota.end(async () => {
      signal?.throwIfAborted()
      if (!(await file.publish())) throw takenOver()
      this.#state = 'published'
      // The figures need it no longer, and a client waits for both.
      this.#released = lock.release()
      return { published: file.size }
    })
  }

  /**
   * Whatever became of it: what isn't published stays for REST and APPE, unless it passed the quota: then it would
   * keep the room from everybody for days. Last of all; throws the store's errors at closing the file, the lock given
   * back all the same.
   */
  async end(): Promise<void> {
    const { quota, lock } = this.#parts
    let isDone = true
    try {
      isDone = (await this.#file?.close()) ?? true
      // The figures are counted anew before they refuse anybody, and what can't be removed now goes later.
      if (this.#state !== 'published') await quota.end(() => this.#outcome()).catch(() => undefined)
    } finally {
      // What may still arrive must not meet whoever goes on: he waits, and works on a copy then.
      if (isDone) await (this.#released ?? lock.release())
      else lock.leave()
    }
  }

  async #outcome(): Promise<UploadOutcome> {
    const file = this.#file
    if (this.#state === 'untouched') return 'untouched'
    if (file !== null && (file.isCopy || this.#state === 'over quota' || this.lost.aborted)) {
      await file.discard()
      return 'removed'
    }
    if (file !== null) return { unfinished: file.size }
    // It wasn't opened: what was there before may be there yet.
    const left = await this.#parts.store.findUnfinished(this.#parts.name)
    return left === null ? 'removed' : { unfinished: left.size }
  }
}

const takenOver = () => new FtpError(426, 'another session has taken the upload over')

const overQuota = () =>
  new FtpError(552, 'the upload directory is full: remove files, or ask the operator for more room')

async function tellingFullDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isStagingFull(error) ? new FtpError(452, 'there is no space left on the server') : error
  }
}
