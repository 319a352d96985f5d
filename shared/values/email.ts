import { domainToASCII } from 'node:url'
import { normalizeText } from './normalized-text.ts'

const localPart = /^[A-Za-z0-9\-._+=%/:;?!#$&'*`{}|~]{1,256}$/
const domainLabels = /^(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))+$/
const fourNumbers = /^\d{1,9}(?:\.\d{1,9}){3}$/
const beyondAscii = /[^\x00-\x7f]/

/**
 * Bounds the work for hostile input. It is generous, because the ASCII form of a domain may be much shorter than the
 * typed form.
 */
const maxTypedLength = 2_048

/** Completes the error "'x' is not ..." about a text that `emailIdentity` refuses. */
export const emailExpectation = 'an email address'

/**
 * The comparison form of an email address in a trimmed text, or null when the text isn't a valid address. The
 * comparison form has an internationalized domain in its ASCII form; callers store the address as it was typed.
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

/** Whether the text is a link to an address. In an address itself `mailto:` would be part of its name. */
export const isMailto = (text: string): boolean => /^mailto:/i.test(text)

/** `emailIdentity` of a trimmed cell, in which only the address belongs. */
export const cellEmailIdentity = (text: string): string | null =>
  isMailto(text) ? null : emailIdentity(text)

function asciiDomain(domain: string): string | null {
  if (!beyondAscii.test(domain)) return isDomain(domain) ? domain : null
  // `domainToASCII` parses a URL's host and would accept percent signs or ports, so ASCII characters are checked first.
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
