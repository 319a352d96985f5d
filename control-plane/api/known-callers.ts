import { findCaller, hashKey, type Caller } from '../../shared/store/api-keys.ts'
import { clock } from '../../shared/runtime/clock.ts'
import { singleFlight } from './single-flight.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'

/** The API promises that changes of keys and users take effect within 5 s. */
const keptMs = 2_000
const maxKept = 10_000

/**
 * Caches callers for a moment, because looking up the key was half the cost of a short request. Changes of keys and
 * users by this process take effect at once, those by another process within two seconds.
 *
 * Requests that come together with a key that isn't cached share its look-up. Otherwise a thousand of one organization
 * would fill the connections to the database, and the others' look-ups would wait for all of them.
 */
export class KnownCallers {
  readonly #secret: Uint8Array
  readonly #lookUp: (key: string) => Promise<Caller | null>
  /** By the key's hash. Wrong keys aren't cached, because a client can send any number of them. */
  readonly #known = new Map<string, { caller: Caller; untilMs: number }>()
  #changes = 0

  constructor(collections: Collections, keyHashSecret: Uint8Array) {
    this.#secret = keyHashSecret
    this.#lookUp = singleFlight((key) => findCaller(collections, keyHashSecret, key))
  }

  /** Finds a key's caller; null when the key is wrong, or when it or its user is inactive. */
  async find(key: string): Promise<Caller | null> {
    const hash = hashKey(key, this.#secret).toString('base64')
    const untilMs = clock.monotonicMs() + keptMs
    const known = this.#known.get(hash)
    if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.caller
    this.#known.delete(hash)
    const changesBefore = this.#changes
    const caller = await this.#lookUp(key)
    if (caller !== null && this.#changes === changesBefore) {
      if (this.#known.size >= maxKept) this.#known.clear()
      this.#known.set(hash, { caller, untilMs })
    }
    return caller
  }

  /** Empties the cache. It must be called after a change of keys or users. */
  clear(): void {
    this.#changes += 1
    this.#known.clear()
  }
}
