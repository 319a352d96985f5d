import { createMultibyteDecoder } from '@exodus/bytes/multi-byte.js'
import type { CharacterSet } from '../contract/schemas/import.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'

/** The sets that are converted to UTF-8. `utf-16` alone doesn't say the byte order. */
export type TranscodedSet = Extract<
  CharacterSet,
  'utf-16le' | 'utf-16be' | 'shift_jis' | 'gbk' | 'big5' | 'euc-kr'
>

/**
 * Converts a file to UTF-8, piece by piece, while it is staged. Decoded in the scanner, every search for a byte would have
 * a second form. On 2 cores UTF-16LE is converted at 10 million short rows a second, UTF-16BE at 2.8 million, Shift_JIS at
 * 94 MB/s, the others at 42 MB/s.
 */
export interface Transcoder {
  /** The UTF-8 of whole characters so far; the rest is kept for the next call. */
  write(bytes: Buffer): Buffer
  /** The UTF-8 of the rest. */
  end(): Buffer
}

/**
 * In place of undecodable bytes. UTF-8 never has this byte, so the record counts as invalid, and U+FFFD in the source
 * stays a character like any other.
 */
const invalidByte = Buffer.of(0xff)

export function transcoder(set: TranscodedSet): Transcoder {
  const coding = set === 'utf-16le' || set === 'utf-16be' ? utf16(set) : multiByte(set)
  let rest: Buffer = Buffer.alloc(0)
  return {
    write(piece) {
      const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece])
      const end = coding.cut(bytes)
      // A copy: the caller may reuse the piece.
      rest = Buffer.from(bytes.subarray(end))
      return coding.decode(bytes.subarray(0, end))
    },
    end() {
      const bytes = rest
      rest = Buffer.alloc(0)
      return coding.decode(bytes)
    },
  }
}

interface Coding {
  /** A position, near the end, between two characters. */
  cut(bytes: Buffer): number
  decode(bytes: Buffer): Buffer
}

function utf16(set: 'utf-16le' | 'utf-16be'): Coding {
  const highByteAt = set === 'utf-16le' ? 1 : 0
  const cut = (bytes: Buffer): number => {
    const end = bytes.length & ~1
    const isHalfPair = (bytes[end - 2 + highByteAt]! & 0xfc) === 0xd8
    return isHalfPair ? end - 2 : end
  }
  return {
    cut,
    decode(bytes) {
      // Half a pair, an odd byte or both may follow, at the end of a file. They are one error.
      const whole = bytes.subarray(0, cut(bytes))
      const text = (set === 'utf-16le' ? whole : Buffer.from(whole).swap16()).toString('utf16le')
      const utf8 = text.isWellFormed() ? Buffer.from(text) : joinWithInvalid(text.split(/\p{Surrogate}/u))
      return whole.length === bytes.length ? utf8 : Buffer.concat([utf8, invalidByte])
    },
  }
}

/**
 * Bytes below 0x30 are no part of a longer character in these sets, not even after a lead byte that stands alone. A
 * line without one that is longer than a record may be is cut anywhere: its record fails in any case.
 */
const firstTrailByte = 0x30
const maxRestBytes = 2 * binaryMegabyte

function multiByte(set: 'shift_jis' | 'gbk' | 'big5' | 'euc-kr'): Coding {
  const toText = createMultibyteDecoder(set, true)
  return {
    cut(bytes) {
      let end = bytes.length
      while (bytes[end - 1]! >= firstTrailByte) end -= 1
      return bytes.length - end > maxRestBytes ? bytes.length : end
    },
    decode(bytes) {
      const text = toText(bytes)
      if (!text.includes('\ufffd')) return Buffer.from(text)
      // U+FFFD that isn't there without the file's own ones stands for undecodable bytes.
      const onlyInvalid = bytes.includes(replacementInGb18030) ? toText(withoutReplacement(bytes)) : text
      return joinWithInvalid(splitLike(text, onlyInvalid))
    },
  }
}

/** U+FFFD in gb18030, which alone of these sets has it, and as a neighbour of that code, U+FFFC. */
const replacementInGb18030 = Buffer.of(0x84, 0x31, 0xa4, 0x37)
const neighbourInGb18030 = Buffer.of(0x84, 0x31, 0xa4, 0x36)

function withoutReplacement(bytes: Buffer): Buffer {
  const changed = Buffer.from(bytes)
  let at = changed.indexOf(replacementInGb18030)
  for (; at !== -1; at = changed.indexOf(replacementInGb18030, at)) neighbourInGb18030.copy(changed, at)
  return changed
}

/** Splits a text at the positions of U+FFFD in `like`, which has the same length. */
function splitLike(text: string, like: string): string[] {
  let at = 0
  return like.split('\ufffd').map(({ length }) => {
    const part = text.slice(at, at + length)
    at += length + 1
    return part
  })
}

/** The parts as UTF-8, with `invalidByte` between them. There may be a million parts, so they are written in place. */
function joinWithInvalid(parts: string[]): Buffer {
  const bytes = Buffer.alloc(Buffer.byteLength(parts.join('\0')), invalidByte)
  let at = 0
  for (const part of parts) at += bytes.write(part, at) + 1
  return bytes
}
