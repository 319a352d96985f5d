import { statfs } from 'node:fs/promises'
import { clock } from '../../runtime/clock.ts'
import { within } from '../../runtime/within.ts'

/** How long an answer of the file system is taken for true. */
const freshMs = 500

/** A file server that hangs is not waited for any longer. */
const answerMs = 5_000

/** Nothing more is staged until there is more space on the disk. */
export class DiskReserveReached extends Error {
  override readonly name = 'DiskReserveReached'
}

/**
 * Space on the disk of the staging that stays free: what runs already (the database on the same disk, uploads, imports
 * that only have to be finished) needs it more than what would begin.
 */
export class DiskReserve {
  readonly #folder: string
  readonly #bytes: number
  #askedAt = -Infinity
  #isAnswered = true
  #free: Promise<number> = Promise.resolve(Infinity)

  /** `folder`: one that is there; `bytes`: 0 is without a reserve. */
  constructor(folder: string, bytes: number) {
    this.#folder = folder
    this.#bytes = bytes
  }

  /** Throws DiskReserveReached while less is free, and while the file system doesn't answer. */
  async check(): Promise<void> {
    if (this.#bytes === 0) return
    const now = clock.monotonicMs()
    if (this.#isAnswered && now - this.#askedAt > freshMs) {
      this.#askedAt = now
      this.#isAnswered = false
      this.#free = freeBytes(this.#folder).finally(() => (this.#isAnswered = true))
    }
    const free = await within(Math.max(0, this.#askedAt + answerMs - now), this.#free, null)
    if (free === null)
      throw new DiskReserveReached(
        `the file system of ${this.#folder} hasn't said for ${Math.floor((clock.monotonicMs() - this.#askedAt) / 1000)} s how much space it has: does its file server answer?`,
      )
    if (free >= this.#bytes) return
    throw new DiskReserveReached(
      `${this.#folder} has ${Math.floor(free / 1e6)} MB left, less than the reserve of ${this.#bytes / 1e6} MB (DISK_RESERVE_MB): free some space there`,
    )
  }
}

/** A file system that doesn't tell is taken for one with enough. */
async function freeBytes(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize
  } catch {
    return Infinity
  }
}
