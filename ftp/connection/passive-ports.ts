import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { clock } from '../../shared/runtime/clock.ts'
import { within } from '../../shared/runtime/within.ts'
import { FtpError } from '../ftp-error.ts'
import { BoundedCounts } from '../../shared/runtime/bounded-counts.ts'

export interface PassivePort {
  port: number
  server: Server
  release(): void
}

interface PassivePortsOptions {
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
  readonly #leased = new Set<number>()
  readonly #leasesByAccount: BoundedCounts<number>
  /** Resolves when a port is released. */
  #nextRelease = Promise.withResolvers<undefined>()

  constructor(options: PassivePortsOptions) {
    this.#options = options
    const { first, last } = options
    this.#leasesByAccount = new BoundedCounts(first === 0 ? Infinity : Math.max(1, (last - first + 1) >> 1))
  }

  /** A listening port for an account. Throws FtpError 425 after the timeout, or when `signal` is aborted. */
  async acquire(account: number, signal: AbortSignal): Promise<PassivePort> {
    const deadline = clock.monotonicMs() + this.#options.timeoutMs
    for (;;) {
      // Taken before the search, which may have passed a port that is released during it.
      const { promise: released } = this.#nextRelease
      // Counted before the first await, so that concurrent calls of the account can't pass its limit together.
      const isOverShare = !this.#leasesByAccount.add(account)
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
      await within(remainingMs, released, undefined)
    }
  }

  async #tryAll(account: number): Promise<PassivePort | null> {
    for (const candidate of this.#candidates()) {
      this.#leased.add(candidate)
      const listening = await tryListen(this.#options.host, candidate)
      if (listening !== null) return this.#lease(account, candidate, listening)
      this.#leased.delete(candidate)
    }
    // No port was released, so no waiting call is woken.
    this.#leasesByAccount.remove(account)
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
      this.#leasesByAccount.remove(account)
      this.#nextRelease.resolve(undefined)
      this.#nextRelease = Promise.withResolvers()
    }
    return { port, server, release }
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
