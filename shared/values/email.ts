import { domainToASCII } from 'node:url'
import { normalizeText } from './normalized-text.ts'

const localPart = /^[A-Za-z0-9\-._+=%/:;?!#$&'*`{}|~]{1,256}$/
const domainLabels = /^(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))+$/
const fourNumbers = /^\d{1,9}(?:\.\d{1,9}){3}$/
const beyondAscii = /[^\x00-\x7f]/

/** A domain's ASCII form may be shorter than what was typed, as marks are composed and invisible characters dropped. */
const maxTypedLength = 2_048

/** What is said of an address that `emailIdentity` refuses. */
export const emailExpectation = 'an email address'

/**
 * The comparison form of an email address, or null when it isn't a valid one. `text` is trimmed already.
 * An internationalized domain is compared in its ASCII form; the address as typed stays the caller's.
 */
export function emailIdentity(text: string): string | null {
  if (text.length > maxTypedLength) return null
  const at = text.indexOf('@')
  if (at === -1) return null
  const local = text.slice(0, at)
  const domain = asciiDomain(text.slice(at + 1))
  if (domain === null || !localPart.test(local)) return null
  return `${local}@${domain}`.toLowerCase()
}

function asciiDomain(domain: string): string | null {
  if (!beyondAscii.test(domain)) return isDomain(domain) ? domain : null
  // The URL parser would take percent signs, ports and the like: what is ASCII in it must be plain already.
  if (!/^[A-Za-z0-9._\-\u0080-\u{10ffff}]+$/u.test(domain)) return null
  const converted = domainToASCII(normalizeText(domain, 'NFC'))
  return isDomain(converted) ? converted : null
}

function isDomain(domain: string): boolean {
  return domain.length <= 256 && domainLabels.test(domain) && !isAddress(domain)
}

function isAddress(domain: string): boolean {
  return fourNumbers.test(domain) && domain.split('.').every((label) => Number(label) <= 255)
}
