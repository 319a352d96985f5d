import { setTimeout as sleep } from 'node:timers/promises'

/** What the work resolves to, or `late` when it hasn't ended after `ms`. The work isn't ended by that. */
export async function within<T, L>(ms: number, work: Promise<T>, late: L): Promise<T | L> {
  const ended = new AbortController()
  try {
    return await Promise.race([work, sleep(ms, late, { signal: ended.signal, ref: false })])
  } finally {
    ended.abort()
  }
}
