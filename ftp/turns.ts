/** Work that is done one after the other where it has the same key. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  async take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const turn = Promise.withResolvers<null>()
    this.#last.set(key, turn.promise)
    try {
      await before
      return await work()
    } finally {
      if (this.#last.get(key) === turn.promise) this.#last.delete(key)
      turn.resolve(null)
    }
  }
}
