/**
 * Single-flight: a read that many requests want at the same moment is made once for all of them. A request that comes
 * while it is in flight shares the next one, so that no result is older than its request. Nothing is cached. Results
 * are shared, so callers must not change them.
 */
export function singleFlight<Owner extends object, Key, Result>(
  read: (owner: Owner, key: Key) => Promise<Result>,
): (owner: Owner, key: Key) => Promise<Result> {
  const reads = new WeakMap<Owner, Map<Key, Running<Result>>>()
  return (owner, key) => {
    const running = reads.get(owner) ?? new Map<Key, Running<Result>>()
    reads.set(owner, running)
    const start = (): Promise<Result> => {
      const entry: Running<Result> = { current: read(owner, key), next: null }
      running.set(key, entry)
      const end = () => {
        if (entry.next === null) running.delete(key)
      }
      entry.current.then(end, end)
      return entry.current
    }
    const before = running.get(key)
    if (before === undefined) return start()
    return (before.next ??= before.current.then(start, start))
  }
}

interface Running<Result> {
  current: Promise<Result>
  /** For requests that came since `current` began. */
  next: Promise<Result> | null
}
