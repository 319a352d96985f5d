import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

export const ipExpectation = 'an IPv4 or IPv6 address'

/** The canonical form (RFC 5952) of an IP address; null for anything else, and for an address with a zone id. */
export function canonicalIp(text: string): string | null {
  if (isIPv4(text)) return text
  if (text.includes('%') || !isIPv6(text)) return null
  const address = ipaddr.IPv6.parse(text)
  return address.isIPv4MappedAddress()
    ? `::ffff:${address.toIPv4Address().toString()}`
    : address.toRFC5952String()
}

/**
 * The network that counts as one client for limits per address: an IPv4 address itself, or the /64 of an IPv6 address.
 * One customer of an internet provider can use all 2^64 addresses of a /64. Other texts are returned as they are.
 */
export function clientNetwork(address: string): string {
  if (!address.includes(':')) return address
  const [withoutZone = ''] = address.split('%', 1)
  if (!isIPv6(withoutZone)) return address
  const parsed = ipaddr.IPv6.parse(withoutZone)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  const network = new ipaddr.IPv6([...parsed.parts.slice(0, 4), 0, 0, 0, 0])
  return `${network.toRFC5952String()}/64`
}
