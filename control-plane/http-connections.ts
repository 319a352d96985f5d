import { BlockList, isIPv6, type Socket } from 'node:net'
import { Counter, Gauge, type Registry } from 'prom-client'
import { clock } from '../shared/runtime/clock.ts'
import type { Settings } from '../shared/runtime/config.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import { knownCounter } from '../shared/runtime/metrics/known-counter.ts'
import { maxOpenFiles } from '../shared/runtime/open-files.ts'
import { clientNetwork } from '../shared/values/ip.ts'

export interface ConnectionLimits {
  inProcess: number
  perAddress: number
  /** Connections of a proxy count only in total, because many clients share its address. */
  isProxy: (address: string) => boolean
}

/** Connections above a limit that may still send a request, to be answered with 503. Further ones are just closed. */
const maxRefused = 20
/** A connection needs its socket and, while an import's inline content is staged, a file. */
const descriptorsPerConnection = 2
/** Reserved for the database (50 connections), the process itself, and refused connections. */
const otherDescriptors = 120
const logIntervalMs = 60_000

interface Connection {
  readonly socket: Socket
  /** The address or IPv6 network that it counts for; null for a proxy. */
  readonly address: string | null
  readonly isRefused: boolean
  readonly openedAt: number
  requests: number
}

/**
 * Bounds the open connections, in total and from one address. At a limit, the connection that has waited longest
 * without a request is closed. One that never sent a whole request goes first, then an idle one. A new connection is
 * refused only when all others have a request in flight.
 *
 * Without it 400 silent connections took all 256 open files of a process for 80 s, the database's and those of `/healthz`
 * too; with it the slowest `/healthz` took 145 ms. `server.maxConnections` refuses new connections and keeps the silent
 * ones. Up to `maxRefused` are answered, because a failed probe restarts the process in the middle of its requests.
 */
export class HttpConnections {
  readonly #limits: ConnectionLimits
  readonly #log: Logger
  readonly #connections = new Map<Socket, Connection>()
  /** Connections that have had no request yet, the oldest first. */
  readonly #unused = new Set<Connection>()
  /** Connections that wait for their next request, the longest idle first. */
  readonly #idle = new Set<Connection>()
  readonly #countByAddress = new Map<string, number>()
  #refused = 0
  readonly #counts = { refused: 0, closed: 0 }
  readonly #refusals: Counter<'reason'>
  readonly #closings: Counter<'reason'>
  #logAt = 0

