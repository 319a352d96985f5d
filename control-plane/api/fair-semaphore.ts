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
}

interface Queue {
  /** Total weight of its running work. */
  running: number
  waiting: Waiting[]
}

/**
 * A semaphore that is fair to organizations: each has a queue of its own, and the queues are served round-robin. One
 * that sends 200 requests at once delays another by one piece of work, not by 200. An organization gets more slots only
 * while as many stay free as it has (dynamic thresholds, as in engine/scheduler/slots.ts). So a few organizations can't
 * take them all.
 */
export class FairSemaphore {
  readonly #options: FairSemaphoreOptions
  #running = 0
  /** By organization, the queue that is served next in front. A queue without running and waiting work is removed. */
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
    if (request.clientGone?.aborted === true) throw clientGoneError()
    const queue = this.#queues.get(organizationId) ?? { running: 0, waiting: [] }
    if (queue.waiting.length >= this.#options.maxWaitingPerOrganization) throw await this.#refusal(request)
    this.#queues.set(organizationId, queue)
    if (queue.waiting.length === 0 && this.#hasCapacityFor(queue, weight)) this.#count(queue, weight)
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

  #hasCapacityFor({ running }: Queue, weight: number): boolean {
    const { maxRunning, maxRunningPerOrganization = maxRunning } = this.#options
    return running + weight <= Math.min(maxRunningPerOrganization, maxRunning - this.#running)
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
        begin: () => {
          unlisten()
          resolve()
        },
      }
      const timer = maxWaitMs === undefined ? undefined : setTimeout(stopWaiting, maxWaitMs)
      queue.waiting.push(waiting)
      refusing.addEventListener('abort', stopWaiting, { once: true })
      clientGone?.addEventListener('abort', stopWaiting, { once: true })
    })
  }

  #serve(): void {
    while (this.#beginNext()) continue
  }

  /** Work counts as running before it begins, so that no newer request takes its slot. Its queue moves to the end. */
  #beginNext(): boolean {
    for (const [organizationId, queue] of this.#queues) {
      const next = queue.waiting[0]
      if (next === undefined || !this.#hasCapacityFor(queue, next.weight)) continue
      this.#queues.delete(organizationId)
      this.#queues.set(organizationId, queue)
      this.#count(queue, next.weight)
      queue.waiting.shift()
      next.begin()
      return true
    }
    return false
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
