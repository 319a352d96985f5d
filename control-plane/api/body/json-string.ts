import { isUtf8 } from 'node:buffer'
import { refusedBody } from './json-text.ts'

const quote = 0x22
const backslash = 0x5c

/** The character of an escape, by the byte after the backslash; 0 for an invalid one. */
const escapes = new Uint8Array(256)
for (const pair of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t'])
  escapes[pair.charCodeAt(0)] = pair.charCodeAt(1)

/** The value of a hexadecimal digit, by its byte; 255 for other bytes. */
const digits = new Uint8Array(256).fill(255)
for (const digit of '0123456789abcdefABCDEF') digits[digit.charCodeAt(0)] = parseInt(digit, 16)

/** The decoder's states: among plain bytes, after a backslash, or among the four digits of a \u. */
const plain = 0
const escape = 1
const unicode = 2

/** Bytes that one call decodes. It does so in a shared buffer, and copies the text to a buffer of its own length. */
const maxDecodedBytes = 64 * 1024
// An escape that began in an earlier piece may bring three bytes more than this one has.
const scratch = Buffer.allocUnsafe(maxDecodedBytes + 3)

/**
 * Decodes one JSON string, which arrives in pieces cut anywhere, to the UTF-8 of its text. It begins after the opening
 * quote. Throws `invalid_request` where JSON.parse would fail, and for bytes that aren't UTF-8.
 */
export class JsonString {
  /** Whether the closing quote has come. */
  ended = false
  /** Whether half of a surrogate pair came. JSON allows it as an escape, but no text can contain it. */
  hasHalfPair = false
  #state = plain
  /** Value and number of the digits of a \u so far. */
  #unit = 0
  #digitCount = 0
  /** A high surrogate that waits for its low one; 0 for none. */
  #high = 0
  /** The first bytes of a character that the last piece cut. */
  #cut: Buffer = Buffer.alloc(0)

  /** Decodes from `start` to the closing quote, or as much as one call decodes. The next call begins at `next`. */
  write(piece: Buffer, start: number): { text: Buffer; next: number } {
    const text = scratch
    const end = Math.min(piece.length, start + maxDecodedBytes)
    let length = 0
    let at = start
    for (; at < end && !this.ended; at++) {
      const byte = piece[at]!
      if (this.#state === plain) {
        if (byte === quote) this.ended = true
        else if (byte === backslash) {
          this.#state = escape
          continue
        } else if (byte < 0x20) throw refusedBody('is not valid JSON')
        else text[length++] = byte
        this.#endPair()
      } else if (this.#state === escape) {
        if (byte === 0x75) {
          this.#state = unicode
          this.#unit = this.#digitCount = 0
          continue
        }
        const character = escapes[byte] ?? 0
        if (character === 0) throw refusedBody('is not valid JSON')
        text[length++] = character
        this.#state = plain
        this.#endPair()
      } else {
        const digit = digits[byte] ?? 255
        if (digit === 255) throw refusedBody('is not valid JSON')
        this.#unit = (this.#unit << 4) | digit
        if (++this.#digitCount < 4) continue
        this.#state = plain
        length = this.#addUnit(text, length)
      }
    }
    const decoded = Buffer.from(text.subarray(0, length))
    this.#checkUtf8(decoded)
    return { text: decoded, next: at }
  }

  #endPair(): void {
    if (this.#high === 0) return
    this.hasHalfPair = true
    this.#high = 0
  }

  /** Appends the character of a \u, and returns the new length of the text. */
  #addUnit(text: Buffer, length: number): number {
    const unit = this.#unit
    if ((unit & 0xfc00) === 0xdc00) {
      if (this.#high === 0) {
        this.hasHalfPair = true
        return length
      }
      const point = 0x10000 + ((this.#high & 0x3ff) << 10) + (unit & 0x3ff)
      this.#high = 0
      text[length] = 0xf0 | (point >> 18)
      text[length + 1] = 0x80 | ((point >> 12) & 0x3f)
      text[length + 2] = 0x80 | ((point >> 6) & 0x3f)
      text[length + 3] = 0x80 | (point & 0x3f)
      return length + 4
    }
    this.#endPair()
    if ((unit & 0xfc00) === 0xd800) {
      this.#high = unit
      return length
    }
    if (unit < 0x80) {
      text[length] = unit
      return length + 1
    }
    if (unit < 0x800) {
      text[length] = 0xc0 | (unit >> 6)
      text[length + 1] = 0x80 | (unit & 0x3f)
      return length + 2
    }
    text[length] = 0xe0 | (unit >> 12)
    text[length + 1] = 0x80 | ((unit >> 6) & 0x3f)
    text[length + 2] = 0x80 | (unit & 0x3f)
    return length + 3
  }

  /** Escapes give whole characters, so the decoded text is valid UTF-8 exactly when the sent bytes are. */
  #checkUtf8(text: Buffer): void {
    const bytes = this.#cut.length === 0 ? text : Buffer.concat([this.#cut, text])
    const cutAt = this.ended ? bytes.length : bytes.length - cutLength(bytes)
    if (!isUtf8(bytes.subarray(0, cutAt))) throw refusedBody('is not valid UTF-8')
    this.#cut = Buffer.from(bytes.subarray(cutAt))
  }
}

/** Number of bytes at the end that are an incomplete character. */
function cutLength(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes.at(-back) ?? 0
    if (byte < 0x80) return 0
    if (byte < 0xc0) continue
    const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4
    return length > back ? back : 0
  }
  return 0
}
