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
/** For one reservation, with its retries after write conflicts. */
const timeoutMs = 30_000

/** Thrown by an attempt of a batch whose rows need more quota than its chunk has reserved, which only the attempt finds. */
export class QuotaMissing extends Error {
  readonly needed: number

  constructor(needed: number) {
    super(`the batch needs a quota of ${needed} under the subscriber limit`)
    this.needed = needed
  }
}

/**
 * The part of the organization's subscriber limit that a chunk has reserved for its next rows, by the rules of
 * shared/store/subscriber-quota.ts. Without a limit it reserves nothing and asks for nothing.
 */
export class ChunkQuota {
  readonly #options: ChunkQuotaOptions
  #limit: { max: number | null } | null = null
  /** The reservation for the whole chunk was refused: from then on each batch reserves for itself. */
  #wasRefused = false
  #reserved = 0
  #used: number
  #isLast = false

  constructor(options: ChunkQuotaOptions) {
    this.#options = options
    this.#used = options.chunk.places_used
  }

  /** Rows that may become active in the next batch. */
  get free(): number {
    return this.#limit?.max === null ? Infinity : this.#reserved
  }

  /** Rows beyond `free` are over the limit: no running chunk has a reservation that it may give back. */
  get isExhausted(): boolean {
    return this.#isLast
  }

  /** Called before each batch. Reserves for all that is left of the chunk, but only where twice as much is free. */
  async prepare(records: number, recordsLeft: number): Promise<void> {
    this.#isLast = false
    // Read once a claim: a change of the limit takes running chunks from their holders.
    this.#limit ??= { max: await this.#options.limit() }
    const isShort = this.#reserved === 0 && this.#wasRefused
    if (this.#limit.max === null || isShort || this.#reserved >= records) return
    const reservation = await this.#reserve(0, recordsLeft)
    this.#wasRefused = typeof reservation === 'object' && reservation.reserved === 0 && !reservation.isLast
  }

  /** Waits until `needed`, or all that is left, is reserved. False when the chunk was stopped or lost meanwhile. */
  async waitFor(needed: number): Promise<boolean> {
    for (let tries = 0; ; tries += 1) {
      const reservation = await this.#reserve(needed, needed)
      if (reservation === 'lost') return false
      if (reservation !== 'busy') return true
      await sleep(Math.min(longestPauseMs, firstPauseMs * 2 ** tries) * (0.5 + Math.random()))
      if (this.#options.isStopped()) return false
    }
  }

  /** What the chunk's document says after a batch that uses `taken`. */
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
    let reservation: QuotaReservation = 'lost'
    const committed = await runTransaction({
      session,
      isStopped,
      timeoutMs,
      onRetry: () => undefined,
      attempt: async () => {
        reservation = await reserveQuota(collections, session, {
          chunk,
          limit: this.#limit!.max!,
          needed,
          wanted,
        })
      },
    })
    if (!committed) reservation = 'lost'
    // Narrowing doesn't see the assignment in the closure.
    const result = reservation as QuotaReservation
    this.#reserved = typeof result === 'object' ? result.reserved : 0
    this.#isLast = typeof result === 'object' && result.isLast
    return result
  }
}
