import { hasEnded } from '../contract/import-state.ts'
import { maskPassword } from './logger.ts'
import type { ImportDocument } from '../contract/schemas/import.ts'
import type { SecretBox } from './secret-box.ts'

/**
 * What of an import is secret: passwords and tokens in the URLs of its source and its callback, and the secret that
 * signs the callback. While an import needs them they are in its `sealed`, and the rest of it shows the URLs without;
 * in an import of an earlier version, or of a control plane without a key, they are in the clear. Both are dropped when
 * the import and its callback are done (shared/store/import-secrets.ts).
 */

type Holder = Pick<ImportDocument, '_id' | 'source' | 'callback' | 'sealed'>

export interface ImportSecrets {
  url: string | null
  callback: { url: string; secret: string } | null
}

/** The same import as it is stored. Without a key its secrets stay as they are. */
export function sealed<T extends Holder>(document: T, box: SecretBox): T {
  const { source, callback } = document
  const url = source.url === null ? null : withoutSecrets(source.url)
  const hasSecrets = callback !== null || url !== source.url
  if (!hasSecrets || !box.canSeal) return { ...document, has_secrets: hasSecrets }
  const text = JSON.stringify({ url: source.url, callback })
  return {
    ...document,
    source: { ...source, url },
    callback: callback === null ? null : { url: callbackWithoutSecrets(callback.url) },
    sealed: box.seal(text, ownerOf(document)),
    has_secrets: true,
  }
}

/** Throws NotOpened. */
export async function openSecrets(document: Holder, box: SecretBox): Promise<ImportSecrets> {
  const { source, callback } = document
  if (document.sealed !== undefined)
    return JSON.parse(await box.open(document.sealed, ownerOf(document))) as ImportSecrets
  return {
    url: source.url,
    callback: callback?.secret === undefined ? null : { url: callback.url, secret: callback.secret },
  }
}

const ownerOf = ({ _id }: Holder): string => `import ${_id}`

export interface ShownUrls {
  url: string | null
  callbackUrl: string | null
}

/**
 * The URLs as views have them: while the import needs them as they were given, with `***` for a password; after its end
 * without anything that may be secret, as that is dropped. Also that where they can't be decrypted.
 */
export async function shownUrls(
  document: Holder & Pick<ImportDocument, 'state'>,
  box: SecretBox,
): Promise<ShownUrls> {
  const { source, callback, state } = document
  const whole = hasEnded(state) ? null : await openSecrets(document, box).catch(() => null)
  const [shown, shownCallback] =
    whole === null ? [withoutSecrets, callbackWithoutSecrets] : [maskPassword, maskPassword]
  const url = whole?.url ?? source.url
  const callbackUrl = whole?.callback?.url ?? callback?.url ?? null
  return {
    url: url === null ? null : shown(url),
    callbackUrl: callbackUrl === null ? null : shownCallback(callbackUrl),
  }
}

/**
 * The source's URL with `***` for its password, for a user name that is or may be a token, and for each value of its
 * query and its fragment that may be a secret. As it is where it has none of them.
 */
export const withoutSecrets = (text: string): string => masked(text, (pathname) => pathname)

/** The same of a callback's URL; receivers are also known by tokens in the path, so those are masked too. */
export const callbackWithoutSecrets = (text: string): string => masked(text, withoutTokens)

function masked(text: string, maskPath: (pathname: string) => string): string {
  const url = URL.parse(text)
  if (url === null) return maskPassword(text)
  const given = url.href
  if (isToken(url)) url.username = mask
  if (url.password !== '') url.password = mask
  const [pathname, query, fragment] = [url.pathname, url.search.slice(1), url.hash.slice(1)]
  if (maskPath(pathname) !== pathname) url.pathname = maskPath(pathname)
  if (maskedPairs(query) !== query) url.search = maskedPairs(query)
  if (maskedPairs(fragment) !== fragment) url.hash = maskedPairs(fragment)
  return url.href === given ? text : url.href
}

const mask = '***'

/** Code hosts take a token as the user name, without a password or with one that says nothing. */
function isToken({ protocol, username, password }: URL): boolean {
  if (username === '' || username === mask) return false
  if (password === '') return protocol.startsWith('http') || username.length >= 8
  return username.length >= 16 || password.startsWith('x-')
}

/** Segments of 8 characters or more that hold both letters and digits, and very long ones. */
const withoutTokens = (pathname: string): string =>
  pathname
    .split('/')
    .map((segment) => (/^(?=.*\d)(?=.*[a-z]).{8,}$|^.{20,}$/i.test(segment) ? mask : segment))
    .join('/')

/** A value is shown when it is a small number, or short and of a name that says what it is. */
const harmlessName =
  /^(x-amz-(expires|date|algorithm|signedheaders)|charset|date|day|encoding|export|file|filename|format|from|gid|id|lang|limit|list|month|name|offset|order|output|page|per_page|since|sort|sv|to|type|until|v|version|year)=$/i
const harmlessNumber = /^\d{1,6}$/
const maxShownLength = 32

/** Of `name=value&name=value`, and of a value alone. */
const maskedPairs = (text: string): string =>
  text
    .split('&')
    .map((pair) => {
      const at = pair.indexOf('=') + 1
      const [name, value] = [pair.slice(0, at), pair.slice(at)]
      const isHarmless =
        value === '' ||
        (name !== '' && harmlessNumber.test(value)) ||
        (harmlessName.test(name) && value.length <= maxShownLength)
      return isHarmless ? pair : `${name}${mask}`
    })
    .join('&')
