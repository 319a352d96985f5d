import { randomUUID } from 'node:crypto'
import { errorMessage } from '../../shared/contract/errors.ts'
import { clock } from '../../shared/runtime/clock.ts'
import { FairOrder } from '../../shared/runtime/fair-order.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { within } from '../../shared/runtime/within.ts'
import type { Kind } from './kinds.ts'
import { suspectDeaths } from './quarantine.ts'

interface RunnerOptions {
  /** Called when the known work of a queue has ended: only a poll finds out whether more is due. */
  onDrained: () => void
  log: Logger
}

interface RunningWork<Queue> {
  queue: Queue
  token: string
  abort: AbortController
  ended: Promise<void>
}

/**
 * Does the work of one kind (kinds.ts), in the same way for all kinds:
 *
 *   offer   a poll says in which queues work is due
 *   choose  while a slot is free, the queue of the organization whose turn it is (shared/runtime/fair-order.ts)
 *   claim   one guarded write under a new token; a queue without work is left out until the next poll
 *   run     beside the loop, and alone where engines died with the work
 *   end     its time is charged to the organization, and its slot is filled again
 */
export class Runner<Queue extends { organization_id: number }, Work> {
  readonly #kind: Kind<Queue, Work>
  readonly #options: RunnerOptions
  readonly #order: FairOrder
  /** Where work may be left, in the order of the poll that found it. */
  #queues = new Map<string | number, Queue>()
  /** By token, because work that this engine has lost may be claimed again beside it. */
  readonly #running = new Map<string, RunningWork<Queue>>()
  #filling: Promise<void> | null = null
  #isStopped = false
  #isDead = false

  constructor(kind: Kind<Queue, Work>, options: RunnerOptions) {
    this.#kind = kind
    this.#options = options
    this.#order = new FairOrder(kind.slots)
  }

  /** What runs now. */
  get running(): readonly Pick<RunningWork<Queue>, 'queue' | 'token'>[] {
    return [...this.#running.values()]
  }

  /** Whether no work is known to be due. */
  get isDrained(): boolean {
    return this.#queues.size === 0
  }

  /** The queues in which work is due from now on; those of an organization in the order in which they are served. */
  offer(queues: readonly Queue[]): void {
    const { keyOf, isSingle } = this.#kind
    this.#queues = new Map(queues.map((queue) => [keyOf(queue), queue]))
    if (isSingle === true) for (const queue of this.#runningQueues()) this.#queues.delete(keyOf(queue))
  }

  /** In this queue work is due too. */
  offerMore(queue: Queue): void {
    this.#queues.set(this.#kind.keyOf(queue), queue)
  }

  /**
   * Fills the free slots. Single-flight: a call during another one shares it. `isPoll`: a poll is in progress, and needs
   * no wake-up for what is drained; one would cause endless polls.
   */
  fill({ isPoll } = { isPoll: true }): Promise<void> {
    this.#filling ??= this.#claimUntilFull(isPoll).finally(() => (this.#filling = null))
    return this.#filling
  }

  /** Aborts running work that `isUnwanted`, without waiting for its end. */
  abort(isUnwanted: (running: { queue: Queue; token: string }) => boolean): void {
    for (const work of this.#running.values()) if (isUnwanted(work)) work.abort.abort()
  }

  /** Aborts all running work. Resolves when it has ended. */
  async abortAll(): Promise<void> {
    this.abort(() => true)
    await this.#ends()
  }

  /** Claims no more, and ends what runs. `isDead`: other engines took this one for dead, and its leases are lost. */
  async stop({ isDead } = { isDead: false }): Promise<void> {
    const { graceMs = 0 } = this.#kind
    this.#isStopped = true
    this.#isDead ||= isDead
    if (graceMs > 0) await within(graceMs, this.#ends(), undefined)
    this.abort(() => true)
    // Work whose claim is in progress is aborted as it begins.
    await this.#filling
    await this.#ends()
  }

  get #mayBegin(): boolean {
    return !this.#isStopped && this.#kind.mayBegin()
  }

  /** Resolves when what runs now has ended. */
  async #ends(): Promise<void> {
    await Promise.all([...this.#running.values()].map((work) => work.ended))
  }

  async #claimUntilFull(isPoll: boolean): Promise<void> {
    const { keyOf, keyName, name, claim, isSingle, isLast, leased } = this.#kind
    while (this.#mayBegin) {
      const queue = this.#order.next(this.#openQueues())
      if (queue === undefined) return
      const token = randomUUID()
      const work = await claim(queue, token).catch((error: unknown) => {
        leased?.doubts.add(token)
        this.#options.log.warn(
          { [keyName]: keyOf(queue) },
          `${name} can't be claimed, trying again: ${errorMessage(error)}`,
        )
        return null
      })
      if (work !== null) this.#begin(queue, work, token)
      if (work !== null && isSingle !== true && isLast?.(work) !== true) continue
      // Where it was offered again during the claim, that is news.
      if (this.#queues.get(keyOf(queue)) === queue) this.#queues.delete(keyOf(queue))
      if (!isPoll) this.#wakeIfDrained(queue)
    }
  }

  #openQueues(): Queue[] {
    const queues = [...this.#queues.values()]
    const { open } = this.#kind
    return open === undefined ? queues : open(queues, this.#runningQueues())
  }

  #runningQueues(): Queue[] {
    return [...this.#running.values()].map(({ queue }) => queue)
  }

  #begin(queue: Queue, work: Work, token: string): void {
    const { keyOf, keyName, name, run, leased } = this.#kind
    const abort = new AbortController()
    const control = { token, signal: abort.signal, isDead: () => this.#isDead }
    // A stop or another work's quarantine may have begun during the claim.
    const mayRun = this.#mayBegin
    const endInSlot = this.#order.begin(queue)
    const startedAt = clock.monotonicMs()
    const start = () => run(work, control)
    const isSuspect = mayRun && leased !== undefined && leased.deaths(work) >= suspectDeaths
    const ended = (isSuspect ? leased.quarantine.run(start) : start())
      .catch((error: unknown) => {
        leased?.doubts.add(token)
        this.#options.log.warn(
          { [keyName]: keyOf(queue) },
          `${name} couldn't be released, trying again: ${errorMessage(error)}`,
        )
      })
      .finally(() => {
        this.#running.delete(token)
        endInSlot(clock.monotonicMs() - startedAt)
        this.#wakeIfDrained(queue)
        if (!this.#isStopped) void this.fill({ isPoll: false })
      })
    this.#running.set(token, { queue, token, abort, ended })
    if (!mayRun) abort.abort()
  }

  #wakeIfDrained(queue: Queue): void {
    const { keyOf } = this.#kind
    const key = keyOf(queue)
    const isRunning = this.#runningQueues().some((other) => keyOf(other) === key)
    if (!isRunning && !this.#queues.has(key)) this.#options.onDrained()
  }
}
