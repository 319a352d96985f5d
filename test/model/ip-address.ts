/** "Invalid IP (v4 or v6, kept in canonical form; no zone ids, no leading zeros)" (decisions 2.5); null: invalid. */
export function canonicalIp(text: string): string | null {
  return text.includes(':') ? canonicalV6(text) : canonicalV4(text)
}

function canonicalV4(text: string): string | null {
  const parts = text.split('.')
  if (parts.length !== 4) return null
  return parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) <= 255) ? text : null
}

/**
 * The URL standard reads v6 addresses by RFC 4291 and writes them by RFC 5952. It differs for v4 addresses in v6
 * (`::ffff:1.2.3.4`), whose last part RFC 5952 writes as v4.
 */
function canonicalV6(text: string): string | null {
  if (!/^[0-9a-f:.]+$/i.test(text)) return null
  const hostname = URL.parse(`http://[${text}]/`)?.hostname
  if (hostname === undefined) return null
  const mapped = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\]$/.exec(hostname)
  if (mapped === null) return hostname.slice(1, -1)
  const [high, low] = [parseInt(mapped[1]!, 16), parseInt(mapped[2]!, 16)]
  return `::ffff:${[high >> 8, high & 255, low >> 8, low & 255].join('.')}`
}
