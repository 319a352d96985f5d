import { setTimeout as sleep } from 'node:timers/promises'

/** Resolves to the result of `work`, or to `late` after `ms`. The work isn't cancelled. */
export async function within<T, L>(ms: number, work: Promise<T>, late: L): Promise<T | L> {
  const ended = new AbortController()
  try {
    return await Promise.race([work, sleep(ms, late, { signal: ended.signal, ref: false })])
  } finally {
    ended.abort()
  }
}
