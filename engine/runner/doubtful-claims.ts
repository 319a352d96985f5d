import { clock } from '../../shared/runtime/clock.ts'
import type { Database } from '../../shared/runtime/database.ts'
import { releaseClaim } from '../../shared/store/work-leases.ts'

/** A command ends at the latest with its socket's timeout, see shared/runtime/database.ts. */
const doubtMs = 60_000

/**
 * Tokens whose lease this engine may have without working on it, because the database went away before it answered a claim
 * or a release. They are released as soon as the database answers. The release is repeated for a while, because the claim
 * may still be on its way and be carried out later.
 */
export class DoubtfulClaims {
  readonly #database: Database
  readonly #engineId: string
  readonly #since = new Map<string, number>()

  constructor(database: Database, engineId: string) {
    this.#database = database
    this.#engineId = engineId
  }

  get isEmpty(): boolean {
    return this.#since.size === 0
  }

  add(token: string): void {
    this.#since.set(token, clock.monotonicMs())
  }

  /** Resolves to what the claim resolves to. When the claim throws, its token is added. */
  async track<T>(token: string, claim: Promise<T>): Promise<T> {
    try {
      return await claim
    } catch (error) {
      this.add(token)
      throw error
    }
  }

  /** Releases the leases of all tokens. Throws the database's errors, and then keeps the tokens. */
  async release(): Promise<void> {
    const { collections } = this.#database
    for (const [token, since] of this.#since) {
      await releaseClaim(collections, { engineId: this.#engineId, token })
      if (clock.monotonicMs() - since > doubtMs) this.#since.delete(token)
    }
  }
}
