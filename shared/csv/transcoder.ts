import { createMultibyteDecoder } from '@exodus/bytes/multi-byte.js'
import type { CharacterSet } from '../contract/schemas/import.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'

/** The sets that are converted to UTF-8. `utf-16` alone doesn't say the byte order. */
export type TranscodedSet = Extract<
  CharacterSet,
  'utf-16le' | 'utf-16be' | 'shift_jis' | 'gbk' | 'big5' | 'euc-kr'
>

/** Converts a file to UTF-8, piece by piece. */
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
    const isHalfPair = end > 0 && (bytes[end - 2 + highByteAt]! & 0xfc) === 0xd8
    return isHalfPair ? end - 2 : end
  }
  return {
    cut,
    decode(bytes) {
      // An odd byte after half a pair is one error with it.
      const whole = bytes.length % 2 === 0 ? bytes : bytes.subarray(0, cut(bytes))
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
      while (end > 0 && bytes[end - 1]! >= firstTrailByte) end -= 1
      return bytes.length - end > maxRestBytes ? bytes.length : end
    },
    decode(bytes) {
      const text = toText(bytes)
      if (!text.includes('\ufffd')) return Buffer.from(text)
      const parts = text.split('\ufffd')
      if (set !== 'gbk' || !bytes.includes(replacementInGb18030)) return joinWithInvalid(parts)
      return joinWithInvalid(joinReal(parts, toText(withoutReplacement(bytes))))
    },
  }
}

/** U+FFFD in gb18030, which alone of these sets has it, and as a neighbour of that code, U+FFFC. */
const replacementInGb18030 = Buffer.of(0x84, 0x31, 0xa4, 0x37)
const neighbourInGb18030 = Buffer.of(0x84, 0x31, 0xa4, 0x36)

function withoutReplacement(bytes: Buffer): Buffer {
  const changed = Buffer.from(bytes)
  for (let at = changed.indexOf(replacementInGb18030); at !== -1; at = changed.indexOf(replacementInGb18030))
    neighbourInGb18030.copy(changed, at)
  return changed
}

/** Joins the parts of a text again where U+FFFD between them was in the file: `changed` has another character there. */
function joinReal(parts: string[], changed: string): string[] {
  const joined: string[] = []
  let at = -1
  for (const [i, part] of parts.entries()) {
    const isReal = i > 0 && changed[at] !== '\ufffd'
    if (isReal) joined.push(`${joined.pop() ?? ''}\ufffd${part}`)
    else joined.push(part)
    at += part.length + 1
  }
  return joined
}

const joinWithInvalid = (parts: string[]): Buffer =>
  Buffer.concat(
    parts.flatMap((part, i) => (i === 0 ? [Buffer.from(part)] : [invalidByte, Buffer.from(part)])),
  )
