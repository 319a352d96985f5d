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
  /** Both 0: any free port. */
  first: number
  last: number
  /** How long `acquire` waits for a free port. */
  timeoutMs: number
}

/**
 * The ports for passive data connections. PASV acquires one, and it is free again when the client has connected. An
 * account gets at most half of a range, so no account can block the others.
 *
 * Ports are handed out at random. Nothing in FTP ties a data connection to its session, so an attacker who guesses the
 * port could connect before the client.
 */
export class PassivePorts {
  readonly #options: PassivePortsOptions
  readonly #maxPerAccount: number
  readonly #leased = new Set<number>()
  readonly #leasesByAccount = new Map<number, number>()
  #waiting: (() => void)[] = []
  #releases = 0

  constructor(options: PassivePortsOptions) {
    this.#options = options
    this.#maxPerAccount =
      options.first === 0 ? Infinity : Math.max(1, (options.last - options.first + 1) >> 1)
  }

  /** A listening port for an account. Throws FtpError 425 after the timeout, or when `signal` is aborted. */
  async acquire(account: number, signal: AbortSignal): Promise<PassivePort> {
    const deadline = clock.monotonicMs() + this.#options.timeoutMs
    for (;;) {
      const releasesBefore = this.#releases
      const isOverShare = this.#countLeases(account) >= this.#maxPerAccount
      const port = isOverShare ? null : await this.#tryAll(account)
      if (port !== null) return port
      const remainingMs = deadline - clock.monotonicMs()
      if (remainingMs <= 0 || signal.aborted)
        throw new FtpError(
          425,
          isOverShare
            ? 'this account waits for too many data connections; try again in a moment'
            : 'all passive ports are in use; try again in a moment',
        )
      // A port released during the search may have been skipped, so that search is repeated at once.
      if (this.#releases === releasesBefore) await this.#nextRelease(remainingMs)
    }
  }

  #countLeases(account: number): number {
    return this.#leasesByAccount.get(account) ?? 0
  }

  async #tryAll(account: number): Promise<PassivePort | null> {
    // Counted before the first await, so that concurrent calls of the account can't pass its limit together.
    this.#leasesByAccount.set(account, this.#countLeases(account) + 1)
    for (const candidate of this.#candidates()) {
      this.#leased.add(candidate)
      const listening = await tryListen(this.#options.host, candidate)
      if (listening !== null) return this.#lease(account, candidate, listening)
      this.#leased.delete(candidate)
    }
    // No port was released, so no waiting call is woken.
    this.#uncount(account)
    return null
  }

  /** The free ports of the range, each once, in random order. */
  *#candidates(): Generator<number> {
    const { first, last } = this.#options
    if (first === 0) {
      yield 0
      return
    }
    const ports = Array.from({ length: last - first + 1 }, (_, index) => first + index)
    for (let remaining = ports.length; remaining > 0; remaining -= 1) {
      const drawn = randomInt(remaining)
      const port = ports[drawn]!
      ports[drawn] = ports[remaining - 1]!
      if (!this.#leased.has(port)) yield port
    }
  }

  #lease(
    account: number,
    candidate: number,
    { port, server }: { port: number; server: Server },
  ): PassivePort {
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      server.close()
      this.#leased.delete(candidate)
      this.#uncount(account)
      this.#wakeAll()
    }
    return { port, server, release }
  }

  #uncount(account: number): void {
    const remaining = this.#countLeases(account) - 1
    if (remaining > 0) this.#leasesByAccount.set(account, remaining)
    else this.#leasesByAccount.delete(account)
  }

  #wakeAll(): void {
    this.#releases += 1
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }

  /** Resolves when a port is released, or after the timeout. */
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

/** Null when another process listens on the port. */
async function tryListen(host: string, port: number): Promise<{ port: number; server: Server } | null> {
  const server = createServer({ pauseOnConnect: true })
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch {
    return null
  }
  // A later error of accepting concerns one data connection, which then times out.
  server.on('error', () => undefined)
  const address = server.address()
  return { port: typeof address === 'object' && address !== null ? address.port : port, server }
}
