import type { Collections } from '../contract/schemas/collections.ts'

/** Allocates ids of all kinds, outside of transactions, because gaps are allowed. */
export class IdAllocators {
  readonly #collections: Collections
  readonly #byKind = new Map<string, IdAllocator>()

  constructor(collections: Collections) {
    this.#collections = collections
  }

  /** Resolves to the first of `amount` consecutive ids. */
  allocate(kind: string, amount = 1): Promise<number> {
    let allocator = this.#byKind.get(kind)
    if (allocator === undefined)
      this.#byKind.set(kind, (allocator = new IdAllocator(this.#collections, kind)))
    return allocator.allocate(amount)
  }
}

/**
 * Allocates ids of one kind. Request coalescing: calls during a write of the counter share the next write, so that
 * sixteen creations at once cost two writes at most. Each id is allocated after its call. So a document that is created
 * after the counter was read has a higher id than was read.
 */
class IdAllocator {
  readonly #counters: Collections['counters']
  readonly #kind: string
  #waiting: Waiting[] = []
  #isAllocating = false

  constructor({ counters }: Collections, kind: string) {
    this.#counters = counters
    this.#kind = kind
  }

  allocate(amount: number): Promise<number> {
    return new Promise((resolve) => {
      this.#waiting.push({ amount, resolve })
      if (!this.#isAllocating) void this.#allocateGroups()
    })
  }

  async #allocateGroups(): Promise<void> {
    this.#isAllocating = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      const total = group.reduce((sum, { amount }) => sum + amount, 0)
      const end = this.#raise(total)
      let left = total
      for (const { amount, resolve } of group) {
        const beforeEnd = left
        resolve(end.then((id) => id - beforeEnd))
        left -= amount
      }
      await end.catch(() => undefined)
    }
    this.#isAllocating = false
  }

  /** Resolves to the id after the last allocated one. */
  async #raise(amount: number): Promise<number> {
    const counter = await this.#counters.findOneAndUpdate(
      { _id: this.#kind },
      [{ $set: { next: { $add: [{ $ifNull: ['$next', 1] }, amount] } } }],
      { upsert: true, returnDocument: 'after' },
    )
    return counter!.next
  }
}

interface Waiting {
  amount: number
  resolve: (first: Promise<number>) => void
}
