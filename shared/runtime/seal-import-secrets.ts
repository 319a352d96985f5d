import { hasEnded } from '../contract/import-state.ts'
import { maskPassword } from './logger.ts'
import type { ImportDocument } from '../contract/schemas/import.ts'
import type { SecretBox } from './secret-box.ts'

/**
 * Secrets of an import: passwords and tokens in the URLs of its source and its callback, and the secret that signs the
 * callback. While the import needs them, `sealed` has them encrypted, and its other fields show the URLs without them.
 * Imports of a control plane without a key have them in the clear. They are dropped when the import and its callback are
 * done (shared/store/import-secrets.ts).
 */

type ImportWithSecrets = Pick<ImportDocument, '_id' | 'source' | 'callback' | 'sealed'>

interface ImportSecrets {
  url: string | null
  callback: { url: string; secret: string } | null
}

/** Encrypts the secrets of an import before it is stored. Without a key they stay in the clear. */
export function sealed<T extends ImportWithSecrets>(document: T, box: SecretBox): T {
  const { source, callback } = document
  const url = source.url === null ? null : withoutSecrets(source.url)
  const hasSecrets = callback !== null || url !== source.url
  if (!hasSecrets || !box.canSeal) return { ...document, has_secrets: hasSecrets }
  const text = JSON.stringify({ url: source.url, callback })
  return {
    ...document,
    source: { ...source, url },
    callback: callback === null ? null : { url: callbackWithoutSecrets(callback.url) },
    sealed: box.seal(text, sealOwner(document)),
    has_secrets: true,
  }
}

/** Throws CannotUnseal when the secrets can't be decrypted. */
export async function openSecrets(document: ImportWithSecrets, box: SecretBox): Promise<ImportSecrets> {
  const { source, callback } = document
  if (document.sealed !== undefined)
    return JSON.parse(await box.open(document.sealed, sealOwner(document))) as ImportSecrets
  return {
    url: source.url,
    callback: callback?.secret === undefined ? null : { url: callback.url, secret: callback.secret },
  }
}

const sealOwner = ({ _id }: ImportWithSecrets): string => `import ${_id}`

export interface ShownUrls {
  url: string | null
  callbackUrl: string | null
}

/**
 * The URLs in replies. Until the import ends they are shown as given, but with `***` for a password. After its end, or
 * when they can't be decrypted, everything that may be secret is masked.
 */
export async function shownUrls(
  document: ImportWithSecrets & Pick<ImportDocument, 'state'>,
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
 * Masks secrets in the URL of a source with `***`: the password, a user name that may be a token, and suspicious
 * values of query and fragment. A URL without any of them is returned unchanged.
 */
export const withoutSecrets = (text: string): string => masked(text, (pathname) => pathname)

/** Masks the URL of a callback in the same way, and also tokens in the path, with which many receivers authenticate. */
export const callbackWithoutSecrets = (text: string): string => masked(text, withoutTokens)

function masked(text: string, maskPath: (pathname: string) => string): string {
  const url = URL.parse(text)
  if (url === null) return maskPassword(text)
  const original = url.href
  if (isToken(url)) url.username = mask
  if (url.password !== '') url.password = mask
  const [pathname, query, fragment] = [url.pathname, url.search.slice(1), url.hash.slice(1)]
  if (maskPath(pathname) !== pathname) url.pathname = maskPath(pathname)
  if (maskedPairs(query) !== query) url.search = maskedPairs(query)
  if (maskedPairs(fragment) !== fragment) url.hash = maskedPairs(fragment)
  return url.href === original ? text : url.href
}

const mask = '***'

/** Code hosts accept a token as the user name, with a meaningless password or none. */
function isToken({ protocol, username, password }: URL): boolean {
  if (username === '' || username === mask) return false
  if (password === '') return protocol.startsWith('http') || username.length >= 8
  return username.length >= 16 || password.startsWith('x-')
}

/** Masks segments of at least 8 characters with letters and digits, and segments of at least 20 characters. */
const withoutTokens = (pathname: string): string =>
  pathname
    .split('/')
    .map((segment) => (/^(?=.*\d)(?=.*[a-z]).{8,}$|^.{20,}$/i.test(segment) ? mask : segment))
    .join('/')

/** A value is shown when it is a small number, or short and its name says that it is harmless. */
const harmlessName =
  /^(x-amz-(expires|date|algorithm|signedheaders)|charset|date|day|encoding|export|file|filename|format|from|gid|id|lang|limit|list|month|name|offset|order|output|page|per_page|since|sort|sv|to|type|until|v|version|year)=$/i
const harmlessNumber = /^\d{1,6}$/
const maxHarmlessLength = 32

/** Masks values in `name=value&name=value`, and a text without a name. */
const maskedPairs = (text: string): string =>
  text
    .split('&')
    .map((pair) => {
      const at = pair.indexOf('=') + 1
      const [name, value] = [pair.slice(0, at), pair.slice(at)]
      const isHarmless =
        value === '' ||
        (name !== '' && harmlessNumber.test(value)) ||
        (harmlessName.test(name) && value.length <= maxHarmlessLength)
      return isHarmless ? pair : `${name}${mask}`
    })
    .join('&')
