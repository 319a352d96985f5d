import { setTimeout as sleep } from 'node:timers/promises'
import type { Collections, WakeUp } from '../contract/schemas/collections.ts'

/**
 * Wakes other processes up, as LISTEN/NOTIFY does elsewhere: they follow a capped collection with a tailable cursor.
 * Engines without work poll every 10 s anyway, so a wake-up that is lost costs up to 12 s, and none is confirmed: that would
 * take five times the CPU time. A change stream would make the server read every subscriber that is written.
 */
export async function wakeUp(collections: Collections, what: WakeUp): Promise<void> {
  await collections.wakeUps.insertOne({ ...what }, { writeConcern: { w: 0 } }).catch(() => undefined)
}

/** The server answers a read at the end of the collection after this time, half of a socket's timeout. */
const waitMs = 30_000
const reopenMs = 1_000

/**
 * Calls `onWakeUp` for every wake-up of these reasons from now on, until the signal is aborted. It is called with null
 * whenever it begins to listen, because wake-ups may have been lost before.
 */
export async function listenForWakeUps<Reason extends WakeUp['reason']>(
  collections: Collections,
  reasons: readonly Reason[],
  onWakeUp: (what: Extract<WakeUp, { reason: Reason }> | null) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      // A cursor on an empty collection ends at once, so a document is inserted first.
      const { insertedId: first } = await collections.wakeUps.insertOne({ reason: 'listening' })
      const cursor = collections.wakeUps.find(
        { $or: [{ reason: { $in: [...reasons] } }, { _id: first }] },
        {
          tailable: true,
          awaitData: true,
          maxAwaitTimeMS: waitMs,
          // A wake-up may be early; a majority read would make it late.
          readConcern: { level: 'local' },
        },
      )
      // In the order of insertion. Ids would not tell what is new: they begin with the clock of another machine.
      let isNew = false
      const close = () => void cursor.close().catch(() => undefined)
      signal.addEventListener('abort', close, { once: true })
      onWakeUp(null)
      try {
        for await (const what of cursor) {
          if (isNew) onWakeUp(what as WakeUp as Extract<WakeUp, { reason: Reason }>)
          isNew ||= first.equals(what._id)
        }
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
