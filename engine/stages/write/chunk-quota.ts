import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { HeldChunk } from '../../../shared/store/chunks.ts'
import {
  reserveQuota,
  readSubscriberLimit,
  type QuotaReservation,
} from '../../../shared/store/subscriber-quota.ts'
import { retryDelayMs, runTransaction } from './transaction.ts'

interface ChunkQuotaOptions {
  collections: Collections
  session: ClientSession
  chunk: HeldChunk
  isStopped: () => boolean
}

const pauses = { firstMs: 20, maxMs: 200 }
/** For one reservation, with its retries after write conflicts. */
export const reservationTimeoutMs = 30_000

/**
 * The part of the organization's subscriber limit that a chunk has reserved for its next rows, by the rules of
 * shared/store/subscriber-quota.ts. Without a limit it reserves nothing and asks for nothing.
 */
export class ChunkQuota {
  readonly #options: ChunkQuotaOptions
  /** The organization's limit, Infinity without one; null until it is read. */
  #limit: number | null = null
  /** The reservation for the whole chunk was refused: from then on each batch reserves for itself. */
  #wasRefused = false
  #reserved = 0
  #used: number
  #isExhausted = false

  constructor(options: ChunkQuotaOptions) {
    this.#options = options
    this.#used = options.chunk.quota_used
  }

  /** Rows that may become active in the next batch. */
  get free(): number {
    return this.#limit === Infinity ? Infinity : this.#reserved
  }

  /** Rows beyond `free` are over the limit: no other chunk has a reservation that it may give back. */
  get isExhausted(): boolean {
    return this.#isExhausted
  }

  /** Called before each batch. Reserves for all that is left of the chunk, but only where twice as much is free. */
  async prepare(records: number, recordsLeft: number): Promise<void> {
    this.#isExhausted = false
    const limit = await this.#readLimit()
    const isShort = this.#reserved === 0 && this.#wasRefused
    if (limit === Infinity || isShort || this.#reserved >= records) return
    const reservation = await this.#reserve(0, recordsLeft)
    this.#wasRefused = typeof reservation === 'object' && reservation.reserved === 0 && !reservation.isLast
  }

  /** Waits until `needed`, or all that is left, is reserved. False when the chunk was stopped or lost meanwhile. */
  async waitFor(needed: number): Promise<boolean> {
    for (let tries = 0; ; tries += 1) {
      const reservation = await this.#reserve(needed, needed)
      if (reservation === 'lost') return false
      if (reservation !== 'busy') return true
      await sleep(retryDelayMs(tries, pauses))
      if (this.#options.isStopped()) return false
    }
  }

  /** What the chunk's document says after a batch that uses `rows` of the quota. */
  after(rows: number): { reserved: number; used: number } {
    const isCounted = this.#limit !== Infinity && this.#options.chunk.dry_run
    return { reserved: Math.max(0, this.#reserved - rows), used: isCounted ? this.#used + rows : this.#used }
  }

  /** Records that a batch was committed that uses `rows` of the quota. */
  use(rows: number): void {
    const { reserved, used } = this.after(rows)
    this.#reserved = reserved
    this.#used = used
  }

  /** Read once a claim: a change of the limit takes running chunks from their holders. */
  async #readLimit(): Promise<number> {
    const { collections, chunk } = this.#options
    return (this.#limit ??= (await readSubscriberLimit(collections, chunk.organization_id)) ?? Infinity)
  }

  async #reserve(needed: number, wanted: number): Promise<QuotaReservation> {
    const { collections, session, chunk, isStopped } = this.#options
    const limit = await this.#readLimit()
    const transaction = await runTransaction({
      session,
      isStopped,
      timeoutMs: reservationTimeoutMs,
      attempt: async () => ({
        commit: await reserveQuota(collections, session, { chunk, limit, needed, wanted }),
      }),
    })
    const reservation = transaction.end === 'committed' ? transaction.value : 'lost'
    this.#reserved = typeof reservation === 'object' ? reservation.reserved : 0
    this.#isExhausted = typeof reservation === 'object' && reservation.isLast
    return reservation
  }
}
