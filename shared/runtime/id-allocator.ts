import type { Collections } from '../contract/schemas/collections.ts'

/**
 * Allocates ids of one kind. Requests that come while a write of the counter is in flight share the next write: sixteen
 * creations at once cost one write instead of sixteen that wait for each other. An id is always allocated after it was
 * asked for, so what is created after the counter was read has a higher id than was read.
 */
export class IdAllocator {
  readonly #counters: Collections['counters']
  readonly #kind: string
  #waiting: Waiting[] = []
  #isDrawing = false

  constructor({ counters }: Collections, kind: string) {
    this.#counters = counters
    this.#kind = kind
  }

  /** The first of so many ids in a row. */
  take(amount: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ amount, resolve, reject })
      if (!this.#isDrawing) void this.#draw()
    })
  }

  async #draw(): Promise<void> {
    this.#isDrawing = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      const total = group.reduce((sum, { amount }) => sum + amount, 0)
      try {
        let next = (await this.#raise(total)) - total
        for (const { amount, resolve } of group) {
          resolve(next)
          next += amount
        }
      } catch (error) {
        for (const { reject } of group) reject(error as Error)
      }
    }
    this.#isDrawing = false
  }

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
  resolve: (first: number) => void
  reject: (error: Error) => void
}
