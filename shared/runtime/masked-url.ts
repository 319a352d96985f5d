import { maskPassword } from './logger.ts'

const mask = '***'

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
