import { keyPattern } from '../../shared/store/api-keys.ts'

interface Credential {
  key: string
  /** The organization that the credential names, which the key must belong to; null when it names none. */
  organizationId: number | null
}

/** What follows `Basic`, as it stands and as `user:password`; null where it is missing, or has no colon. */
function parseBasic(header: string) {
  const [, text = null] = /^basic +(\S+) *$/i.exec(header) ?? []
  const decoded = Buffer.from(text ?? '', 'base64').toString('utf8')
  const colon = decoded.indexOf(':')
  const pair = colon === -1 ? null : { user: decoded.slice(0, colon), password: decoded.slice(colon + 1) }
  return { text, pair }
}

const isOrganizationId = (user: string): boolean => /^[1-9]\d{0,14}$/.test(user)

/**
 * Parses an Authorization header into the credentials that it may mean. In `Basic base64(user:password)` the key is the
 * password (for user `api` or an organization's id) or the user (without a password). The key may also stand there
 * without encoding. A key may look like base64, so a header can have two meanings.
 */
export function credentialCandidates(header: string): Credential[] {
  const { text, pair } = parseBasic(header)
  const candidates: Credential[] = []
  if (pair !== null) {
    const { user, password } = pair
    if (password === '') candidates.push({ key: user, organizationId: null })
    else if (user === 'api') candidates.push({ key: password, organizationId: null })
    else if (isOrganizationId(user)) candidates.push({ key: password, organizationId: Number(user) })
  }
  if (text !== null && keyPattern.test(text)) candidates.push({ key: text, organizationId: null })
  return candidates
}

/** The key that comes with another user than those above, such as the name of a company; null where there is none. */
export function keyOfOtherUser(header: string): string | null {
  const { pair } = parseBasic(header)
  if (pair === null || pair.user === 'api' || isOrganizationId(pair.user)) return null
  return keyPattern.test(pair.password) ? pair.password : null
}
