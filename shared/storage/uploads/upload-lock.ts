import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/logger.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import {
  acquireUploadLock,
  expireUploadLock,
  isUploadLocked,
  releaseUploadLock,
  renewUploadLock,
  uploadRenewalMs,
  type UploadLockHolder,
} from '../../store/upload-locks.ts'
import { newUploadToken } from './upload-names.ts'

/** How long a session waits for the end of another one: a client that was cut off often reconnects at once. */
const timeoutMs = 1_500
const retryMs = 50

/**
 * An upload's exclusive right to its file name, against sessions of all processes and machines. The lease is renewed
 * until the lock is released.
 */
export class UploadLock {
  /** The previous holder didn't release the lock, and may still have the file open. */
  readonly isAfterExpiry: boolean
  readonly #collections: Collections
  readonly #holder: UploadLockHolder
  readonly #log: Logger
  readonly #lost = new AbortController()
  readonly #released = new AbortController()
  /** The content that the previous holder may have open is no longer the name's. */
  #isContentReplaced = false
  #confirmedAt: number

  /** Null when another session is uploading the file and doesn't end within the timeout. */
  static async acquire(collections: Collections, id: string, log: Logger): Promise<UploadLock | null> {
    const holder = { id, token: newUploadToken() }
    const deadline = clock.monotonicMs() + timeoutMs
    for (;;) {
      const confirmedAt = clock.monotonicMs()
      const outcome = await acquireUploadLock(collections, holder)
      if (outcome !== null)
        return new UploadLock(collections, {
          holder,
          log,
          isAfterExpiry: outcome === 'expired',
          confirmedAt,
        })
      if (clock.monotonicMs() > deadline) return null
      await sleep(retryMs)
    }
  }

  /** Resolves when the file has no upload in progress, or after the timeout. */
  static async waitUntilFree(collections: Collections, id: string): Promise<void> {
    const deadline = clock.monotonicMs() + timeoutMs
    while ((await isUploadLocked(collections, id)) && clock.monotonicMs() < deadline) await sleep(retryMs)
  }

  private constructor(
    collections: Collections,
    options: { holder: UploadLockHolder; log: Logger; isAfterExpiry: boolean; confirmedAt: number },
  ) {
    this.#collections = collections
    this.#holder = options.holder
    this.#log = options.log
    this.isAfterExpiry = options.isAfterExpiry
    this.#confirmedAt = options.confirmedAt
    void this.#renewUntilReleased()
  }

  get token(): string {
    return this.#holder.token
  }

  /** Aborted when another session has acquired the lock, as after a suspension of this process. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Whether the database still names this holder. Throws the database's errors. */
  async confirm(): Promise<boolean> {
    const askedAt = clock.monotonicMs()
    if (!this.lost.aborted && !(await renewUploadLock(this.#collections, this.#holder))) this.#lost.abort()
    this.#confirmedAt = askedAt
    return !this.lost.aborted
  }

  /** `confirm` that asks the database only when a suspension of this process may have outlasted the renewals. */
  async isStillLocked(): Promise<boolean> {
    return clock.monotonicMs() - this.#confirmedAt < 2 * uploadRenewalMs ? !this.lost.aborted : this.confirm()
  }

  /** To call when the content of the previous holder was copied or removed, so that its writes change nothing. */
  markContentReplaced(): void {
    this.#isContentReplaced = true
  }

  /** Stops renewing without a release: the lock expires by itself. */
  letExpire(): void {
    this.#released.abort()
  }

  /**
   * Where the previous holder may still write into the content, the lock is left as an expired one. The next holder then
   * makes a copy too.
   */
  async release(): Promise<void> {
    this.#released.abort()
    const isAbandoned = this.isAfterExpiry && !this.#isContentReplaced
    try {
      await (isAbandoned ? expireUploadLock : releaseUploadLock)(this.#collections, this.#holder)
    } catch (error) {
      this.#log.warn({ err: error }, 'the lock of an upload was not released; it expires by itself')
    }
  }

  async #renewUntilReleased(): Promise<void> {
    const { signal } = this.#released
    while (!signal.aborted && !this.lost.aborted) {
      try {
        await sleep(uploadRenewalMs, undefined, { signal })
        await this.confirm()
      } catch (error) {
        // No session can acquire the lock while the database is down. The upload confirms the lock again at its end.
        if (!signal.aborted) this.#log.warn({ err: error }, 'the lock of an upload was not renewed')
      }
    }
  }
}
