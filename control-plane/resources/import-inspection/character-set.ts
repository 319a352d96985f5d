import { isUtf8 } from 'node:buffer'

/** The character sets that are detected; imports read the first two. */
export const knownCharacterSets = ['utf-8', 'iso-8859-1', 'windows-1252', 'utf-16le', 'utf-16be'] as const
export type CharacterSet = (typeof knownCharacterSets)[number]

/**
 * Detects the character set from the first bytes. A byte order mark decides first, then NUL bytes in every other place,
 * which only UTF-16 has. It is UTF-8 when most lines that aren't ASCII are valid: one damaged cell doesn't make another
 * character set. The bytes 0x80-0x9F decide the rest, since they are control characters in ISO-8859-1.
 */
export function detectCharacterSet(beginning: Buffer, { isWhole }: { isWhole: boolean }): CharacterSet {
  const [first, second] = beginning
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  const bytes = isWhole ? beginning : withoutCutCharacter(beginning)
  const utf16 = detectUtf16(bytes)
  if (utf16 !== null) return utf16
  if (isUtf8(bytes) || isMostlyUtf8(bytes)) return 'utf-8'
  return bytes.some((byte) => byte >= 0x80 && byte <= 0x9f) ? 'windows-1252' : 'iso-8859-1'
}

/** Converts text to UTF-8, without a byte order mark. Undecodable bytes become U+FFFD. */
export function asUtf8(bytes: Buffer, characterSet: CharacterSet): Buffer {
  const text =
    characterSet === 'iso-8859-1' ? bytes.toString('latin1') : new TextDecoder(characterSet).decode(bytes)
  return Buffer.from(text)
}

function detectUtf16(bytes: Buffer): CharacterSet | null {
  const pairs = Math.min(bytes.length, 4_096) >> 1
  let high = 0
  let low = 0
  for (let i = 0; i < pairs; i += 1) {
    if (bytes[2 * i] === 0) high += 1
    if (bytes[2 * i + 1] === 0) low += 1
  }
  if (pairs < 4 || Math.max(high, low) < pairs * 0.4) return null
  if (low > high * 4) return 'utf-16le'
  return high > low * 4 ? 'utf-16be' : null
}

function isMostlyUtf8(bytes: Buffer): boolean {
  let validLead = 0
  for (let at = 0; at < bytes.length;) {
    const found = bytes.indexOf(0x0a, at)
    const end = found === -1 ? bytes.length : found
    const line = bytes.subarray(at, end)
    if (line.some((byte) => byte >= 0x80)) validLead += isUtf8(line) ? 1 : -1
    at = end + 1
  }
  return validLead > 0
}

/** Removes a UTF-8 character, of up to four bytes, that the end of the sample has cut. */
function withoutCutCharacter(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0
    if (byte < 0x80) return bytes
    if (byte < 0xc0) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes
  }
  return bytes
}
