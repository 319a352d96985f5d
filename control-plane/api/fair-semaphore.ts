import { setTimeout as sleep } from 'node:timers/promises'
import { RequestError } from '../../shared/contract/errors.ts'

/** On whose behalf work waits for its turn. */
export interface SlotRequest {
  organizationId: number
  /** The process stops: requests that wait are refused. */
  stopping: AbortSignal
  /** The client has closed its connection: its work leaves the line. */
  clientGone?: AbortSignal | undefined
}

export interface FairSemaphoreOptions {
  /** Weight of the works at once, of all organizations. */
  maxRunning: number
  /** Weight of the works at once of one organization, at most half of what no other organization has. */
  maxRunningPerOrganization?: number
  maxWaitingPerOrganization: number
  /** For which work waits for its turn before it is refused with 503; any time unless told. */
  maxWaitMs?: number
  /**
   * For the 429 of an organization whose line is full. It is sent after a random delay within these bounds: clients on
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

interface Line {
  /** The weight of what runs. */
  running: number
  waiting: Waiting[]
}

/** For `tooMany` of requests over HTTP. */
export const refusalDelayMs = { min: 1_000, max: 5_000 }

/**
 * A round-robin scheduler over organizations, in front of work that only a few requests can do at once. Each
 * organization has a line of its own, and the lines are served in turn: one that sends 200 requests at once delays
 * another by one piece of work, not by 200. An organization gets more only while it leaves as much free as it has
 * (dynamic thresholds, as in engine/scheduler/slots.ts), so that a few of them can't fill everything.
 */
export class FairSemaphore {
  readonly #options: FairSemaphoreOptions
  #running = 0
  /** By organization, the line that is served next in front. A line without running and waiting work is removed. */
  readonly #lines = new Map<number, Line>()

  constructor(options: FairSemaphoreOptions) {
    this.#options = options
  }

  /** Runs `work` in its turn, none once the process stops. Throws as `begin` does. */
  async run<T>(request: SlotRequest, work: () => Promise<T>): Promise<T> {
    if (request.stopping.aborted) throw this.#stoppingError()
    const end = await this.begin(request)
    try {
      return await work()
    } finally {
      end()
    }
  }

  /**
   * Resolves when its turn has come, to what ends the turn. Throws 429 when the organization's line is full, 503 when
   * it would have to wait and the process stops, or the turn doesn't come in time; a request whose client has gone
   * leaves the line.
   */
  async begin(request: SlotRequest, weight = 1): Promise<() => void> {
    const { organizationId } = request
    if (request.clientGone?.aborted === true) throw clientGoneError()
    const line = this.#lines.get(organizationId) ?? { running: 0, waiting: [] }
    if (line.waiting.length >= this.#options.maxWaitingPerOrganization) throw await this.#refusal(request)
    this.#lines.set(organizationId, line)
    if (line.waiting.length === 0 && this.#hasCapacityFor(line, weight)) this.#count(line, weight)
    else await this.#wait(line, weight, request)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#count(line, -weight)
      this.#removeIfEmpty(organizationId, line)
      this.#serve()
    }
  }

  #hasCapacityFor({ running }: Line, weight: number): boolean {
    const { maxRunning, maxRunningPerOrganization = maxRunning } = this.#options
    return running + weight <= Math.min(maxRunningPerOrganization, maxRunning - this.#running)
  }

  #count(line: Line, change: number): void {
    line.running += change
    this.#running += change
  }

  #removeIfEmpty(organizationId: number, line: Line): void {
    if (line.running === 0 && line.waiting.length === 0) this.#lines.delete(organizationId)
  }

  #wait(line: Line, weight: number, { organizationId, stopping, clientGone }: SlotRequest): Promise<void> {
    if (stopping.aborted) {
      this.#removeIfEmpty(organizationId, line)
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
        line.waiting.splice(line.waiting.indexOf(waiting), 1)
        this.#removeIfEmpty(organizationId, line)
        reject(
          stopping.aborted
            ? this.#stoppingError()
            : clientGone?.aborted === true
              ? clientGoneError()
              : busyError(),
        )
        // What waited behind it may be lighter.
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
      line.waiting.push(waiting)
      stopping.addEventListener('abort', leave, { once: true })
      clientGone?.addEventListener('abort', leave, { once: true })
    })
  }

  #serve(): void {
    while (this.#beginNext()) continue
  }

  /** It counts as running before it begins, so that no newcomer takes its place; its line goes to the end. */
  #beginNext(): boolean {
    for (const [organizationId, line] of this.#lines) {
      const next = line.waiting[0]
      if (next === undefined || !this.#hasCapacityFor(line, next.weight)) continue
      this.#lines.delete(organizationId)
      this.#lines.set(organizationId, line)
      this.#count(line, next.weight)
      line.waiting.shift()
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

/** No client reads it; it ends the request's work. */
const clientGoneError = (): RequestError =>
  new RequestError('invalid_request', 'the client closed the connection before its turn came', {
    status: 400,
  })
