import { statfs } from 'node:fs/promises'
import { clock } from '../../runtime/clock.ts'
import { within } from '../../runtime/within.ts'
import { decimalMegabyte } from '../../values/byte-sizes.ts'
import type { StagingLocation } from './open-staging.ts'

/** How long an answer of the file system is used, except by checks that need a fresh one. */
export const answerValidMs = 500

/** A file system that gives no answer for this time, as where its file server hangs, is unavailable. */
export const answerTimeoutMs = 5_000

/** Less space is free than the reserve. */
export class DiskReserveReached extends Error {
  override readonly name = 'DiskReserveReached'
}

/**
 * Space that stays free on the disk of DATA_DIR, for the database on the same disk: an embedded server whose disk is
 * full ends. With less, nothing is claimed, staged or uploaded; what runs stops after its batch or write and continues
 * when there is more.
 */
export class DiskReserve {
  readonly #folder: string
  readonly #bytes: number
  #readAt = -Infinity
  #isAnswered = true
  #free: Promise<number> = Promise.resolve(Infinity)

  /** DATA_DIR must exist. With STAGING=gridfs there is no reserve, because no file lies there. */
  constructor({ STAGING, DATA_DIR, DISK_RESERVE_MB = 0 }: StagingLocation) {
    this.#folder = DATA_DIR
    this.#bytes = STAGING === 'disk' ? DISK_RESERVE_MB * decimalMegabyte : 0
  }

  /** Throws DiskReserveReached with a problem. */
  async check(): Promise<void> {
    const problem = await this.problem()
    if (problem !== null) throw new DiskReserveReached(problem)
  }

  /** A sentence while less space is free than the reserve, or the file system doesn't answer; null otherwise. */
  async problem(): Promise<string | null> {
    if (this.#bytes === 0) return null
    const now = clock.monotonicMs()
    if (this.#isAnswered && now - this.#readAt > answerValidMs) {
      this.#readAt = now
      this.#isAnswered = false
      this.#free = freeBytes(this.#folder).finally(() => (this.#isAnswered = true))
    }
    const free = this.#isAnswered
      ? await this.#free
      : await within(Math.max(0, this.#readAt + answerTimeoutMs - now), this.#free, null)
    if (free === null)
      return `the file system of ${this.#folder} hasn't reported for ${Math.floor((clock.monotonicMs() - this.#readAt) / 1000)} s how much space is free: does its file server answer?`
    if (free >= this.#bytes) return null
    return `the disk is full: ${this.#folder} has ${Math.floor(free / decimalMegabyte)} MB left, less than the reserve of ${this.#bytes / decimalMegabyte} MB (DISK_RESERVE_MB); imports and uploads wait, and continue by themselves: free some space there`
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
