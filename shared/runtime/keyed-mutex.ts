/** Work on the same thing, by key, one after the other in the order in which it came. */
export class KeyedMutex<Key> {
  readonly #last = new Map<Key, Promise<unknown>>()

  take<T>(key: Key, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const mine = before === undefined ? work() : before.then(work, work)
    this.#last.set(key, mine)
    const end = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
    mine.then(end, end)
    return mine
  }
}
