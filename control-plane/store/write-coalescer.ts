/**
 * Group commit: writes with one key share a transaction. Those that come while a group is in flight make the next group, so
 * a write that is alone begins at once, and sixteen at a time cost little more than two.
 */
export class WriteCoalescer<Key, Item, Result> {
  readonly #write: (items: readonly Item[]) => Promise<Promise<Result>[]>
  /** By key; an entry is there while a group of its key is in flight. */
  readonly #waiting = new Map<Key, Waiting<Item, Result>[]>()

  /** `write` resolves, when the next group may begin, to what becomes of each item, which may take longer. */
  constructor(write: (items: readonly Item[]) => Promise<Promise<Result>[]>) {
    this.#write = write
  }

  add(key: Key, item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(key)
      if (waiting !== undefined) {
        waiting.push({ item, resolve, reject })
        return
      }
      this.#waiting.set(key, [])
      void this.#run(key, [{ item, resolve, reject }])
    })
  }

  async #run(key: Key, first: Waiting<Item, Result>[]): Promise<void> {
    for (let group = first; group.length > 0; group = this.#waiting.get(key)!.splice(0, maxGroupSize)) {
      try {
        const results = await this.#write(group.map(({ item }) => item))
        for (const [i, { resolve }] of group.entries()) resolve(results[i]!)
      } catch (error) {
        for (const { reject } of group) reject(error as Error)
      }
    }
    this.#waiting.delete(key)
  }
}

const maxGroupSize = 64

interface Waiting<Item, Result> {
  item: Item
  resolve: (result: Promise<Result>) => void
  reject: (error: Error) => void
}
