import assert from 'node:assert/strict'
import type { FileFormat } from '../../shared/contract/schemas/import.ts'

/** Bytes as characters and back (decisions 2.4). `raw` strings have a character a byte. */

/** The model reads two of them. */
export type CharacterSet = FileFormat['character_set']

export const rawOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')

/** "ISO-8859-1 is the real one (byte 0x80 is U+0080)"; invalid UTF-8 is shown as U+FFFD. */
export function decode(raw: string, set: CharacterSet): string {
  if (set === 'iso-8859-1') return raw
  assert.equal(set, 'utf-8')
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.from(raw, 'latin1'))
}

export function isValid(raw: string, set: CharacterSet): boolean {
  if (set === 'iso-8859-1') return true
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(raw, 'latin1'))
    return true
  } catch {
    return false
  }
}

/** "A UTF-16 BOM, or more than 1 % NUL (and at least 100) in the first 64 KiB: `failed` early." */
export function isNoText(raw: string): boolean {
  if (raw.startsWith('\xff\xfe') || raw.startsWith('\xfe\xff')) return true
  const beginning = raw.slice(0, 64 * 1024)
  const nulls = beginning.split('\0').length - 1
  return nulls >= 100 && nulls > beginning.length / 100
}
