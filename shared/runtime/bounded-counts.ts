/** Counts by key, each up to `max`. */
export class BoundedCounts<Key> {
  readonly #max: number
  readonly #counts = new Map<Key, number>()

  constructor(max: number) {
    this.#max = max
  }

  /** Counts one more; false, and not counted, when there are `max` already. */
  add(key: Key): boolean {
    if (this.isFull(key)) return false
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    return true
  }

  isFull(key: Key): boolean {
    return (this.#counts.get(key) ?? 0) >= this.#max
  }

  remove(key: Key): void {
    const count = (this.#counts.get(key) ?? 0) - 1
    if (count > 0) this.#counts.set(key, count)
    else this.#counts.delete(key)
  }
}

/** What one key of the role `uploads` gets of its organization's share of anything. */
export const halfOf = (share: number): number => Math.max(1, Math.floor(share / 2))
