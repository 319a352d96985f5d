import { hasEnded } from './import-state.ts'
import { maskPassword } from './logger.ts'
import type { ImportDocument } from './schemas/import.ts'
import type { SecretBox } from './secret-box.ts'

/**
 * What of an import is secret: passwords and tokens in the URLs of its source and its callback, and the secret that
 * signs the callback. While an import needs them they are in its `sealed`, and the rest of it shows the URLs without;
 * in an import of an earlier version, or of a control plane without a key, they are in the clear. Both are dropped when
 * the import and its callback are done (store/import-secrets.ts).
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
    callback: callback === null ? null : { url: withoutSecrets(callback.url) },
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
  const shown = whole === null ? withoutSecrets : maskPassword
  const url = whole?.url ?? source.url
  const callbackUrl = whole?.callback?.url ?? callback?.url ?? null
  return {
    url: url === null ? null : shown(url),
    callbackUrl: callbackUrl === null ? null : shown(callbackUrl),
  }
}

/** What is shorter, and isn't named as a secret, is a date, a number or a word. */
const leastSecretLength = 8
const secretName = /auth|code|cred|key|pass|pin|pw|secret|sess|sig|token/i

/**
 * The URL with `***` for its password, for a long user name without a password (a token, as code hosts take them), and
 * for each value of its query and its fragment that may be a secret. As it is where it has none of them.
 */
export function withoutSecrets(text: string): string {
  const url = URL.parse(text)
  if (url === null) return maskPassword(text)
  const given = url.href
  if (url.password !== '') url.password = mask
  else if (url.username.length >= leastSecretLength) url.username = mask
  const [query, fragment] = [url.search.slice(1), url.hash.slice(1)]
  if (maskedPairs(query) !== query) url.search = maskedPairs(query)
  if (maskedPairs(fragment) !== fragment) url.hash = maskedPairs(fragment)
  return url.href === given ? text : url.href
}

const mask = '***'

/** Of `name=value&name=value`, and of a value alone. */
const maskedPairs = (text: string): string =>
  text
    .split('&')
    .map((pair) => {
      const at = pair.indexOf('=') + 1
      const [name, value] = [pair.slice(0, at), pair.slice(at)]
      const isSecret = value.length >= leastSecretLength || (value !== '' && secretName.test(name))
      return isSecret ? `${name}${mask}` : pair
    })
    .join('&')
