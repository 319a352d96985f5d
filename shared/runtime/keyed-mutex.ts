/** Runs work with the same key one at a time, in the order of the calls. */
export class KeyedMutex<Key> {
  readonly #last = new Map<Key, Promise<unknown>>()

  runExclusive<T>(key: Key, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const running = before === undefined ? work() : before.then(work, work)
    this.#last.set(key, running)
    const end = () => {
      if (this.#last.get(key) === running) this.#last.delete(key)
    }
    running.then(end, end)
    return running
  }
}
