import { keyPattern } from '../../shared/store/api-keys.ts'

interface Credential {
  key: string
  /** The organization that the credential names, which the key must belong to; null when it names none. */
  organizationId: number | null
}

/**
 * Parses an Authorization header into the credentials that it may mean. In `Basic base64(user:password)` the key is the
 * password (for user `api` or an organization's id) or the user (without a password). The key may also stand there
 * without encoding. A key may look like base64, so a header can have two meanings.
 */
export function credentialCandidates(header: string): Credential[] {
  const [, text] = /^basic +(\S+) *$/i.exec(header) ?? []
  if (text === undefined) return []
  const candidates: Credential[] = []
  const decoded = Buffer.from(text, 'base64').toString('utf8')
  const colon = decoded.indexOf(':')
  if (colon !== -1) {
    const user = decoded.slice(0, colon)
    const password = decoded.slice(colon + 1)
    if (password === '') candidates.push({ key: user, organizationId: null })
    else if (user === 'api') candidates.push({ key: password, organizationId: null })
    else if (/^[1-9]\d{0,14}$/.test(user)) candidates.push({ key: password, organizationId: Number(user) })
  }
  if (keyPattern.test(text)) candidates.push({ key: text, organizationId: null })
  return candidates
}

/** The key that comes with another user than those above, such as the name of a company; null where there is none. */
export function keyOfOtherUser(header: string): string | null {
  const [, text = ''] = /^basic +(\S+) *$/i.exec(header) ?? []
  const decoded = Buffer.from(text, 'base64').toString('utf8')
  const colon = decoded.indexOf(':')
  const [user, password] = [decoded.slice(0, colon), decoded.slice(colon + 1)]
  const isOther = colon !== -1 && user !== 'api' && !/^[1-9]\d{0,14}$/.test(user)
  return isOther && keyPattern.test(password) ? password : null
}