  constructor(limits: ConnectionLimits, { log, registry }: { log: Logger; registry: Registry }) {
    this.#limits = limits
    this.#log = log
    const connections = this.#connections
    new Gauge({
      name: 'rollcall_http_connections',
      help: 'Open HTTP connections, including idle ones',
      registers: [registry],
      collect() {
        this.set(connections.size)
      },
    })
    this.#refusals = knownCounter(registry, {
      name: 'rollcall_http_connections_refused_total',
      help: 'Connections that were refused at a limit because all others had a request in flight; the limit was that of the process (in_all) or of the address',
      labels: { reason: ['in_all', 'address'] },
    })
    this.#closings = knownCounter(registry, {
      name: 'rollcall_http_connections_closed_total',
      help: 'Connections without a request that were closed, because they sent nothing (silent) or a new connection came at a limit (room)',
      labels: { reason: ['silent', 'room'] },
    })
  }

  /** Counts a new connection. At a limit it or another one is closed. */
  add(socket: Socket): void {
    const remote = socket.remoteAddress ?? ''
    const address = this.#limits.isProxy(remote) ? null : clientNetwork(remote)
    const refusal = this.#findRefusal(address)
    if (refusal !== null) this.#refuse(refusal, address)
    const isRefused = refusal !== null
    if (isRefused && this.#refused >= maxRefused && !this.#evictOne((each) => each.isRefused)) {
      socket.destroy()
      return
    }
    const connection = { socket, address, isRefused, openedAt: clock.monotonicMs(), requests: 0 }
    this.#connections.set(socket, connection)
    this.#unused.add(connection)
    this.#count(connection, 1)
    socket.once('close', () => this.#remove(connection))
  }

  /** Whether the connection came above a limit: its requests are answered with 503. */
  isRefused(socket: Socket): boolean {
    return this.#connections.get(socket)?.isRefused === true
  }

  requestBegun(socket: Socket): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) return
    connection.requests += 1
    this.#unused.delete(connection)
    this.#idle.delete(connection)
  }

  requestEnded(socket: Socket): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) return
    connection.requests -= 1
    if (connection.requests === 0) this.#idle.add(connection)
  }

  /** Closes connections that have sent no byte within `timeoutMs` after they were opened. */
  closeSilent(timeoutMs: number): void {
    const openedBefore = clock.monotonicMs() - timeoutMs
    for (const connection of this.#unused) {
      if (connection.openedAt > openedBefore) return
      if (connection.socket.bytesRead === 0) this.#close(connection, 'silent')
    }
  }

  closeWithoutRequest(): void {
    for (const { socket, requests } of this.#connections.values()) if (requests === 0) socket.destroy()
  }

  #findRefusal(address: string | null): 'address' | 'in_all' | null {
    const { inProcess, perAddress } = this.#limits
    const isAddressFull = address !== null && (this.#countByAddress.get(address) ?? 0) >= perAddress
    if (isAddressFull && !this.#evictOne((each) => !each.isRefused && each.address === address))
      return 'address'
    const isFull = this.#connections.size - this.#refused >= inProcess
    return isFull && !this.#evictOne((each) => !each.isRefused) ? 'in_all' : null
  }

  #evictOne(isSuitable: (connection: Connection) => boolean): boolean {
    for (const waiting of [this.#unused, this.#idle])
      for (const connection of waiting)
        if (isSuitable(connection)) {
          this.#counts.closed += 1
          this.#close(connection, 'room')
          this.#warn(connection.address)
          return true
        }
    return false
  }

  #refuse(reason: 'address' | 'in_all', address: string | null): void {
    this.#counts.refused += 1
    this.#refusals.inc({ reason })
    this.#warn(address)
  }

  /** Logs once a minute, because thousands of connections may come in a second. */
  #warn(address: string | null): void {
    if (clock.monotonicMs() < this.#logAt) return
    this.#logAt = clock.monotonicMs() + logIntervalMs
    const { inProcess, perAddress } = this.#limits
    this.#log.warn(
      {
        address: address ?? 'a trusted proxy',
        connections: this.#connections.size,
        refused: this.#counts.refused,
        closed: this.#counts.closed,
      },
      `a limit of HTTP connections is reached, ${inProcess} in total or ${perAddress} from one address: idle connections are closed, and new ones are refused when none is idle (HTTP_MAX_CONNECTIONS, HTTP_MAX_CONNECTIONS_PER_ADDRESS)`,
    )
  }

  #close(connection: Connection, reason: 'silent' | 'room'): void {
    this.#closings.inc({ reason })
    this.#remove(connection)
    connection.socket.destroy()
  }

  #remove(connection: Connection): void {
    if (!this.#connections.delete(connection.socket)) return
    this.#unused.delete(connection)
    this.#idle.delete(connection)
    this.#count(connection, -1)
  }

  #count({ address, isRefused }: Connection, change: 1 | -1): void {
    if (isRefused) this.#refused += change
    else if (address !== null) {
      const count = (this.#countByAddress.get(address) ?? 0) + change
      if (count > 0) this.#countByAddress.set(address, count)
      else this.#countByAddress.delete(address)
    }
  }
}

/**
 * The limits from the settings. Where the process may not open enough files, the total is what fits, and one address
 * gets at most half of it.
 */
export function connectionLimits(settings: Settings, log: Logger): ConnectionLimits {
  const { HTTP_MAX_CONNECTIONS: wanted, HTTP_MAX_CONNECTIONS_PER_ADDRESS: wantedPerAddress } = settings
  const fitting = Math.max(2, Math.floor((maxOpenFiles() - otherDescriptors) / descriptorsPerConnection))
  const inProcess = Math.min(wanted, fitting)
  const perAddress = inProcess < wanted ? Math.min(wantedPerAddress, inProcess >> 1) : wantedPerAddress
  if (inProcess < wanted)
    log.warn(
      `only ${inProcess} HTTP connections are allowed, ${perAddress} from one address: the limit of open files (ulimit -n) is too low for HTTP_MAX_CONNECTIONS=${wanted}`,
    )
  return { inProcess, perAddress, isProxy: addressMatcher(settings.TRUSTED_PROXIES) }
}

/** Tests whether an address equals one of the entries or lies in one of the networks among them. */
function addressMatcher(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return (address) => list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
