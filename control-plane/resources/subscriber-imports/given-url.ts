import { AddressGuard } from '../../../shared/net/address-guard.ts'
import type { Settings } from '../../../shared/runtime/config.ts'

/** URLs that clients give, for sources and callbacks. */

/** Why a URL that a client gave isn't taken; null when it is. What its host resolves to is looked at when it is used. */
export function urlProblem(
  url: URL | null,
  schemes: string[],
  settings: Pick<Settings, 'URL_IMPORT_ALLOW'>,
): string | null {
  if (url === null || !schemes.includes(url.protocol) || url.hostname === '') {
    return `must be a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(', ')}`
  }
  const decoded = url.protocol.startsWith('ftp')
    ? [url.username, url.password, url.pathname]
    : [url.username, url.password]
  if (!decoded.every(isDecodable)) return 'has a % that no two hexadecimal digits follow'
  const problem = new AddressGuard(settings.URL_IMPORT_ALLOW).literalProblem(AddressGuard.hostOf(url))
  return problem === null ? null : `can't be used: ${problem}`
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/**
 * As given; in the parser's spelling where it has credentials. Parsers also take `https:user:password@host`, backslashes
 * and line breaks inside, and masking finds a password only where it usually stands.
 */
export function storedUrl(url: URL, text: string): string {
  return url.username === '' && url.password === '' ? text.trim() : url.href
}

/** The last segment of the path, decoded; the host where there is none. */
export function fileNameOf(url: URL): string {
  const segment = url.pathname.split('/').at(-1) ?? ''
  try {
    return decodeURIComponent(segment) || url.hostname
  } catch {
    return segment
  }
}
