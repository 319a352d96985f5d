import { lookup as systemLookup } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'

export interface Address {
  address: string
  family: number
}

/** Resolves to all addresses of a host name, as `lookup` of node:dns/promises does. */
type Lookup = (hostname: string) => Promise<Address[]>

/**
 * Guards against server-side request forgery. A URL of a client may lead to public addresses, and to those that the
 * operator allowed (`URL_IMPORT_ALLOW`). Every hop and every DNS answer is checked. The connection goes to the
 * checked answer, because a second look-up of the name could give another one. IPv6 outside `2000::/3` is refused as a
 * whole, because a list of ranges would need each form that holds an IPv4 address: `::7f00:1` is 127.0.0.1 in an old one,
 * which ipaddr.js takes for public. So is 168.63.129.16, which answers metadata in one provider's networks.
 */
export class AddressGuard {
  readonly #networks: [ipaddr.IPv4 | ipaddr.IPv6, number][] = []
  readonly #names = new Set<string>()
  readonly #lookup: Lookup

  /** `allow` has CIDRs, addresses and host names. */
  constructor(allow: readonly string[], lookup: Lookup = (name) => systemLookup(name, { all: true })) {
    this.#lookup = lookup
    for (const entry of allow) {
      if (ipaddr.isValidCIDR(entry)) this.#networks.push(ipaddr.parseCIDR(entry))
      else if (ipaddr.isValid(entry))
        this.#networks.push([ipaddr.process(entry), ipaddr.process(entry).kind() === 'ipv4' ? 32 : 128])
      else this.#names.add(normalizeHost(entry))
    }
  }

  /**
   * The host of a URL as it is looked up, without brackets. `URL` normalizes the hosts of http, https and ftp
   * (`0x7f.1` becomes `127.0.0.1`), but not those of ftps, which are therefore parsed as ftp.
   */
  static lookupHost(url: URL): string {
    const normalized = url.protocol === 'ftps:' ? URL.parse(`ftp:${url.href.slice('ftps:'.length)}`) : url
    return (normalized ?? url).hostname.replace(/^\[|\]$/g, '')
  }

  /** Whether a connection to the address is allowed. `text` is an IPv4 or IPv6 address without brackets. */
  allowsAddress(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.process(text)
    if (isPublic(address)) return true
    return this.#networks.some(
      ([network, bits]) => network.kind() === address.kind() && address.match(network, bits),
    )
  }

  /** The address in its usual form where the host is a literal address; null where it is a name. */
  static parseLiteral(host: string): string | null {
    const bare = host.replace(/^\[|\]$/g, '')
    return ipaddr.isValid(bare) ? ipaddr.process(bare).toString() : null
  }

  /** Why the host of a URL is refused before any name is looked up; null when it isn't. */
  literalProblem(host: string): string | null {
    const literal = AddressGuard.parseLiteral(host)
    return literal === null ? null : this.connectionProblem(host, literal)
  }

  /** Why a connection to this address must not be used for the host; null when it may be used. */
  connectionProblem(host: string, address: string): string | null {
    return this.#names.has(normalizeHost(host)) || this.allowsAddress(address) ? null : refusal(host, address)
  }

  /** Resolves to the addresses of a host. Throws AddressRefused when one of them is refused. */
  async resolve(host: string): Promise<Address[]> {
    const literal = AddressGuard.parseLiteral(host)
    const answers =
      literal === null
        ? await this.#lookup(host)
        : [{ address: literal, family: ipaddr.parse(literal).kind() === 'ipv4' ? 4 : 6 }]
    for (const { address } of answers) {
      const problem = this.connectionProblem(host, address)
      if (problem !== null) throw new AddressRefused(problem)
    }
    return answers
  }
}

/** The message names the host, the address and the setting that would allow it. */
export class AddressRefused extends Error {}

/** It serves instance metadata in Azure's networks, although it is in a public range. */
const azureWireServer = '168.63.129.16'

function isPublic(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== 'unicast' || address.toString() === azureWireServer) return false
  // The range of global IPv6 addresses. Outside of it are forms with an embedded IPv4 address, such as ::7f00:1.
  return address.kind() === 'ipv4' || address.match(ipaddr.IPv6.parse('2000::'), 3)
}

const normalizeHost = (host: string): string => host.toLowerCase().replace(/\.$/, '')

function refusal(host: string, address: string): string {
  const shown = host === address || host === `[${address}]` ? host : `${host} (${address})`
  return `${shown} is no public address and is refused; an operator may allow it with URL_IMPORT_ALLOW`
}
