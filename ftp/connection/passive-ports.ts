import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { clock } from '../../shared/runtime/clock.ts'
import { FtpError } from '../ftp-error.ts'

export interface PassivePort {
  port: number
  server: Server
  release(): void
}

export interface PassivePortsOptions {
  host: string
  /** 0 and 0: any free port. */
  first: number
  last: number
  /** How long to wait for a port when there is none. */
  timeoutMs: number
}

/**
 * The ports of passive data connections. One is taken from PASV until the client has dialled it, and is then free for
 * the next one. Of a range an account has at most half, so that nobody can keep all of it. They are handed out at
 * random: FTP has nothing that ties a data connection to its session, and who guesses the port could come first.
 */
export class PassivePorts {
  readonly #options: PassivePortsOptions
  readonly #share: number
  readonly #taken = new Set<number>()
  readonly #takenBy = new Map<number, number>()
  #waiting: (() => void)[] = []
  #releases = 0

  constructor(options: PassivePortsOptions) {
    this.#options = options
    this.#share = options.first === 0 ? Infinity : Math.max(1, (options.last - options.first + 1) >> 1)
  }

  /** A port that is listened on for an account; throws 425 when there is none for a while, or `signal` says so. */
  async take(account: number, signal: AbortSignal): Promise<PassivePort> {
    const until = clock.monotonicMs() + this.#options.timeoutMs
    for (;;) {
      const releasesBefore = this.#releases
      const isOverShare = this.#leasedBy(account) >= this.#share
      const taken = isOverShare ? null : await this.#tryAll(account)
      if (taken !== null) return taken
      const left = until - clock.monotonicMs()
      if (left <= 0 || signal.aborted)
        throw new FtpError(
          425,
          isOverShare
            ? 'this account waits for too many data connections, try again in a moment'
            : 'all passive ports are in use, try again in a moment',
        )
      // One that came free during the search may have been passed by.
      if (this.#releases === releasesBefore) await this.#nextRelease(left)
    }
  }

  #leasedBy(account: number): number {
    return this.#takenBy.get(account) ?? 0
  }

  async #tryAll(account: number): Promise<PassivePort | null> {
    // Counted before it listens: others ask meanwhile.
    this.#takenBy.set(account, this.#leasedBy(account) + 1)
    for (const candidate of this.#candidates()) {
      this.#taken.add(candidate)
      const server = await listening(this.#options.host, candidate)
      if (server !== null) return this.#handOut(account, candidate, server)
      this.#taken.delete(candidate)
    }
    // Wakes nobody: nothing came free.
    this.#uncount(account)
    return null
  }

  /** The range once, in no order. */
  *#candidates(): Generator<number> {
    const { first, last } = this.#options
    if (first === 0) {
      yield 0
      return
    }
    const ports = Array.from({ length: last - first + 1 }, (_, index) => first + index)
    for (let left = ports.length; left > 0; left -= 1) {
      const drawn = randomInt(left)
      const port = ports[drawn]!
      ports[drawn] = ports[left - 1]!
      if (!this.#taken.has(port)) yield port
    }
  }

  #handOut(account: number, candidate: number, server: Server): PassivePort {
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      server.close()
      this.#taken.delete(candidate)
      this.#uncount(account)
      this.#wakeAll()
    }
    return { port: (server.address() as { port: number }).port, server, release }
  }

  #uncount(account: number): void {
    const held = this.#leasedBy(account) - 1
    if (held > 0) this.#takenBy.set(account, held)
    else this.#takenBy.delete(account)
  }

  #wakeAll(): void {
    this.#releases += 1
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }

  /** Until a port is given back, or for so long. */
  #nextRelease(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs)
      this.#waiting.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}

/** Null when the port is somebody else's. */
async function listening(host: string, port: number): Promise<Server | null> {
  const server = createServer({ pauseOnConnect: true })
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch {
    return null
  }
  // What goes wrong with accepting later concerns one data connection, which then times out.
  server.on('error', () => undefined)
  return server
}
