import { setInterval as every } from 'node:timers'
import type { Logger } from '../../shared/runtime/logger.ts'
import { within } from '../../shared/runtime/within.ts'

/** Bounds of work that stands still; all times in milliseconds. */
export const watchdogBounds = {
  /** Interval of the checks. */
  checkEveryMs: 15_000,
  /**
   * Work without progress for this time ends the process. It is longer than any wait of healthy work: 60 s for a
   * silent server or a query, 120 s for a transaction with conflicts.
   */
  stalledAfterMs: 5 * 60_000,
}

export type WatchdogBounds = typeof watchdogBounds

/** Time to store the failed try before the process ends. */
const giveUpMs = 2_000

/** A step, or a chunk in its lane. */
interface WatchedWork {
  importId: number
  /** "the step (splitting)". */
  name: string
  /** A number that rises whenever the work makes progress. */
  progress: () => number
  /** "a read of 7/source". */
  waitingFor: () => string
  /** Counts the failed try. */
  giveUp?: () => Promise<unknown>
}

/** Begins to watch work. Returns the function that ends that. */
export type Watch = (work: WatchedWork) => () => void

/**
 * Watches work for progress. Nothing can end a read or write that the operating system doesn't answer, so where work
 * stands still, the whole process ends: `end` begins that. It releases the other work, without a try counted against
 * it. A suspended process makes no checks, and so isn't taken for one that hangs.
 */
export function createWatchdog(bounds: WatchdogBounds, log: Logger, end: () => void): Watch {
  return (work) => {
    let progress = work.progress()
    let idleMs = 0
    const timer = every(() => {
      const now = work.progress()
      idleMs = now === progress ? idleMs + bounds.checkEveryMs : 0
      progress = now
      if (idleMs < bounds.stalledAfterMs) return
      clearInterval(timer)
      log.error(
        { import_id: work.importId, hangs: work.name, waits_for: work.waitingFor() },
        `${work.name} of import ${work.importId} has made no progress for ${bounds.stalledAfterMs / 1000} s; it waits for ${work.waitingFor()}. Nothing can end a read or write that hangs, so this process ends now and must be started again. That counts as a failed try of this import; all other work is resumed. Check that the disk or file server of DATA_DIR answers`,
      )
      const counted = work.giveUp?.().catch(() => undefined) ?? Promise.resolve()
      void within(giveUpMs, counted, undefined).then(end)
    }, bounds.checkEveryMs)
    timer.unref()
    return () => {
      clearInterval(timer)
    }
  }
}
