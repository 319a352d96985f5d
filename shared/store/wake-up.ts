import { setTimeout as sleep } from 'node:timers/promises'
import type { Collections } from '../contract/schemas/collections.ts'

/**
 * A bell at the engines' door: a capped collection, at whose end they wait. It only wakes: an engine looks by itself
 * every second anyway, so a ring that is lost costs a second. (A change stream would wake as well, and make the server
 * read every subscriber that is written.)
 */
export async function notifyEngines(collections: Collections, reason: string): Promise<void> {
  await collections.doorbell.insertOne({ reason }).catch(() => undefined)
}

const waitMs = 5_000
const reopenMs = 1_000

/** Calls `onNotify` for every ring from now on, until the signal. */
export async function listenForWakeUps(
  collections: Collections,
  onNotify: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      // A cursor on an empty collection ends at once, so there is always a last ring to wait behind.
      const { insertedId: last } = await collections.doorbell.insertOne({ reason: 'listening' })
      const cursor = collections.doorbell.find(
        { _id: { $gte: last } },
        {
          tailable: true,
          awaitData: true,
          maxAwaitTimeMS: waitMs,
          // A wake-up may be early; a majority read would make it late.
          readConcern: { level: 'local' },
        },
      )
      const close = () => void cursor.close().catch(() => undefined)
      signal.addEventListener('abort', close, { once: true })
      try {
        for await (const _ of cursor) onNotify()
      } finally {
        signal.removeEventListener('abort', close)
        await cursor.close()
      }
    } catch {
      // The database is away, or the bell was rolled over: open it again.
    }
    await sleep(reopenMs, undefined, { signal }).catch(() => undefined)
  }
}
