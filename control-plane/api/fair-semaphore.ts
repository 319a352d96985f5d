import assert from 'node:assert'
import { setTimeout as sleep } from 'node:timers/promises'
import { RequestError } from './request-error.ts'

/** The organization for which work waits for a slot, and the signal that ends the wait. */
export interface SlotRequest {
  organizationId: number
  /** Aborted when the client has closed its connection: its work then leaves the queue. */
  clientGone?: AbortSignal | undefined
}

export interface FairSemaphoreOptions {
  /** Aborted at a stop, when the time to wait for a slot is over. From then on waiting work is refused. */
  refusing: AbortSignal
  /** Total weight of the work that runs at the same time. */
  maxRunning: number
  /** The same for one organization, which also gets at most half of what the others leave free. */
  maxRunningPerOrganization?: number
  maxWaitingPerOrganization: number
  /** Work that waits longer is refused with 503. Without it work waits without a limit. */
  maxWaitMs?: number
  /**
   * The 429 for an organization whose queue is full. It is sent after a random delay, because clients on 500
   * connections that retry at once would otherwise fill the event loop with refusals.
   */
  tooMany: { message: string; retryAfterSeconds: number; delayMs?: { min: number; max: number } }
  /** The message of the 503 once `refusing` is aborted. */
  stoppingMessage: string
}

interface Waiting {
  weight: number
  begin: () => void
  /** How often lighter work of the same organization has begun before it. */
  passed: number
}

/** The piece of waiting work that begins before all other. */
interface Next {
  organizationId: number
  queue: Queue
  /** Its index in the queue. */
  at: number
}

/** Reached within seconds by an organization of many small requests, whose heavy one then waits for a pause of them. */
const maxPassing = 16

interface Queue {
  /** Total weight of its running work. */
  running: number
  waiting: Waiting[]
}

/**
 * A semaphore that is fair to organizations: each has a queue of its own, and the one that uses least is next. One that
 * sends 200 requests at once delays another by one piece of work, not by 200. An organization gets more slots only while
 * as many stay free as it has (dynamic thresholds, as in engine/scheduler/slots.ts). So a few organizations can't take
 * them all.
 *
 * Work that is next begins before all other work, however heavy it is: slots that become free are kept for it, or lighter
 * work of others would take each of them and it would never begin. Work that its own organization must make capacity
 * for is not waited for, and lets lighter work of that organization pass, up to `maxPassing` pieces.
 *
 * With one queue for all, 500 takes of the outbox by one organization delayed another's by 3 to 10 s (p99 5.6 s; with this
 * 139 ms, and 181 where the clients repeat at once). With refusals sent at once, 500 connections got 900 of them a second,
 * and another organization's take waited 2.0 s in the median. While lighter work that fits could pass, a search of weight
 * 16 never began beside 12 busy organizations; now it begins after 2 to 11 pieces of work.
 */
export class FairSemaphore {
  readonly #options: FairSemaphoreOptions
  #running = 0
  /** Number of pieces of work in all queues. */
  #waiting = 0
  /** By organization, the one that was served last at the end. A queue without running and waiting work is removed. */
  readonly #queues = new Map<number, Queue>()

  constructor(options: FairSemaphoreOptions) {
    this.#options = options
  }

