import { statfs } from 'node:fs/promises'
import { clock } from '../../runtime/clock.ts'
import { within } from '../../runtime/within.ts'
import { decimalMegabyte } from '../../values/byte-sizes.ts'

/** How long an answer of the file system is used, except by checks that need a fresh one. */
export const answerValidMs = 500

/** A file system that gives no answer for this time, as where its file server hangs, is unavailable. */
export const answerTimeoutMs = 5_000

/** Less space is free than the reserve, so nothing may be staged. */
export class DiskReserveReached extends Error {
  override readonly name = 'DiskReserveReached'
}

/**
 * Space that stays free on the disk of the staging. It is for what runs already: the database on the same disk,
 * uploads, and imports that only have to be finished. New work waits for more space.
 */
export class DiskReserve {
  readonly #folder: string
  readonly #bytes: number
  #readAt = -Infinity
  #isAnswered = true
  #free: Promise<number> = Promise.resolve(Infinity)

  /** `folder` must exist; 0 `bytes` mean no reserve. */
  constructor(folder: string, bytes: number) {
    this.#folder = folder
    this.#bytes = bytes
  }

  /** Throws DiskReserveReached while less space is free, and while the file system doesn't answer. */
  async check(): Promise<void> {
    if (this.#bytes === 0) return
    const now = clock.monotonicMs()
    if (this.#isAnswered && now - this.#readAt > answerValidMs) {
      this.#readAt = now
      this.#isAnswered = false
      this.#free = freeBytes(this.#folder).finally(() => (this.#isAnswered = true))
    }
    const free = await within(Math.max(0, this.#readAt + answerTimeoutMs - now), this.#free, null)
    if (free === null)
      throw new DiskReserveReached(
        `the file system of ${this.#folder} hasn't reported for ${Math.floor((clock.monotonicMs() - this.#readAt) / 1000)} s how much space is free: does its file server answer?`,
      )
    if (free >= this.#bytes) return
    throw new DiskReserveReached(
      `${this.#folder} has ${Math.floor(free / decimalMegabyte)} MB left, less than the reserve of ${this.#bytes / decimalMegabyte} MB (DISK_RESERVE_MB): free some space there`,
    )
  }
}

/** An error of the file system counts as enough space. */
async function freeBytes(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize
  } catch {
    return Infinity
  }
}
