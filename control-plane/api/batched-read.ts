/**
 * Batch loader: point reads that are asked for one by one are made together. While `maxConcurrent` reads are in flight,
 * further keys wait for the next one. A read begins after each of its keys was asked for, so an answer is never older than
 * its question. Round trips to the database are what a request costs, and sixteen requests at once share one.
 */
export function batchedRead<Owner extends object, Key, Item>(
  read: (owner: Owner, keys: Key[]) => Promise<Map<Key, Item>>,
  weightOf: (key: Key) => number = () => 1,
): (owner: Owner, key: Key) => Promise<Item | null> {
  const loaders = new WeakMap<Owner, BatchLoader<Key, Item>>()
  return (owner, key) => {
    let loader = loaders.get(owner)
    if (loader === undefined)
      loaders.set(owner, (loader = new BatchLoader((keys) => read(owner, keys), weightOf)))
    return loader.find(key)
  }
}

/** Two, so that a read that meets a slow disk doesn't delay those behind it. */
const maxConcurrent = 2
/** Of all keys of one read: a query must stay far below the 16 MB of a document, and no reply may grow without bound. */
const maxWeight = 4_000

interface Waiting<Key, Item> {
  key: Key
  resolve: (item: Item | null) => void
  reject: (error: unknown) => void
}

class BatchLoader<Key, Item> {
  readonly #read: (keys: Key[]) => Promise<Map<Key, Item>>
  readonly #weightOf: (key: Key) => number
  #waiting: Waiting<Key, Item>[] = []
  #running = 0

  constructor(read: (keys: Key[]) => Promise<Map<Key, Item>>, weightOf: (key: Key) => number) {
    this.#read = read
    this.#weightOf = weightOf
  }

  find(key: Key): Promise<Item | null> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve, reject })
      // Requests whose bytes came together are handled in one round of the event loop, and share one read.
      if (this.#waiting.length === 1) setImmediate(() => this.#begin())
    })
  }

  #begin(): void {
    if (this.#running >= maxConcurrent || this.#waiting.length === 0) return
    let weight = this.#weightOf(this.#waiting[0]!.key)
    let size = 1
    while (size < this.#waiting.length) {
      weight += this.#weightOf(this.#waiting[size]!.key)
      if (weight > maxWeight) break
      size += 1
    }
    const group = this.#waiting.splice(0, size)
    this.#running += 1
    void this.#answer(group).finally(() => {
      this.#running -= 1
      this.#begin()
    })
  }

  async #answer(group: Waiting<Key, Item>[]): Promise<void> {
    try {
      const found = await this.#read([...new Set(group.map(({ key }) => key))])
      for (const { key, resolve } of group) resolve(found.get(key) ?? null)
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }
}
