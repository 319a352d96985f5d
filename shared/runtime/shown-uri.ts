/** Options whose values are no secrets; the values of all others are masked. */
const shownOptions =
  /^(appname|authmechanism|authsource|connecttimeoutms|directconnection|journal|maxpoolsize|minpoolsize|readconcernlevel|readpreference|replicaset|retryreads|retrywrites|ssl|tls|tlscafile|w)$/i
const mask = '***'

/**
 * A MongoDB URI as logs, the ready line and messages may show it: user name and hosts, never a password. A URI that is
 * malformed in any way shows less: all before its last "@" but a plain user name is masked, and so is a "port" that is
 * no number.
 */
export function shownMongodbUri(uri: string): string {
  const { scheme, user, rest } = partsOf(uri)
  const [place, query] = splitAt(rest, '?')
  const [hosts, database] = splitAt(place, '/')
  const shown = [
    scheme,
    user === null ? '' : `${/^[\w.%+-]{1,64}$/.test(user) ? user : mask}:${mask}@`,
    hosts.split(',').map(shownHost).join(','),
    database === undefined ? '' : `/${database}`,
    query === undefined ? '' : `?${query.split('&').map(shownOption).join('&')}`,
  ]
  return shown.join('')
}

/** The driver quotes parts of a URI that it can't read. */
export function withoutUriSecrets(message: string, uri: string): string {
  const shown = new Set(wordsOf(shownMongodbUri(uri)))
  const hidden = wordsOf(uri).filter((word) => !shown.has(word) && word.length > 1)
  return hidden.reduce((text, word) => text.replaceAll(word, mask), message)
}

const wordsOf = (text: string): string[] => text.split(/[:/@?&=,\s]+/)

/** `user` is null where nothing stands before a last "@". */
function partsOf(uri: string): { scheme: string; user: string | null; rest: string } {
  const scheme = /^mongodb(?:\+srv)?:\/\//.exec(uri)?.[0] ?? ''
  const at = uri.lastIndexOf('@')
  if (at < scheme.length) return { scheme, user: null, rest: uri.slice(scheme.length) }
  return { scheme, user: uri.slice(scheme.length, at).split(':')[0]!, rest: uri.slice(at + 1) }
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
