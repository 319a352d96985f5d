import { domainToASCII, domainToUnicode } from 'node:url'
import { comparisonForm } from './comparison-form.ts'

/** Emails (decisions 2.6). */

const localCharacters = /^[A-Za-z0-9\-._+=%/?!#$&'*^`{}|~]{1,256}$/

/** "Characters that Unicode calls default-ignorable", as DerivedCoreProperties.txt lists them. */
const ignorable: [first: number, last: number][] = [
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x200b, 0x200f],
  [0x202a, 0x202e],
  [0x2060, 0x206f],
  [0x3164, 0x3164],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xfff8],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0000, 0xe0fff],
]
const isIgnorable = (character: string): boolean =>
  ignorable.some(([first, last]) => character.codePointAt(0)! >= first && character.codePointAt(0)! <= last)
const isJoiner = (character: string): boolean => character === '\u200c' || character === '\u200d'
const withoutIgnorable = (text: string): string =>
  Array.from(text)
    .filter((character) => !isIgnorable(character))
    .join('')

/** "Are removed first … (but U+200C and U+200D inside a label of a domain, where they can belong)". */
function visible(text: string): string {
  const [local, ...domains] = text.split('@')
  const labels = domains.map((domain) =>
    domain.split(/([.\u3002\uff0e\uff61])/).map((label) => {
      const kept = Array.from(label).filter((character) => !isIgnorable(character) || isJoiner(character))
      while (kept.length > 0 && isJoiner(kept[0]!)) kept.shift()
      while (kept.length > 0 && isJoiner(kept.at(-1)!)) kept.pop()
      return kept.join('')
    }),
  )
  return [withoutIgnorable(local!), ...labels.map((parts) => parts.join(''))].join('@').trim()
}

/** Whether characters are removed from the address, of which there is a warning. */
export const hasInvisible = (text: string): boolean => /[^\x00-\x7f]/.test(text) && visible(text) !== text

/** An address as it is stored and as it is compared; null when it is none. */
export function readEmail(typed: string): { stored: string; key: string } | null {
  const text = /[^\x00-\x7f]/.test(typed) ? visible(typed) : typed
  const parts = text.split('@')
  if (parts.length !== 2) return null
  const [local, domain] = parts as [string, string]
  if (!localCharacters.test(local)) return null
  const ascii = asciiDomain(domain)
  if (ascii === null || !isDomain(ascii)) return null
  // "Stored in the Unicode form that belongs to it. ASCII domains are kept as typed."
  const stored = /^[\x00-\x7f]+$/.test(domain) ? domain : domainToUnicode(ascii)
  return { stored: `${local}@${stored}`, key: `${comparisonForm(local)}@${ascii}` }
}

export const emailKey = (text: string): string | null => readEmail(text)?.key ?? null

/** "An internationalized domain is accepted if it has an ASCII form (as the URL standard makes it) …; it is compared in that." */
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
