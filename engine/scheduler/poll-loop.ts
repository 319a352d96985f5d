import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'

export interface PollLoopOptions {
  /** Resolves to the milliseconds for which nothing will be due, about `pollIntervalMs` at most; 0 polls again at once. */
  poll: () => Promise<number>
  /** What can't be done when a poll throws: "callbacks can't be looked for". */
  problem: string
  log: Logger
  /** Between two polls. */
  minPauseMs?: number
}

/** Every loop polls at least this often, also without a wake-up. */
export const pollIntervalMs = 1_000

/** Polls for work until it is stopped: at once after a wake-up, otherwise after the time that the last poll returned. */
export class PollLoop {
  readonly #options: PollLoopOptions
  #stopped = false
  #wake: () => void = () => undefined
  /** Resolves when the last poll has ended. */
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

  /** Something may have become due: the next poll begins now. */
  readonly wake = (): void => {
    this.#wake()
  }

  /** No further poll begins; `ended` says when the last one is over. */
  stop(): void {
    this.#stopped = true
    this.#wake()
  }

  async #run(): Promise<void> {
    const { poll, problem, log, minPauseMs = 0 } = this.#options
    while (!this.#stopped) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve))
      let waitMs = pollIntervalMs
      try {
        waitMs = await poll()
      } catch (error) {
        log.warn(`${problem}, trying again: ${messageOf(error)}`)
      }
      if (waitMs > 0) await Promise.race([woken, sleep(waitMs)])
      if (minPauseMs > 0 && !this.#stopped) await sleep(minPauseMs)
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
