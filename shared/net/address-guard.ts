import { lookup as systemLookup } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'

export interface Address {
  address: string
  family: number
}

/** All addresses of a host name, as node:dns/promises gives them. */
export type Lookup = (hostname: string) => Promise<Address[]>

/**
 * Which addresses a URL that a client gave may lead to: public ones, and those that the operator allowed
 * (`URL_IMPORT_ALLOW`). It is asked for every hop and every DNS answer, and the answer that was checked is the one
 * that is connected to; otherwise a name could change its meaning in between.
 */
export class AddressGuard {
  readonly #networks: [ipaddr.IPv4 | ipaddr.IPv6, number][] = []
  readonly #names = new Set<string>()
  readonly #lookup: Lookup

  /** `allow`: CIDRs, addresses and host names. */
  constructor(allow: readonly string[], lookup: Lookup = (name) => systemLookup(name, { all: true })) {
    this.#lookup = lookup
    for (const entry of allow) {
      if (ipaddr.isValidCIDR(entry)) this.#networks.push(ipaddr.parseCIDR(entry))
      else if (ipaddr.isValid(entry))
        this.#networks.push([ipaddr.process(entry), ipaddr.process(entry).kind() === 'ipv4' ? 32 : 128])
      else this.#names.add(comparable(entry))
    }
  }

  /**
   * The host of a URL as it is looked up, without brackets. The parser spells out the hosts of http, https and ftp in
   * one way (`0x7f.1` is `127.0.0.1`), but not those of ftps.
   */
  static hostOf(url: URL): string {
    const spelled = url.protocol === 'ftps:' ? URL.parse(`ftp:${url.href.slice('ftps:'.length)}`) : url
    return (spelled ?? url).hostname.replace(/^\[|\]$/g, '')
  }

  /** Whether the address may be connected to. `text`: an IPv4 or IPv6 address without brackets. */
  allowsAddress(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.process(text)
    if (isPublic(address)) return true
    return this.#networks.some(
      ([network, bits]) => network.kind() === address.kind() && (address as ipaddr.IPv4).match(network, bits),
    )
  }

  /** The address that a host spells out itself, in its usual form, or null for a name. */
  static literalOf(host: string): string | null {
    const bare = host.replace(/^\[|\]$/g, '')
    return ipaddr.isValid(bare) ? ipaddr.process(bare).toString() : null
  }

  /** Why a host as it stands in a URL is refused before any name is looked up; null when it isn't. */
  literalProblem(host: string): string | null {
    const literal = AddressGuard.literalOf(host)
    return literal === null ? null : this.connectionProblem(host, literal)
  }

  /** Why a connection to the address isn't to be used for the host; null when it may be. */
  connectionProblem(host: string, address: string): string | null {
    return this.#names.has(comparable(host)) || this.allowsAddress(address) ? null : refusal(host, address)
  }

  /** The addresses that may be connected to for a host; throws an AddressRefused when one of its addresses is refused. */
  async resolve(host: string): Promise<Address[]> {
    const literal = AddressGuard.literalOf(host)
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

/** Its message names host, address, and the setting that would allow it. */
export class AddressRefused extends Error {}

/** Answers instance metadata in one provider's networks, although it looks public. */
const wireServer = '168.63.129.16'

function isPublic(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== 'unicast' || address.toString() === wireServer) return false
  // What is handed out of IPv6; outside of it lie forms that bear an IPv4 address, such as ::7f00:1.
  return address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(ipaddr.IPv6.parse('2000::'), 3)
}

const comparable = (host: string): string => host.toLowerCase().replace(/\.$/, '')

function refusal(host: string, address: string): string {
  const shown = host === address || host === `[${address}]` ? host : `${host} (${address})`
  return `${shown} is no public address and is refused; an operator may allow it with URL_IMPORT_ALLOW`
}
