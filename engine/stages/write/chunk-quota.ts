import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { ChunkDocument } from '../../../shared/contract/schemas/import.ts'
import { reserveQuota, type QuotaReservation } from '../../../shared/store/subscriber-quota.ts'
import { runTransaction } from './transaction.ts'

export interface ChunkQuotaOptions {
  collections: Collections
  session: ClientSession
  chunk: ChunkDocument & { token: string }
  /** Reads the organization's limit. */
  limit: () => Promise<number | null>
  isStopped: () => boolean
}

const firstPauseMs = 20
const longestPauseMs = 200
/** For one look at what is free, conflicts with others included. */
const timeoutMs = 30_000

/** Thrown by a batch's attempt that needs more places than its chunk holds, which nobody knows before it has looked. */
export class QuotaMissing extends Error {
  readonly needed: number

  constructor(needed: number) {
    super(`${needed} places under the subscriber limit are needed`)
    this.needed = needed
  }
}

/**
 * The places under the organization's subscriber limit that a chunk holds for its next rows: shared/store/subscriber-quota.ts
 * says by which rules. Without a limit there is nothing to hold and nothing is asked.
 */
export class ChunkQuota {
  readonly #options: ChunkQuotaOptions
  #limit: { max: number | null } | null = null
  /** The chunk's whole need couldn't be had at once: from then on each batch asks for its own. */
  #wasRefused = false
  #reserved = 0
  #used: number
  #isLast = false

  constructor(options: ChunkQuotaOptions) {
    this.#options = options
    this.#used = options.chunk.places_used
  }

  /** Rows that may take a place in the next batch. */
  get free(): number {
    return this.#limit?.max === null ? Infinity : this.#reserved
  }

  /** Rows beyond `free` are over the limit, and not merely in want of places that could be had. */
  get isExhausted(): boolean {
    return this.#isLast
  }

  /** Before a batch of so many records, with so many left in the chunk. Holds nothing that others may be in want of. */
  async prepare(records: number, recordsLeft: number): Promise<void> {
    this.#isLast = false
    // Read when the chunk was claimed: whoever changes the limit takes running chunks from their holders.
    this.#limit ??= { max: await this.#options.limit() }
    const isShort = this.#reserved === 0 && this.#wasRefused
    if (this.#limit.max === null || isShort || this.#reserved >= records) return
    const reserved = await this.#reserve(0, recordsLeft)
    this.#wasRefused = typeof reserved === 'object' && reserved.reserved === 0 && !reserved.isLast
  }

  /** Waits until the chunk holds so many places, or all that are left. False when it was stopped or lost meanwhile. */
  async waitFor(needed: number): Promise<boolean> {
    for (let tries = 0; ; tries += 1) {
      const reserved = await this.#reserve(needed, needed)
      if (reserved === 'lost') return false
      if (reserved !== 'busy') return true
      await sleep(Math.min(longestPauseMs, firstPauseMs * 2 ** tries) * (0.5 + Math.random()))
      if (this.#options.isStopped()) return false
    }
  }

  /** What the chunk's document says after a batch that takes so many. */
  after(taken: number): { reserved: number; used: number } {
    const { dry_run: isDryRun } = this.#options.chunk
    return {
      reserved: Math.max(0, this.#reserved - taken),
      used: this.#limit?.max !== null && isDryRun ? this.#used + taken : this.#used,
    }
  }

  /** The batch was committed. */
  take(taken: number): void {
    const { reserved, used } = this.after(taken)
    this.#reserved = reserved
    this.#used = used
  }

  async #reserve(needed: number, wanted: number): Promise<QuotaReservation> {
    const { collections, session, chunk, isStopped } = this.#options
    let reserved: QuotaReservation = 'lost'
    const committed = await runTransaction({
      session,
      isStopped,
      timeoutMs,
      onRetry: () => undefined,
      attempt: async () => {
        reserved = await reserveQuota(collections, session, {
          chunk,
          limit: this.#limit!.max!,
          needed,
          wanted,
        })
      },
    })
    if (!committed) reserved = 'lost'
    // Narrowing doesn't see the assignment in the closure.
    const result = reserved as QuotaReservation
    this.#reserved = typeof result === 'object' ? result.reserved : 0
    this.#isLast = typeof result === 'object' && result.isLast
    return result
  }
}
