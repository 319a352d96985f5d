import { keyPattern } from '../../shared/store/api-keys.ts'

export interface Credential {
  key: string
  /** The organization that the credential names, if it names one: the key must be its. */
  organizationId: number | null
}

/**
 * What an Authorization header may mean. `Basic base64(user:password)` with the key as password (user `api` or the
 * organization's id) or as user (no password); or the key itself, not encoded. A header may be read in two ways, since
 * a key may look like base64.
 */
export function credentialCandidates(header: string): Credential[] {
  const match = /^basic +(\S+) *$/i.exec(header)
  if (match === null) return []
  const text = match[1]!
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
