import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { ChunkDocument } from '../../../shared/contract/schemas/import.ts'
import { holdPlaces, type PlacesHeld } from '../../../shared/store/subscriber-quota.ts'
import { runTransaction } from './transaction.ts'

export interface ChunkPlacesOptions {
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
const patienceMs = 30_000

/** Thrown by a batch's attempt that needs more places than its chunk holds, which nobody knows before it has looked. */
export class PlacesMissing extends Error {
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
export class ChunkPlaces {
  readonly #options: ChunkPlacesOptions
  #limit: { most: number | null } | null = null
  /** The chunk's whole need couldn't be had at once: from then on each batch asks for its own. */
  #askedInVain = false
  #held = 0
  #used: number
  #isLast = false

  constructor(options: ChunkPlacesOptions) {
    this.#options = options
    this.#used = options.chunk.places_used
  }

  /** Rows that may take a place in the next batch. */
  get free(): number {
    return this.#limit?.most === null ? Infinity : this.#held
  }

  /** Rows beyond `free` are over the limit, and not merely in want of places that could be had. */
  get areLast(): boolean {
    return this.#isLast
  }

  /** Before a batch of so many records, with so many left in the chunk. Holds nothing that others may be in want of. */
  async prepare(records: number, recordsLeft: number): Promise<void> {
    this.#isLast = false
    // Read when the chunk was claimed: whoever changes the limit takes running chunks from their holders.
    this.#limit ??= { most: await this.#options.limit() }
    const isShort = this.#held === 0 && this.#askedInVain
    if (this.#limit.most === null || isShort || this.#held >= records) return
    const held = await this.#hold(0, recordsLeft)
    this.#askedInVain = typeof held === 'object' && held.held === 0 && !held.isLast
  }

  /** Waits until the chunk holds so many places, or all that are left. False when it was stopped or lost meanwhile. */
  async demand(needed: number): Promise<boolean> {
    for (let tries = 0; ; tries += 1) {
      const held = await this.#hold(needed, needed)
      if (held === 'lost') return false
      if (held !== 'busy') return true
      await sleep(Math.min(longestPauseMs, firstPauseMs * 2 ** tries) * (0.5 + Math.random()))
      if (this.#options.isStopped()) return false
    }
  }

  /** What the chunk's document says after a batch that takes so many. */
  after(taken: number): { held: number; used: number } {
    const { dry_run: isDryRun } = this.#options.chunk
    return {
      held: Math.max(0, this.#held - taken),
      used: this.#limit?.most !== null && isDryRun ? this.#used + taken : this.#used,
    }
  }

  /** The batch was committed. */
  take(taken: number): void {
    const { held, used } = this.after(taken)
    this.#held = held
    this.#used = used
  }

  async #hold(needed: number, wanted: number): Promise<PlacesHeld> {
    const { collections, session, chunk, isStopped } = this.#options
    let held: PlacesHeld = 'lost'
    const committed = await runTransaction({
      session,
      isStopped,
      patienceMs,
      onRetry: () => undefined,
      attempt: async () => {
        held = await holdPlaces(collections, session, { chunk, limit: this.#limit!.most!, needed, wanted })
      },
    })
    if (!committed) held = 'lost'
    // Narrowing doesn't see the assignment in the closure.
    const result = held as PlacesHeld
    this.#held = typeof result === 'object' ? result.held : 0
    this.#isLast = typeof result === 'object' && result.isLast
    return result
  }
}