  /** Runs `work` when it has a slot; refuses it once `refusing` is aborted. Throws as `acquire` does. */
  async run<T>(request: SlotRequest, work: () => Promise<T>): Promise<T> {
    if (this.#options.refusing.aborted) throw this.#stoppingError()
    const release = await this.acquire(request)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /**
   * Resolves, once there is a slot, to the function that releases it. Throws 429 when the organization's queue is full,
   * and 503 when no slot is free in time, or when it would wait after `refusing` was aborted. A request whose client has
   * gone leaves the queue.
   */
  async acquire(request: SlotRequest, weight = 1): Promise<() => void> {
    const { organizationId } = request
    assert.ok(weight <= (this.#options.maxRunningPerOrganization ?? this.#options.maxRunning))
    if (request.clientGone?.aborted === true) throw clientGoneError()
    const queue = this.#queues.get(organizationId) ?? { running: 0, waiting: [] }
    if (queue.waiting.length >= this.#options.maxWaitingPerOrganization) throw await this.#refusal(request)
    this.#queues.set(organizationId, queue)
    if (this.#waiting === 0 && this.#isEnoughFree(queue, weight)) this.#count(queue, weight)
    else await this.#wait(queue, weight, request)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#count(queue, -weight)
      this.#removeIfEmpty(organizationId, queue)
      this.#serve()
    }
  }

  #isEnoughFree(queue: Queue, weight: number): boolean {
    return (
      this.#isAllowed(queue, weight) && queue.running + weight <= this.#options.maxRunning - this.#running
    )
  }

  /** Whether the organization may have so much running, whatever the others have. */
  #isAllowed({ running }: Queue, weight: number): boolean {
    const { maxRunning, maxRunningPerOrganization = maxRunning } = this.#options
    return running + weight <= maxRunningPerOrganization
  }

  #count(queue: Queue, change: number): void {
    queue.running += change
    this.#running += change
  }

  #removeIfEmpty(organizationId: number, queue: Queue): void {
    if (queue.running === 0 && queue.waiting.length === 0) this.#queues.delete(organizationId)
  }

  #wait(queue: Queue, weight: number, { organizationId, clientGone }: SlotRequest): Promise<void> {
    const { maxWaitMs, refusing } = this.#options
    if (refusing.aborted) {
      this.#removeIfEmpty(organizationId, queue)
      throw this.#stoppingError()
    }
    return new Promise((resolve, reject) => {
      const unlisten = (): void => {
        clearTimeout(timer)
        refusing.removeEventListener('abort', stopWaiting)
        clientGone?.removeEventListener('abort', stopWaiting)
      }
      const stopWaiting = (): void => {
        unlisten()
        queue.waiting.splice(queue.waiting.indexOf(waiting), 1)
        this.#waiting -= 1
        this.#removeIfEmpty(organizationId, queue)
        reject(
          refusing.aborted
            ? this.#stoppingError()
            : clientGone?.aborted === true
              ? clientGoneError()
              : busyError(),
        )
        // Work that waited behind it may weigh less and fit now.
        this.#serve()
      }
      const waiting = {
        weight,
        passed: 0,
        begin: () => {
          unlisten()
          resolve()
        },
      }
      const timer = maxWaitMs === undefined ? undefined : setTimeout(stopWaiting, maxWaitMs)
      queue.waiting.push(waiting)
      this.#waiting += 1
      refusing.addEventListener('abort', stopWaiting, { once: true })
      clientGone?.addEventListener('abort', stopWaiting, { once: true })
      this.#serve()
    })
  }

  #serve(): void {
    while (this.#beginNext()) continue
  }

  /** Work counts as running before it begins, so that no newer request takes its slot. Its queue moves to the end. */
  #beginNext(): boolean {
    const next = this.#findNext()
    if (next === null) return false
    const { organizationId, queue, at } = next
    const work = queue.waiting[at]!
    if (!this.#isEnoughFree(queue, work.weight)) return false
    if (at > 0) queue.waiting[0]!.passed += 1
    this.#queues.delete(organizationId)
    this.#queues.set(organizationId, queue)
    this.#count(queue, work.weight)
    queue.waiting.splice(at, 1)
    this.#waiting -= 1
    work.begin()
    return true
  }

  /** The work of the organization that uses least; among equals, of the one that was served longest ago. */
  #findNext(): Next | null {
    let next: Next | null = null
    for (const [organizationId, queue] of this.#queues) {
      if (next !== null && queue.running >= next.queue.running) continue
      const at = this.#firstAllowed(queue)
      if (at !== -1) next = { organizationId, queue, at }
    }
    return next
  }

  /** The index of the first waiting work that the organization's own bound allows; -1 where there is none. */
  #firstAllowed(queue: Queue): number {
    const [first] = queue.waiting
    if (first === undefined) return -1
    if (this.#isAllowed(queue, first.weight)) return 0
    if (first.passed >= maxPassing) return -1
    return queue.waiting.findIndex(({ weight }) => weight < first.weight && this.#isAllowed(queue, weight))
  }

  async #refusal({ clientGone }: SlotRequest): Promise<RequestError> {
    const { tooMany, refusing } = this.#options
    const { message, retryAfterSeconds, delayMs = { min: 1_000, max: 5_000 } } = tooMany
    const signal = clientGone === undefined ? refusing : AbortSignal.any([refusing, clientGone])
    const delay = delayMs.min + Math.random() * (delayMs.max - delayMs.min)
    await sleep(delay, undefined, { signal }).catch(() => undefined)
    return new RequestError('not_authorized', message, { status: 429, retryAfter: retryAfterSeconds })
  }

  #stoppingError(): RequestError {
    return new RequestError('internal_error', this.#options.stoppingMessage, { status: 503, retryAfter: 1 })
  }
}

const busyError = (): RequestError =>
  new RequestError(
    'internal_error',
    'the service is too busy with work of this kind and did nothing: try again in 5 s',
    { status: 503, retryAfter: 5 },
  )

/** Ends the request's work. No client reads this error. */
const clientGoneError = (): RequestError =>
  new RequestError(
    'invalid_request',
    'the client closed the connection before there was a slot for its request',
    { status: 400 },
  )
