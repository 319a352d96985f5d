import { setTimeout as sleep } from 'node:timers/promises'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Part } from '../../shared/runtime/service.ts'
import { within } from '../../shared/runtime/within.ts'

interface PollLoopOptions {
  /** Does what is due. Resolves to the milliseconds for which nothing will be due; 0 polls again at once. */
  poll: () => Promise<number>
  /** Begins the log line of a poll that failed: "callbacks can't be read". */
  problem: string
  /** Milliseconds from a poll that failed to the next one. */
  retryMs?: () => number
  /** Pause between two polls, also after a wake-up. */
  minPauseMs?: number
  /** A stop waits up to this time for the poll in progress; by default until it has ended. */
  graceMs?: number
  log: Logger
}

/** A loop whose work goes on polls this often, also without a wake-up. */
export const pollIntervalMs = 1_000

/** A loop without work polls this often: work begins with a wake-up or at a known time, and a wake-up may be lost. */
export const restIntervalMs = 10_000

/** Spreads the polls of engines that were started together. */
export const withJitter = (ms: number): number => ms * (0.8 + 0.4 * Math.random())

/**
 * Polls for work until it is stopped. The next poll begins after the time that the last one returned, or when it is woken,
 * but never before `minPauseMs`. A poll that throws is logged and tried again.
 */
export class PollLoop implements Part {
  readonly #options: PollLoopOptions
  #isStopped = false
  #wake: () => void = () => undefined
  #ended: Promise<void> = Promise.resolve()

  constructor(options: PollLoopOptions) {
    this.#options = options
  }

  start(): this {
    this.#ended = this.#run()
    return this
  }

  /** Something may have become due: the next poll begins now. */
  readonly wake = (): void => {
    this.#wake()
  }

  /** No further poll begins. Resolves when the one in progress has ended, or its grace. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#wake()
    const { graceMs } = this.#options
    await (graceMs === undefined ? this.#ended : within(graceMs, this.#ended, undefined))
  }

  async #run(): Promise<void> {
    const { minPauseMs = 0 } = this.#options
    while (!this.#isStopped) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve))
      const waitMs = await this.#poll()
      if (waitMs > 0) await within(waitMs, woken, undefined)
      if (minPauseMs > 0 && !this.#isStopped) await sleep(minPauseMs)
    }
  }

  async #poll(): Promise<number> {
    const { poll, problem, retryMs, log } = this.#options
    try {
      return await poll()
    } catch (error) {
      log.warn(`${problem}, trying again: ${errorMessage(error)}`)
      return retryMs?.() ?? pollIntervalMs
    }
  }
}

/** Milliseconds until the first of these waits is over, up to the next poll of a loop without work. */
export const untilDue = (waitsMs: readonly number[]): number =>
  Math.min(withJitter(restIntervalMs), ...waitsMs.filter((ms) => ms > 0).map((ms) => ms + 1))
