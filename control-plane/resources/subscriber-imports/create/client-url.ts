import { AddressGuard } from '../../../../shared/net/address-guard.ts'
import { pathInUrl } from '../../../../shared/net/remote-file.ts'
import type { Settings } from '../../../../shared/runtime/config.ts'

/** URLs of sources and callbacks, as clients write them. */

export const sourceSchemes = ['http:', 'https:', 'ftp:', 'ftps:']
export const callbackSchemes = ['http:', 'https:']

/** Why a URL is refused; null when it isn't. The addresses of its host are checked when the URL is used. */
export function urlProblem(
  url: URL | null,
  schemes: readonly string[],
  settings: Pick<Settings, 'URL_IMPORT_ALLOW'>,
): string | null {
  if (url === null || !schemes.includes(url.protocol) || url.hostname === '') {
    return `must be a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(', ')}`
  }
  const decoded = url.protocol.startsWith('ftp')
    ? [url.username, url.password, url.pathname]
    : [url.username, url.password]
  if (!decoded.every(isDecodable)) return 'has a % that no two hexadecimal digits follow'
  const problem = new AddressGuard(settings.URL_IMPORT_ALLOW).literalProblem(AddressGuard.lookupHost(url))
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
 * The URL as it is stored: as written, or in the parser's spelling where it has credentials. Parsers also accept
 * `https:user:password@host`, and backslashes and line breaks inside; masking finds a password only in the usual
 * spelling.
 */
export function storedUrl(url: URL, text: string): string {
  return url.username === '' && url.password === '' ? text.trim() : url.href
}

/** The last segment of the path, decoded; the host where the path has none. */
export function fileNameInUrl(url: URL): string {
  const segment = pathInUrl(url).split('/').at(-1) ?? ''
  try {
    return decodeURIComponent(segment) || url.hostname
  } catch {
    return segment
  }
}
