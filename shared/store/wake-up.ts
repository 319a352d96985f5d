import { setTimeout as sleep } from 'node:timers/promises'
import type { Collections } from '../contract/schemas/collections.ts'

/**
 * Wakes the engines up, as LISTEN/NOTIFY does elsewhere: they follow a capped collection with a tailable cursor.
 * Engines poll every second anyway, so a wake-up that is lost costs a second. A change stream would make the server
 * read every subscriber that is written.
 */
export async function notifyEngines(collections: Collections, reason: string): Promise<void> {
  await collections.wakeUps.insertOne({ reason }).catch(() => undefined)
}

const waitMs = 5_000
const reopenMs = 1_000

/** Calls `onNotify` for every wake-up from now on, until the signal is aborted. */
export async function listenForWakeUps(
  collections: Collections,
  onNotify: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      // A cursor on an empty collection ends at once, so a document is inserted first.
      const { insertedId: last } = await collections.wakeUps.insertOne({ reason: 'listening' })
      const cursor = collections.wakeUps.find(
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
      // The database is away, or the collection was overwritten behind the cursor: open it again.
    }
    await sleep(reopenMs, undefined, { signal }).catch(() => undefined)
  }
}
