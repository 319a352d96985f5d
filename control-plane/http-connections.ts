import { BlockList, isIPv6, type Socket } from 'node:net'
import { Counter, Gauge, type Registry } from 'prom-client'
import { clock } from '../shared/runtime/clock.ts'
import type { Settings } from '../shared/runtime/config.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import { knownCounter } from '../shared/runtime/metrics/known-counter.ts'
import { maxOpenFiles } from '../shared/runtime/open-files.ts'
import { networkOf } from '../shared/values/ip.ts'

export interface ConnectionLimits {
  inProcess: number
  perAddress: number
  /** Whose connections count in all, and not for their address. */
  isProxy: (address: string) => boolean
}

/** So many connections above a limit may send a request, which is answered with 503; more are just closed. */
const maxRefused = 20
/** The connection, and the file that an import's inline content is staged in. */
const descriptorsPerConnection = 2
/** For the database (50 connections), the process itself, and connections that are refused. */
const otherDescriptors = 120
const logIntervalMs = 60_000

interface Connection {
  readonly socket: Socket
  /** What it counts for; null for a proxy. */
  readonly address: string | null
  readonly isRefused: boolean
  readonly openedAt: number
  requests: number
}

/**
 * How many connections there may be, in all and from one address. At a limit the one without a request makes room that
 * has waited for longest: first among those that never sent a whole request, then among those that wait for their next
 * one. Only where each has a request in progress is a new one refused.
 */
export class HttpConnections {
  readonly #limits: ConnectionLimits
  readonly #log: Logger
  readonly #connections = new Map<Socket, Connection>()
  /** Those that have had no request, longest first. */
  readonly #unused = new Set<Connection>()
  /** Those that wait for their next request, longest first. */
  readonly #idle = new Set<Connection>()
  readonly #ofAddress = new Map<string, number>()
  #refused = 0
  readonly #counts = { refused: 0, closedForCapacity: 0 }
  readonly #refusals: Counter<'reason'>
  readonly #closings: Counter<'reason'>
  #logAt = 0

  constructor(limits: ConnectionLimits, { log, registry }: { log: Logger; registry: Registry }) {
    this.#limits = limits
    this.#log = log
    const connections = this.#connections
    new Gauge({
      name: 'rollcall_http_connections',
      help: 'HTTP connections that are open, those that wait for a request included',
      registers: [registry],
      collect() {
        this.set(connections.size)
      },
    })
    this.#refusals = knownCounter(registry, {
      name: 'rollcall_http_connections_refused_total',
      help: 'Connections that were refused because there were too many with a request in progress, in all or from their address',
      labels: { reason: ['in_all', 'address'] },
    })
    this.#closings = knownCounter(registry, {
      name: 'rollcall_http_connections_closed_total',
      help: 'Connections without a request that were closed, because nothing came or to make room for a new one',
      labels: { reason: ['silent', 'room'] },
    })
  }

  /** Counts a new connection; it may be closed at once. */
  add(socket: Socket): void {
    const remote = socket.remoteAddress ?? ''
    const address = this.#limits.isProxy(remote) ? null : networkOf(remote)
    const refusal = this.#refusalOf(address)
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

  /** Whether it came above a limit: its requests aren't served. */
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

  /** Closes those that have sent no byte for so long since they were opened. */
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

  #refusalOf(address: string | null): 'address' | 'in_all' | null {
    const { inProcess, perAddress } = this.#limits
    const isAddressFull = address !== null && (this.#ofAddress.get(address) ?? 0) >= perAddress
    if (isAddressFull && !this.#evictOne((each) => !each.isRefused && each.address === address))
      return 'address'
    const isFull = this.#connections.size - this.#refused >= inProcess
    return isFull && !this.#evictOne((each) => !each.isRefused) ? 'in_all' : null
  }

  #evictOne(isSuitable: (connection: Connection) => boolean): boolean {
    for (const waiting of [this.#unused, this.#idle])
      for (const connection of waiting)
        if (isSuitable(connection)) {
          this.#counts.closedForCapacity += 1
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

  /** Once a minute: there may be thousands a second. */
  #warn(address: string | null): void {
    if (clock.monotonicMs() < this.#logAt) return
    this.#logAt = clock.monotonicMs() + logIntervalMs
    const { inProcess, perAddress } = this.#limits
    this.#log.warn(
      {
        address: address ?? 'a trusted proxy',
        connections: this.#connections.size,
        refused: this.#counts.refused,
        closed_for_room: this.#counts.closedForCapacity,
      },
      `there are as many HTTP connections as there may be, ${inProcess} in all or ${perAddress} from one address: those that wait for a request are closed, and new ones refused where there are none (HTTP_MAX_CONNECTIONS, HTTP_MAX_CONNECTIONS_PER_ADDRESS)`,
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
      const count = (this.#ofAddress.get(address) ?? 0) + change
      if (count > 0) this.#ofAddress.set(address, count)
      else this.#ofAddress.delete(address)
    }
  }
}

/** Those of the settings, less where the process may not open as many files; one address then gets half of them. */
export function connectionLimits(settings: Settings, log: Logger): ConnectionLimits {
  const { HTTP_MAX_CONNECTIONS: wanted, HTTP_MAX_CONNECTIONS_PER_ADDRESS: wantedPerAddress } = settings
  const fitting = Math.max(2, Math.floor((maxOpenFiles() - otherDescriptors) / descriptorsPerConnection))
  const inProcess = Math.min(wanted, fitting)
  const perAddress = inProcess < wanted ? Math.min(wantedPerAddress, inProcess >> 1) : wantedPerAddress
  if (inProcess < wanted)
    log.warn(
      `HTTP_MAX_CONNECTIONS is ${inProcess}, and HTTP_MAX_CONNECTIONS_PER_ADDRESS ${perAddress}: the limit of open files (ulimit -n) leaves no room for more`,
    )
  return { inProcess, perAddress, isProxy: isIn(settings.TRUSTED_PROXIES) }
}

/** Whether an address lies in one of the networks or is one of the addresses. */
function isIn(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return (address) => list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
