import { setTimeout as sleep } from 'node:timers/promises'
import { RequestError } from '../../shared/errors.ts'

/** On whose behalf work waits for its turn. */
export interface TurnRequest {
  organizationId: number
  /** The process stops: requests that wait are refused. */
  stopping: AbortSignal
  /** The client has closed its connection: its work leaves the line. */
  clientGone?: AbortSignal | undefined
}

export interface OrganizationTurnsOptions {
  /** Works at once, of all organizations. */
  maxRunning: number
  /** Works at once of one organization; `maxRunning` unless told. */
  maxRunningPerOrganization?: number
  maxWaitingPerOrganization: number
  /**
   * For the 429 of an organization whose line is full. It is sent after a random delay within these bounds: clients on
   * 500 connections that repeat at once would otherwise fill the event loop with refusals.
   */
  tooMany: { message: string; retryAfterSeconds: number; delayMs: { min: number; max: number } }
  /** For the 503 of a stop. */
  stoppingMessage: string
}

interface Line {
  running: number
  waiting: { begin: () => void }[]
}

/** For `tooMany` of requests over HTTP. */
export const refusalDelayMs = { min: 1_000, max: 5_000 }

/**
 * A round-robin scheduler over organizations, in front of work that only a few requests can do at once. Each
 * organization has a line of its own, and the lines are served in turn: one that sends 200 requests at once delays
 * another by one piece of work, not by 200.
 */
export class OrganizationTurns {
  readonly #options: OrganizationTurnsOptions
  #running = 0
  /** By organization, the line that is served next in front. A line without running and waiting work is removed. */
  readonly #lines = new Map<number, Line>()

  constructor(options: OrganizationTurnsOptions) {
    this.#options = options
  }

  /**
   * Runs `work` in its turn. Throws 429 when the organization's line is full and 503 when the process stops before;
   * work whose client has gone before its turn is not run.
   */
  async run<T>(request: TurnRequest, work: () => Promise<T>): Promise<T> {
    const { organizationId, stopping, clientGone } = request
    if (stopping.aborted) throw this.#stoppingError()
    if (clientGone?.aborted === true) throw clientGoneError()
    const line = this.#lines.get(organizationId) ?? { running: 0, waiting: [] }
    if (line.waiting.length >= this.#options.maxWaitingPerOrganization) throw await this.#refusal(request)
    this.#lines.set(organizationId, line)
    if (line.waiting.length === 0 && this.#hasRoomFor(line)) this.#count(line, 1)
    else await this.#wait(line, request)
    try {
      return await work()
    } finally {
      this.#count(line, -1)
      this.#removeIfEmpty(organizationId, line)
      this.#serveNext()
    }
  }

  #hasRoomFor(line: Line): boolean {
    const { maxRunning, maxRunningPerOrganization = maxRunning } = this.#options
    return this.#running < maxRunning && line.running < maxRunningPerOrganization
  }

  #count(line: Line, change: 1 | -1): void {
    line.running += change
    this.#running += change
  }

  #removeIfEmpty(organizationId: number, line: Line): void {
    if (line.running === 0 && line.waiting.length === 0) this.#lines.delete(organizationId)
  }

  #wait(line: Line, { organizationId, stopping, clientGone }: TurnRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      const unlisten = (): void => {
        stopping.removeEventListener('abort', leave)
        clientGone?.removeEventListener('abort', leave)
      }
      const leave = (): void => {
        unlisten()
        line.waiting.splice(line.waiting.indexOf(waiting), 1)
        this.#removeIfEmpty(organizationId, line)
        reject(stopping.aborted ? this.#stoppingError() : clientGoneError())
      }
      const waiting = {
        begin: () => {
          unlisten()
          resolve()
        },
      }
      stopping.addEventListener('abort', leave, { once: true })
      clientGone?.addEventListener('abort', leave, { once: true })
      line.waiting.push(waiting)
    })
  }

  /** Counts the next work as running before it begins, so that no newcomer takes its place; its line goes to the end. */
  #serveNext(): void {
    for (const [organizationId, line] of this.#lines) {
      if (line.waiting.length === 0 || !this.#hasRoomFor(line)) continue
      this.#lines.delete(organizationId)
      this.#lines.set(organizationId, line)
      this.#count(line, 1)
      line.waiting.shift()!.begin()
      return
    }
  }

  async #refusal({ stopping, clientGone }: TurnRequest): Promise<RequestError> {
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

/** No client reads it; it ends the request's work. */
const clientGoneError = (): RequestError =>
  new RequestError('invalid_request', 'the client closed the connection before its turn came', {
    status: 400,
  })
