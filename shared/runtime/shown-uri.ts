/** Options whose values aren't secrets. All other values are masked. */
const shownOptions =
  /^(appname|authmechanism|authsource|connecttimeoutms|directconnection|journal|maxpoolsize|minpoolsize|readconcernlevel|readpreference|replicaset|retryreads|retrywrites|ssl|tls|tlscafile|w)$/i
const mask = '***'

/**
 * Masks a MongoDB URI for logs, the ready line and messages: user name and hosts are shown, passwords never. In a
 * malformed URI everything before the last "@" is masked except a plain user name, and so is a port that isn't a
 * number.
 */
export function shownMongodbUri(uri: string): string {
  const { scheme, user, rest } = splitUri(uri)
  const [beforeQuery, query] = splitAt(rest, '?')
  const [hosts, database] = splitAt(beforeQuery, '/')
  const shown = [
    scheme,
    user === null ? '' : `${/^[\w.%+-]{1,64}$/.test(user) ? user : mask}:${mask}@`,
    hosts.split(',').map(shownHost).join(','),
    database === undefined ? '' : `/${database}`,
    query === undefined ? '' : `?${query.split('&').map(shownOption).join('&')}`,
  ]
  return shown.join('')
}

/** Masks secrets of the URI in a message of the driver, which quotes parts of a URI that it can't parse. */
export function withoutUriSecrets(message: string, uri: string): string {
  const shown = new Set(splitParts(shownMongodbUri(uri)))
  const hidden = splitParts(uri).filter((part) => !shown.has(part) && part.length > 1)
  return hidden.reduce((text, part) => text.replaceAll(part, mask), message)
}

const splitParts = (text: string): string[] => text.split(/[:/@?&=,\s]+/)

/** `user` is null when the URI has no "@" after its scheme. */
function splitUri(uri: string): { scheme: string; user: string | null; rest: string } {
  const scheme = /^mongodb(?:\+srv)?:\/\//.exec(uri)?.[0] ?? ''
  const at = uri.lastIndexOf('@')
  if (at < scheme.length) return { scheme, user: null, rest: uri.slice(scheme.length) }
  const [user = ''] = uri.slice(scheme.length, at).split(':', 1)
  return { scheme, user, rest: uri.slice(at + 1) }
}

function splitAt(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

function shownHost(host: string): string {
  const [, name = '', port = ''] = /^(\[[\da-f:.]+\]|[^:]*)(?::(.*))?$/is.exec(host) ?? []
  return host.endsWith(port) && /^\d{0,5}$/.test(port) ? host : `${name}:${mask}`
}

function shownOption(option: string): string {
  const [name, value] = splitAt(option, '=')
  return value === undefined || shownOptions.test(name) ? option : `${name}=${mask}`
}
