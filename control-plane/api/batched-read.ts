/**
 * Batch loader: point reads that are requested one by one are made together. While `maxConcurrent` reads are in flight,
 * further keys wait for the next one. A read begins after each of its keys was requested, so a result is never older
 * than its request. Round trips to the database are the main cost of a request, and sixteen concurrent ones share one.
 */
export function batchedRead<Key, Item>(
  read: (keys: Key[]) => Promise<Map<Key, Item>>,
  weigh: (key: Key) => number = () => 1,
): (key: Key) => Promise<Item | null> {
  const loader = new BatchLoader(read, weigh)
  return (key) => loader.find(key)
}

/** Two, so that a read that meets a slow disk doesn't delay those behind it. */
const maxConcurrent = 2
/** Maximum weight of one read: its query must stay far below 16 MB, and its reply must not grow without bound. */
const maxWeight = 4_000

interface Waiting<Key, Item> {
  key: Key
  resolve: (item: Item | null) => void
  reject: (error: unknown) => void
}

class BatchLoader<Key, Item> {
  readonly #read: (keys: Key[]) => Promise<Map<Key, Item>>
  readonly #weigh: (key: Key) => number
  #waiting: Waiting<Key, Item>[] = []
  #running = 0

  constructor(read: (keys: Key[]) => Promise<Map<Key, Item>>, weigh: (key: Key) => number) {
    this.#read = read
    this.#weigh = weigh
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
    const batch = this.#waiting.splice(0, this.#batchSize())
    this.#running += 1
    void this.#answer(batch).finally(() => {
      this.#running -= 1
      this.#begin()
    })
  }

  /** At least one key goes into a read, whatever it weighs. */
  #batchSize(): number {
    let weight = 0
    for (const [i, { key }] of this.#waiting.entries()) {
      weight += this.#weigh(key)
      if (i > 0 && weight > maxWeight) return i
    }
    return this.#waiting.length
  }

  async #answer(batch: Waiting<Key, Item>[]): Promise<void> {
    try {
      const found = await this.#read([...new Set(batch.map(({ key }) => key))])
      for (const { key, resolve } of batch) resolve(found.get(key) ?? null)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }
}
