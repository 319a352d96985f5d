import { domainToASCII, domainToUnicode } from 'node:url'
import { normalizeText } from './normalized-text.ts'

const localPart = /^[A-Za-z0-9\-._+=%/?!#$&'*^`{}|~]{1,256}$/
const domainLabels = /^(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))+$/
const fourNumbers = /^\d{1,9}(?:\.\d{1,9}){3}$/
const beyondAscii = /[^\x00-\x7f]/
/** Joiners may belong to a domain's label. Browsers read the wide full stops as dots too. */
const invisible = /[\p{Default_Ignorable_Code_Point}--[\u200c\u200d]]/gv
const joiners = /[\u200c\u200d]+/g
const joinersAtLabelEnds =
  /(?<=^|[.\u3002\uff0e\uff61])[\u200c\u200d]+|[\u200c\u200d]+(?=$|[.\u3002\uff0e\uff61])/g

/**
 * Bounds the work for hostile input. It is generous, because the ASCII form of a domain may be much shorter than the
 * typed form.
 */
const maxTypedLength = 2_048

/** Completes the error "'x' is not ..." about a text that `parseEmail` refuses. */
export const emailExpectation = 'an email address'

export interface EmailAddress {
  /** As it is stored: as typed, but without invisible characters, and with an internationalized domain in Unicode. */
  address: string
  /** Its comparison form: in lower case, with the domain in its ASCII form. */
  key: string
}

/** The email address in a trimmed text, or null when the text isn't a valid one. */
export function parseEmail(text: string): EmailAddress | null {
  const visible = visibleEmail(text)
  const at = visible.indexOf('@')
  if (at === -1 || visible.length > maxTypedLength) return null
  const local = visible.slice(0, at)
  const domain = visible.slice(at + 1)
  if (!localPart.test(local)) return null
  if (!beyondAscii.test(domain))
    return isDomain(domain) ? { address: visible, key: visible.toLowerCase() } : null
  const ascii = asciiDomain(domain)
  if (ascii === null) return null
  return { address: `${local}@${domainToUnicode(ascii)}`, key: `${local}@${ascii}`.toLowerCase() }
}

/** The comparison form of the email address in a trimmed text, or null when the text isn't a valid address. */
export const emailIdentity = (text: string): string | null => parseEmail(text)?.key ?? null

/** A trimmed text without the characters that Unicode calls default-ignorable. They come along in copied addresses. */
export function visibleEmail(text: string): string {
  if (text.length > maxTypedLength || !beyondAscii.test(text)) return text
  const visible = text.replaceAll(invisible, '').trim()
  const domainStart = visible.indexOf('@') + 1
  const domain = visible.slice(domainStart).replaceAll(joinersAtLabelEnds, '')
  return `${visible.slice(0, domainStart).replaceAll(joiners, '')}${domain}`.trim()
}

/** Whether the text is a link to an address. */
export const isMailto = (text: string): boolean => /^mailto:/i.test(text)

/** The ASCII form of a domain with characters beyond ASCII. */
function asciiDomain(domain: string): string | null {
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
