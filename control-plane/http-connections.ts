import type { Server } from 'node:http'
import { BlockList, isIPv6, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { Gauge, type Registry } from 'prom-client'
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

/** A connection needs its socket and, while an import's inline content is staged, a file. */
const descriptorsPerConnection = 2
/** Reserved for the database (50 connections) and the process itself. */
const otherDescriptors = 120
const logIntervalMs = 60_000

/**
 * Bounds the open connections of a server, in total by Node's own `maxConnections`, and those from one address (in IPv6,
 * one /64). A connection above a limit is closed. Without the limits 400 silent connections took all 256 open files of a
 * process for 80 s, the database's too. The limit by address leaves places for others, until Node's `headersTimeout`
 * closes silent connections.
 */
export function boundConnections(
  server: Server,
  { inProcess, perAddress, isProxy }: ConnectionLimits,
  { log, registry }: { log: Logger; registry: Registry },
): void {
  const countByAddress = new Map<string, number>()
  const count = promisify(server.getConnections.bind(server))
  new Gauge({
    name: 'rollcall_http_connections',
    help: 'Open HTTP connections, including idle ones',
    registers: [registry],
    async collect() {
      this.set(await count())
    },
  })
  const refusals = knownCounter(registry, {
    name: 'rollcall_http_connections_refused_total',
    help: 'Connections that were closed at once at a limit, that of the process (in_all) or of the address',
    labels: { reason: ['in_all', 'address'] },
  })
  let refused = 0
  let logAt = 0
  /** Logs once a minute, because thousands of connections may come in a second. */
  const refuse = (reason: 'in_all' | 'address', address: string | undefined): void => {
    refused += 1
    refusals.inc({ reason })
    if (clock.monotonicMs() < logAt) return
    logAt = clock.monotonicMs() + logIntervalMs
    log.warn(
      { address, refused },
      `new HTTP connections are refused at a limit, ${inProcess} in total or ${perAddress} from one address (HTTP_MAX_CONNECTIONS, HTTP_MAX_CONNECTIONS_PER_ADDRESS)`,
    )
  }

  server.maxConnections = inProcess
  server.on('drop', (connection) => refuse('in_all', connection?.remoteAddress))
  server.on('connection', (socket: Socket) => {
    const remote = socket.remoteAddress ?? ''
    if (isProxy(remote)) return
    const address = clientNetwork(remote)
    const open = countByAddress.get(address) ?? 0
    if (open >= perAddress) {
      refuse('address', address)
      socket.destroy()
      return
    }
    countByAddress.set(address, open + 1)
    socket.once('close', () => {
      const left = (countByAddress.get(address) ?? 0) - 1
      if (left > 0) countByAddress.set(address, left)
      else countByAddress.delete(address)
    })
  })
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
