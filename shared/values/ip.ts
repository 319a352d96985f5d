import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

export const ipExpectation = 'an IPv4 or IPv6 address'

/** The canonical form (RFC 5952) of an IP address without a zone id, or null when it isn't one. */
export function canonicalIp(text: string): string | null {
  if (isIPv4(text)) return text
  if (text.includes('%') || !isIPv6(text)) return null
  const address = ipaddr.IPv6.parse(text)
  return address.isIPv4MappedAddress()
    ? `::ffff:${address.toIPv4Address().toString()}`
    : address.toRFC5952String()
}
