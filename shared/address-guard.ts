import { lookup } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'

/**
 * Which addresses a URL that a client gave may lead to: public ones, and those that the operator allowed
 * (`URL_IMPORT_ALLOW`). It is asked for every hop and every DNS answer, and the answer that was checked is the one
 * that is connected to; otherwise a name could change its meaning in between.
 */
export class AddressGuard {
  readonly #networks: [ipaddr.IPv4 | ipaddr.IPv6, number][] = []
  readonly #names = new Set<string>()

  /** `allow`: CIDRs, addresses and host names. */
  constructor(allow: readonly string[]) {
    for (const entry of allow) {
      if (ipaddr.isValidCIDR(entry)) this.#networks.push(ipaddr.parseCIDR(entry))
      else if (ipaddr.isValid(entry))
        this.#networks.push([ipaddr.process(entry), ipaddr.process(entry).kind() === 'ipv4' ? 32 : 128])
      else this.#names.add(entry.toLowerCase())
    }
  }

  /** Whether the address may be connected to. `text`: an IPv4 or IPv6 address without brackets. */
  allowsAddress(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.process(text)
    if (address.range() === 'unicast') return true
    return this.#networks.some(
      ([network, bits]) => network.kind() === address.kind() && (address as ipaddr.IPv4).match(network, bits),
    )
  }

  /** The address that a URL's host spells out itself, or null for a name. */
  static literalOf(hostname: string): string | null {
    const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
    return ipaddr.isValid(bare) ? bare : null
  }

  /** Why a host as it stands in a URL is refused before any name is looked up; null when it isn't. */
  literalProblem(hostname: string): string | null {
    const literal = AddressGuard.literalOf(hostname)
    if (literal === null || this.#names.has(hostname.toLowerCase()) || this.allowsAddress(literal))
      return null
    return refusal(hostname, literal)
  }

  /** The addresses that may be connected to for a host; throws an AddressRefused when one of its addresses is refused. */
  async resolve(hostname: string): Promise<{ address: string; family: number }[]> {
    const literal = AddressGuard.literalOf(hostname)
    const answers =
      literal === null
        ? await lookup(hostname, { all: true })
        : [{ address: literal, family: ipaddr.parse(literal).kind() === 'ipv4' ? 4 : 6 }]
    const refused = this.#names.has(hostname.toLowerCase())
      ? undefined
      : answers.find(({ address }) => !this.allowsAddress(address))
    if (refused !== undefined) throw new AddressRefused(refusal(hostname, refused.address))
    return answers
  }
}

export class AddressRefused extends Error {}

function refusal(host: string, address: string): string {
  const shown = host === address || host === `[${address}]` ? host : `${host} (${address})`
  return `${shown} is no public address and is refused; an operator may allow it with URL_IMPORT_ALLOW`
}
