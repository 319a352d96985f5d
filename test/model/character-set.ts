import type { CharacterSet } from '../../shared/contract/schemas/import.ts'
import { decodeByStandard } from './encoding-standard.ts'

/** Bytes as characters and back (decisions 2.4). `raw` strings have a character a byte. */

/** The sets in which records are split. */
export type SplitSet = Exclude<
  CharacterSet,
  'utf-16' | 'utf-16le' | 'utf-16be' | 'shift_jis' | 'gbk' | 'big5' | 'euc-kr'
>

export const rawOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')

/** "ISO-8859-1 is the real one (byte 0x80 is U+0080)"; undecodable bytes are shown as U+FFFD. */
export function decode(raw: string, set: SplitSet): string {
  if (set === 'iso-8859-1') return raw
  const bytes = Buffer.from(raw, 'latin1')
  if (set === 'utf-8') return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  return decodeByStandard(bytes, set)
    .map((character) => character ?? '\ufffd')
    .join('')
}

export function isValid(raw: string, set: SplitSet): boolean {
  if (set !== 'utf-8') return !decodeByStandard(Buffer.from(raw, 'latin1'), set).includes(null)
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(raw, 'latin1'))
    return true
  } catch {
    return false
  }
}

/** "What the set lacks is written `?`." */
export function writtenIn(set: SplitSet, text: string): string {
  if (set === 'utf-8') return text
  const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte)
  const characters = new Set(decodeByStandard(bytes, set))
  return text.replace(/[^\0-\x7f]/gu, (character) => (characters.has(character) ? character : '?'))
}
