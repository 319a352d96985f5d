import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../../shared/contract/errors.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import type { Part } from '../../../shared/runtime/service.ts'

/** Something that is looked after from time to time, by every engine; doing it twice at once must be harmless. */
export interface Chore {
  name: string
  everyMs: number
  run(): Promise<void>
}

const graceMs = 300

/** Runs a chore at once and then at its interval (with jitter, so that engines don't do it together), until stopped. */
export function startChore(chore: Chore, log: Logger): Part {
  const stopped = new AbortController()
  const done = (async () => {
    while (!stopped.signal.aborted) {
      try {
        await chore.run()
      } catch (error) {
        log.warn(`${chore.name} failed, trying again: ${messageOf(error)}`)
      }
      await sleep(chore.everyMs * (0.8 + 0.4 * Math.random()), undefined, {
        signal: stopped.signal,
        ref: false,
      }).catch(() => undefined)
    }
  })()
  return {
    stop: async () => {
      stopped.abort()
      // Harmless to break off; with the database away it would look for it for seconds.
      await Promise.race([done, sleep(graceMs, undefined, { ref: false })])
    },
  }
}
