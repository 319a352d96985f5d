import { clock } from '../../shared/runtime/clock.ts'
import type { Database } from '../../shared/runtime/database.ts'
import { releaseChunkUnder } from '../../shared/store/chunks.ts'
import { releaseStepUnder } from '../../shared/store/import-steps.ts'

/** A command takes no longer than its socket lives: shared/runtime/database.ts. */
const doubtMs = 60_000

/**
 * Tokens under which this engine may hold a chunk or a step without knowing, or without working on it any longer: the
 * database went away before it said what became of a claim or a release. Given back as soon as it answers, and again
 * for a while, because a claim that nobody waits for any more may still be on its way.
 */
export class DoubtfulClaims {
  readonly #database: Database
  readonly #engineId: string
  readonly #since = new Map<string, number>()

  constructor(database: Database, engineId: string) {
    this.#database = database
    this.#engineId = engineId
  }

  add(token: string): void {
    this.#since.set(token, clock.monotonicMs())
  }

  /** What the claim resolves to; a claim that throws leaves its token in doubt. */
  async claiming<T>(token: string, claim: Promise<T>): Promise<T> {
    try {
      return await claim
    } catch (error) {
      this.add(token)
      throw error
    }
  }

  /** Throws the database's errors; what is in doubt stays so. */
  async giveBack(): Promise<void> {
    const { collections } = this.#database
    for (const [token, since] of this.#since) {
      const claim = { engineId: this.#engineId, token }
      await releaseChunkUnder(collections, claim)
      await releaseStepUnder(collections, claim)
      if (clock.monotonicMs() - since > doubtMs) this.#since.delete(token)
    }
  }
}
