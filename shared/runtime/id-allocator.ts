import type { Collections } from '../contract/schemas/collections.ts'

interface Waiting {
  amount: number
  resolve: (first: Promise<number>) => void
}

/**
 * Allocates ids of all kinds, outside of transactions, because gaps are allowed. Request coalescing: calls during a write
 * of a kind's counter share the next write, so that sixteen creations at once cost two writes at most. Each id is
 * allocated after its call. So a document that is created after the counter was read has a higher id than was read.
 */
export class IdAllocators {
  readonly #counters: Collections['counters']
  /** By kind, the calls that wait for the write in progress; without an entry none is in progress. */
  readonly #waiting = new Map<string, Waiting[]>()

  constructor({ counters }: Pick<Collections, 'counters'>) {
    this.#counters = counters
  }

  /** Resolves to the first of `amount` consecutive ids. */
  allocate(kind: string, amount = 1): Promise<number> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(kind)
      if (waiting === undefined) void this.#allocateBatches(kind, [{ amount, resolve }])
      else waiting.push({ amount, resolve })
    })
  }

  async #allocateBatches(kind: string, first: Waiting[]): Promise<void> {
    for (let batch = first; batch.length > 0; batch = this.#waiting.get(kind) ?? []) {
      this.#waiting.set(kind, [])
      const total = batch.reduce((sum, { amount }) => sum + amount, 0)
      const end = this.#raise(kind, total)
      let left = total
      for (const { amount, resolve } of batch) {
        const beforeEnd = left
        resolve(end.then((id) => id - beforeEnd))
        left -= amount
      }
      await end.catch(() => undefined)
    }
    this.#waiting.delete(kind)
  }

  /** Resolves to the id after the last allocated one. */
  async #raise(kind: string, amount: number): Promise<number> {
    const counter = await this.#counters.findOneAndUpdate(
      { _id: kind },
      [{ $set: { next: { $add: [{ $ifNull: ['$next', 1] }, amount] } } }],
      { upsert: true, returnDocument: 'after' },
    )
    return counter!.next
  }
}
