/**
 * Single-flight: a read that many requests want at the same moment is made once for all of them. A request that comes
 * while it is in flight shares the next one, so that no result is older than its request. Nothing is cached. Results
 * are shared, so callers must not change them.
 */
export function singleFlight<Key, Result>(
  read: (key: Key) => Promise<Result>,
): (key: Key) => Promise<Result> {
  const running = new Map<Key, Running<Result>>()
  return (key) => {
    const start = (): Promise<Result> => {
      const entry: Running<Result> = { current: read(key), next: null }
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
