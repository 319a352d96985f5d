/** A text in UTF-8 within a buffer. A string is made of it only where one is needed. */
export class TextBytes {
  bytes: Buffer
  start: number
  end: number

  constructor(bytes: Buffer = Buffer.alloc(0), start = 0, end = bytes.length) {
    this.bytes = bytes
    this.start = start
    this.end = end
  }

  set(bytes: Buffer, start: number, end: number): this {
    this.bytes = bytes
    this.start = start
    this.end = end
    return this
  }

  get length(): number {
    return this.end - this.start
  }

  /** Removes the blanks at its ends that `trim` of strings removes. */
  trim(): this {
    const { bytes } = this
    let { start, end } = this
    for (let blank = 1; blank > 0 && start < end; start += blank) blank = blankAt(bytes, start, end)
    for (let blank = 1; blank > 0 && end > start; end -= blank) blank = blankBefore(bytes, start, end)
    return this.set(bytes, start, end)
  }

  toString(): string {
    return this.bytes.toString('utf8', this.start, this.end)
  }
}

const isAsciiBlank = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)
const blanks =
  '\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff'
/** The blanks that have three bytes; U+00A0 has two. */
const longBlanks = new Set(Array.from(blanks, (blank) => Buffer.from(blank).readUIntBE(0, 3)))

/** Bytes of the blank that begins at `at`; 0 for none. */
function blankAt(bytes: Buffer, at: number, end: number): number {
  const byte = bytes[at]!
  if (byte < 0x80) return isAsciiBlank(byte) ? 1 : 0
  if (byte === 0xc2) return at + 2 <= end && bytes[at + 1] === 0xa0 ? 2 : 0
  return at + 3 <= end && longBlanks.has((byte << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!) ? 3 : 0
}

/** Bytes of the blank that ends at `end`; 0 for none. */
function blankBefore(bytes: Buffer, start: number, end: number): number {
  if (bytes[end - 1]! < 0x80) return isAsciiBlank(bytes[end - 1]!) ? 1 : 0
  for (const size of [2, 3]) if (end - size >= start && blankAt(bytes, end - size, end) === size) return size
  return 0
}

const slots = 256
const maxKnownBytes = 24

/**
 * Reads texts by a function of strings, and remembers what short ones were read as: columns of options, statuses or days
 * have few different cells. A text is found by its bytes, without a string; another one with the same hash replaces it.
 */
export function remembering<T>(read: (text: string) => T): (text: TextBytes) => T {
  // Each slot has the length of a text and its bytes. Columns that the fast paths read never need one.
  let known: Uint8Array | null = null
  const results: T[] = []
  return (text) => {
    const { bytes, start, length } = text
    if (length > maxKnownBytes) return read(text.toString())
    known ??= new Uint8Array(slots * (maxKnownBytes + 1))
    let hash = length
    for (let i = 0; i < length; i += 1) hash = Math.imul(hash, 31) + bytes[start + i]!
    const slot = (hash ^ (hash >>> 8)) & (slots - 1)
    const key = slot * (maxKnownBytes + 1)
    let same = known[key] === length ? 0 : -1
    while (same >= 0 && same < length) same = known[key + 1 + same] === bytes[start + same] ? same + 1 : -1
    if (same === length) return results[slot]!
    const result = read(text.toString())
    known[key] = length
    for (let i = 0; i < length; i += 1) known[key + 1 + i] = bytes[start + i]!
    results[slot] = result
    return result
  }
}
