import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'

export interface PollLoopOptions {
  /** Resolves to how many milliseconds nothing will be due, about `pollIntervalMs` at most; 0 looks again without a pause. */
  poll: () => Promise<number>
  /** What can't be done when a look throws: "callbacks can't be looked for". */
  problem: string
  log: Logger
  /** Between two looks at least. */
  shortestPauseMs?: number
}

/** Whatever it was told or not told, it looks after so long. */
export const pollIntervalMs = 1_000

/** Looks for work again and again: at once when it is woken, else after as long as the last look said. */
export class PollLoop {
  readonly #options: PollLoopOptions
  #stopped = false
  #wake: () => void = () => undefined
  /** Settles when the last look has ended. */
  ended: Promise<void> = Promise.resolve()

  constructor(options: PollLoopOptions) {
    this.#options = options
  }

  get isStopped(): boolean {
    return this.#stopped
  }

  start(): void {
    this.ended = this.#run()
  }

  /** Something may have become due: look now. */
  readonly wake = (): void => {
    this.#wake()
  }

  /** No further look begins; see `ended`. */
  stop(): void {
    this.#stopped = true
    this.#wake()
  }

  async #run(): Promise<void> {
    const { poll, problem, log, shortestPauseMs = 0 } = this.#options
    while (!this.#stopped) {
      const rung = new Promise<void>((resolve) => (this.#wake = resolve))
      let waitMs = pollIntervalMs
      try {
        waitMs = await poll()
      } catch (error) {
        log.warn(`${problem}, trying again: ${messageOf(error)}`)
      }
      if (waitMs > 0) await Promise.race([rung, sleep(waitMs)])
      if (shortestPauseMs > 0 && !this.#stopped) await sleep(shortestPauseMs)
    }
  }
}

/** How long nothing will be due, by what waits, the earliest first. */
export function untilDue(waiting: readonly { dueAt: Date }[], now: Date): number {
  const next = waiting.find(({ dueAt }) => dueAt > now)
  return next === undefined
    ? pollIntervalMs
    : Math.min(pollIntervalMs, next.dueAt.getTime() - now.getTime() + 1)
}
