/**
 * Group commit: writes with one key share a transaction. Those that come while a group is in flight make the next
 * group. A write that is alone begins at once, and sixteen at a time cost little more than two.
 */
export class WriteCoalescer<Key, Item, Result> {
  readonly #write: WriteGroup<Key, Item, Result>
  /** By key; an entry is there while a group of its key is in flight. */
  readonly #queues = new Map<Key, Waiting<Item, Result>[]>()

  /** `write` resolves when the next group may begin, to a promise of each item's result, which may take longer. */
  constructor(write: WriteGroup<Key, Item, Result>) {
    this.#write = write
  }

  add(key: Key, item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(key)
      if (queue !== undefined) {
        queue.push({ item, resolve, reject })
        return
      }
      const newQueue = [{ item, resolve, reject }]
      this.#queues.set(key, newQueue)
      void this.#run(key, newQueue)
    })
  }

  async #run(key: Key, queue: Waiting<Item, Result>[]): Promise<void> {
    while (queue.length > 0) {
      const group = queue.splice(0, maxGroupSize)
      try {
        const items = group.map(({ item }) => item)
        const results = await this.#write(items, key)
        for (const [i, result] of results.entries()) group[i]?.resolve(result)
      } catch (error) {
        for (const { reject } of group) reject(error)
      }
    }
    this.#queues.delete(key)
  }
}

const maxGroupSize = 64

type WriteGroup<Key, Item, Result> = (items: readonly Item[], key: Key) => Promise<Promise<Result>[]>

interface Waiting<Item, Result> {
  item: Item
  resolve: (result: Promise<Result>) => void
  reject: (error: unknown) => void
}
