import { findCaller, hashKey, type Caller } from '../../shared/store/api-keys.ts'
import { clock } from '../../shared/runtime/clock.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'

/** Changes of keys and users take effect within 5 s. */
const keptMs = 2_000
const maxKept = 10_000

/**
 * The callers of the last moment, so that a busy client's key isn't looked up for each of its requests: that was half
 * of what a short request cost. What this process changes about keys and users takes effect at once, what another one
 * changes within two seconds.
 */
export class KnownCallers {
  readonly #collections: Collections
  readonly #secret: Uint8Array
  /** By the key's hash. Wrong keys aren't kept: anybody can make any number of them. */
  readonly #known = new Map<string, { caller: Caller; untilMs: number }>()
  #changes = 0

  constructor(collections: Collections, keyHashSecret: Uint8Array) {
    this.#collections = collections
    this.#secret = keyHashSecret
  }

  /** The caller that a key stands for; null for a key that is wrong, inactive, or of a user who is. */
  async find(key: string): Promise<Caller | null> {
    const hash = hashKey(key, this.#secret).toString('base64')
    const untilMs = clock.monotonicMs() + keptMs
    const known = this.#known.get(hash)
    if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.caller
    this.#known.delete(hash)
    const changesBefore = this.#changes
    const caller = await findCaller(this.#collections, this.#secret, key)
    if (caller !== null && this.#changes === changesBefore) {
      if (this.#known.size >= maxKept) this.#known.clear()
      this.#known.set(hash, { caller, untilMs })
    }
    return caller
  }

  /** After a change of keys or users. */
  forget(): void {
    this.#changes += 1
    this.#known.clear()
  }
}
