import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import {
  isUploadLocked,
  releaseUploadLock,
  renewUploadLock,
  takeUploadLock,
  uploadRenewalMs,
  type UploadLockHolder,
} from './upload-locks.ts'
import { newUploadToken } from '../../shared/storage/uploads/upload-names.ts'

/** How long a session waits for another one to end: that of a client which broke off and comes back at once. */
const timeoutMs = 1_500
const retryMs = 50

/** An upload's right to its file, against sessions of any process on any machine. Renewed until it is released. */
export class UploadLock {
  /** Who had it before didn't give it back, and may still have the file open. */
  readonly wasLeft: boolean
  readonly #collections: Collections
  readonly #holder: UploadLockHolder
  readonly #log: Logger
  readonly #lost = new AbortController()
  readonly #released = new AbortController()
  #confirmedAt: number

  /** Null when somebody else uploads the file and doesn't come to an end. */
  static async take(collections: Collections, id: string, log: Logger): Promise<UploadLock | null> {
    const holder = { id, token: newUploadToken() }
    const until = clock.monotonicMs() + timeoutMs
    for (;;) {
      const askedAt = clock.monotonicMs()
      const found = await takeUploadLock(collections, holder)
      if (found !== null)
        return new UploadLock(collections, { holder, log, wasLeft: found === 'left', askedAt })
      if (clock.monotonicMs() > until) return null
      await sleep(retryMs)
    }
  }

  /** Resolves when nobody uploads the file, or when whoever does is not about to end. */
  static async awaitEnd(collections: Collections, id: string): Promise<void> {
    const until = clock.monotonicMs() + timeoutMs
    while ((await isUploadLocked(collections, id)) && clock.monotonicMs() < until) await sleep(retryMs)
  }

  private constructor(
    collections: Collections,
    {
      holder,
      log,
      wasLeft,
      askedAt,
    }: { holder: UploadLockHolder; log: Logger; wasLeft: boolean; askedAt: number },
  ) {
    this.#confirmedAt = askedAt
    this.#collections = collections
    this.#holder = holder
    this.#log = log
    this.wasLeft = wasLeft
    void this.#keep()
  }

  get token(): string {
    return this.#holder.token
  }

  /** Aborted when somebody else took it, which happens to a process that was suspended. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Asks the database whether it is still ours; throws when that doesn't answer. */
  async confirm(): Promise<boolean> {
    const askedAt = clock.monotonicMs()
    if (!this.lost.aborted && !(await renewUploadLock(this.#collections, this.#holder))) this.#lost.abort()
    this.#confirmedAt = askedAt
    return !this.lost.aborted
  }

  /** The same, and the database is asked only when the process may have been suspended since it was the last time. */
  async isStillLocked(): Promise<boolean> {
    return clock.monotonicMs() - this.#confirmedAt < 2 * uploadRenewalMs ? !this.lost.aborted : this.confirm()
  }

  /** Renews it no longer and doesn't give it back either. */
  leave(): void {
    this.#released.abort()
  }

  async release(): Promise<void> {
    this.#released.abort()
    try {
      await releaseUploadLock(this.#collections, this.#holder)
    } catch (error) {
      this.#log.warn({ err: error }, 'the lock of an upload was not given back, it runs out by itself')
    }
  }

  async #keep(): Promise<void> {
    const { signal } = this.#released
    while (!signal.aborted && !this.lost.aborted) {
      try {
        await sleep(uploadRenewalMs, undefined, { signal })
        await this.confirm()
      } catch (error) {
        // Nobody takes the lock while the database is away; whether it is ours still is asked at the end of the upload.
        if (!signal.aborted) this.#log.warn({ err: error }, 'the lock of an upload was not renewed')
      }
    }
  }
}
