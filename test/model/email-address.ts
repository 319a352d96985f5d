import { domainToASCII } from 'node:url'
import { comparisonForm } from './comparison-form.ts'

/** Emails (decisions 2.6). */

const localCharacters = /^[A-Za-z0-9\-._+=%/:;?!#$&'*`{}|~]{1,256}$/

/**
 * The comparison form of an address; null when it is none. "An email cell that begins with `mailto:` (without case)
 * fails" (beyond 1).
 */
export function emailKey(text: string): string | null {
  if (text.toLowerCase().startsWith('mailto:')) return null
  const parts = text.split('@')
  if (parts.length !== 2) return null
  const [local, domain] = parts as [string, string]
  if (!localCharacters.test(local)) return null
  const ascii = asciiDomain(domain)
  if (ascii === null || !isDomain(ascii)) return null
  return `${comparisonForm(local)}@${ascii}`
}

/** "An internationalized domain is accepted if it has an ASCII form (as the URL standard makes it), and compared in that." */
function asciiDomain(domain: string): string | null {
  // ASCII characters must follow the rules before the URL standard's parser, which would read some as a port or path.
  if (!/^[A-Za-z0-9\-_.\u{80}-\u{10ffff}]+$/u.test(domain)) return null
  if (/^[\x00-\x7f]+$/.test(domain)) return domain.toLowerCase()
  const ascii = domainToASCII(domain)
  return ascii === '' ? null : ascii
}

function isDomain(domain: string): boolean {
  if (!/^[a-z0-9\-_.]{1,256}$/.test(domain)) return false
  const labels = domain.split('.')
  if (labels.length < 2) return false
  if (labels.some((label) => label === '' || label.length > 63)) return false
  if (labels.some((label) => label.startsWith('-') || label.endsWith('-'))) return false
  return !isFourNumbers(labels)
}

const isFourNumbers = (labels: string[]): boolean =>
  labels.length === 4 && labels.every((label) => /^\d+$/.test(label) && Number(label) <= 255)
