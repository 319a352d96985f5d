import type { Caller } from '../../../shared/api-keys.ts'
import { RequestError } from '../../../shared/errors.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** On whose behalf a password is hashed, and the signal of the process's stop, which sends those who wait away. */
export interface HashingFor {
  organizationId: number
  stopping: AbortSignal
}

/** The caller's organization, not the user's: it is the caller who brings so many. */
export const hashingFor = ({ stopping }: ControlPlane, { organizationId }: Caller): HashingFor => ({
  organizationId,
  stopping,
})

interface Waiting {
  begin: () => void
}

/**
 * The few places at which passwords are hashed, and who waits for one. Each organization has a line of its own, and the
 * lines are served in turn: whoever brings two hundred at once holds up others by one hash, not by two hundred.
 */
export class HashingTurns {
  readonly #mostWaiting: number
  /** Places that nobody has; there are none while somebody waits. */
  #free: number
  /** By organization, the one that is served next in front. No line is empty. */
  readonly #lines = new Map<number, Waiting[]>()

  /** `mostWaiting` is for each organization. */
  constructor({ atOnce, mostWaiting }: { atOnce: number; mostWaiting: number }) {
    this.#free = atOnce
    this.#mostWaiting = mostWaiting
  }

  /** Runs `work` in its turn. Throws 429 when the organization's line is full, 503 when the process stops before. */
  async take<T>(of: HashingFor, work: () => Promise<T>): Promise<T> {
    if (of.stopping.aborted) throw stopping()
    if (this.#free > 0) this.#free -= 1
    else await this.#wait(of)
    try {
      return await work()
    } finally {
      this.#pass()
    }
  }

  #wait({ organizationId, stopping: signal }: HashingFor): Promise<void> {
    const line = this.#lines.get(organizationId) ?? []
    if (line.length >= this.#mostWaiting) throw tooMany()
    return new Promise((resolve, reject) => {
      const leave = () => {
        line.splice(line.indexOf(waiting), 1)
        if (line.length === 0) this.#lines.delete(organizationId)
        reject(stopping())
      }
      const waiting: Waiting = {
        begin: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      line.push(waiting)
      this.#lines.set(organizationId, line)
    })
  }

  /** Hands the place on, so that nobody comes in between; the line that was served goes behind the others. */
  #pass(): void {
    const [next] = this.#lines
    if (next === undefined) {
      this.#free += 1
      return
    }
    const [organizationId, line] = next
    const { begin } = line.shift()!
    this.#lines.delete(organizationId)
    if (line.length > 0) this.#lines.set(organizationId, line)
    begin()
  }
}

const tooMany = (): RequestError =>
  new RequestError(
    'not_authorized',
    'too many passwords of this organization are being checked, try again in 10 s',
    { status: 429, headers: { 'Retry-After': '10' } },
  )

const stopping = (): RequestError =>
  new RequestError('internal_error', 'the service is stopping and checked no password: try again', {
    status: 503,
    headers: { 'Retry-After': '1' },
  })
