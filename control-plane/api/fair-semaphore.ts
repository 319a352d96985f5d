import { setTimeout as sleep } from 'node:timers/promises'
import { RequestError } from '../../shared/contract/errors.ts'

/** On whose behalf work waits for a slot. */
export interface SlotRequest {
  organizationId: number
  /** The process stops: requests that wait are refused. */
  stopping: AbortSignal
  /** The client has closed its connection: its work leaves the queue. */
  clientGone?: AbortSignal | undefined
}

export interface FairSemaphoreOptions {
  /** Weight of what runs at the same time, of all organizations. */
  maxRunning: number
  /** The same of one organization, which also gets at most half of what other organizations leave. */
  maxRunningPerOrganization?: number
  maxWaitingPerOrganization: number
  /** After which waiting work is refused with 503; without it work waits as long as it takes. */
  maxWaitMs?: number
  /**
   * For the 429 of an organization whose queue is full. It is sent after a random delay within these bounds: clients on
   * 500 connections that repeat at once would otherwise fill the event loop with refusals.
   */
  tooMany: { message: string; retryAfterSeconds: number; delayMs: { min: number; max: number } }
  /** For the 503 of a stop. */
  stoppingMessage: string
}

interface Waiting {
  weight: number
  begin: () => void
}

interface Queue {
  /** The weight of what runs. */
  running: number
  waiting: Waiting[]
}

/** For `tooMany` of requests over HTTP. */
export const refusalDelayMs = { min: 1_000, max: 5_000 }

/**
 * A semaphore that is fair to organizations: each has a queue of its own, and the queues are served round-robin. One that
 * sends 200 requests at once delays another by one piece of work, not by 200. An organization gets more only while it leaves as much free as it has
 * (dynamic thresholds, as in engine/scheduler/slots.ts), so that a few of them can't fill everything.
 */
export class FairSemaphore {
  readonly #options: FairSemaphoreOptions
  #running = 0
  /** By organization, the queue that is served next in front. A queue without running and waiting work is removed. */
  readonly #queues = new Map<number, Queue>()

  constructor(options: FairSemaphoreOptions) {
    this.#options = options
  }

  /** Runs `work` when it has a slot; refuses it once the process stops. Throws as `acquire` does. */
  async run<T>(request: SlotRequest, work: () => Promise<T>): Promise<T> {
    if (request.stopping.aborted) throw this.#stoppingError()
    const release = await this.acquire(request)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /**
   * Resolves, once there is a slot, to the function that releases it. Throws 429 when the organization's queue is full, and
   * 503 when the process stops or no slot is free in time. A request whose client has gone leaves the queue.
   */
  async acquire(request: SlotRequest, weight = 1): Promise<() => void> {
    const { organizationId } = request
    if (request.clientGone?.aborted === true) throw clientGoneError()
    const queue = this.#queues.get(organizationId) ?? { running: 0, waiting: [] }
    if (queue.waiting.length >= this.#options.maxWaitingPerOrganization) throw await this.#refusal(request)
    this.#queues.set(organizationId, queue)
    if (queue.waiting.length === 0 && this.#hasCapacityFor(queue, weight)) this.#count(queue, weight)
    else await this.#wait(queue, weight, request)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
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

  #wait(queue: Queue, weight: number, { organizationId, stopping, clientGone }: SlotRequest): Promise<void> {
    if (stopping.aborted) {
      this.#removeIfEmpty(organizationId, queue)
      throw this.#stoppingError()
    }
    return new Promise((resolve, reject) => {
      const unlisten = (): void => {
        clearTimeout(timer)
        stopping.removeEventListener('abort', leave)
        clientGone?.removeEventListener('abort', leave)
      }
      const leave = (): void => {
        unlisten()
        queue.waiting.splice(queue.waiting.indexOf(waiting), 1)
        this.#removeIfEmpty(organizationId, queue)
        reject(
          stopping.aborted
            ? this.#stoppingError()
            : clientGone?.aborted === true
              ? clientGoneError()
              : busyError(),
        )
        // What waited behind it may weigh less.
        this.#serve()
      }
      const waiting = {
        weight,
        begin: () => {
          unlisten()
          resolve()
        },
      }
      const { maxWaitMs } = this.#options
      const timer = maxWaitMs === undefined ? undefined : setTimeout(leave, maxWaitMs)
      queue.waiting.push(waiting)
      stopping.addEventListener('abort', leave, { once: true })
      clientGone?.addEventListener('abort', leave, { once: true })
    })
  }

  #serve(): void {
    while (this.#beginNext()) continue
  }

  /** It counts as running before it begins, so that no newer request takes its slot; its queue goes to the end. */
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

  async #refusal({ stopping, clientGone }: SlotRequest): Promise<RequestError> {
    const { message, retryAfterSeconds, delayMs } = this.#options.tooMany
    const signal = clientGone === undefined ? stopping : AbortSignal.any([stopping, clientGone])
    const delay = delayMs.min + Math.random() * (delayMs.max - delayMs.min)
    await sleep(delay, undefined, { signal }).catch(() => undefined)
    return new RequestError('not_authorized', message, {
      status: 429,
      headers: { 'Retry-After': String(retryAfterSeconds) },
    })
  }

  #stoppingError(): RequestError {
    return new RequestError('internal_error', this.#options.stoppingMessage, {
      status: 503,
      headers: { 'Retry-After': '1' },
    })
  }
}

const busyError = (): RequestError =>
  new RequestError(
    'internal_error',
    'the service has too much of this kind to do just now, and did nothing: try again in 5 s',
    { status: 503, headers: { 'Retry-After': '5' } },
  )

/** No client reads this error; it ends the request's work. */
const clientGoneError = (): RequestError =>
  new RequestError(
    'invalid_request',
    'the client closed the connection before there was a slot for its request',
    {
      status: 400,
    },
  )
