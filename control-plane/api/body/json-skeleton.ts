import { RequestError } from '../request-error.ts'
import { JsonString } from './json-string.ts'
import { refusedBody } from './json-text.ts'

/** Receives the large string in pieces. A second string, for a key that comes twice, replaces the first. */
export interface StringSink {
  begin: () => void
  add: (text: Buffer) => void
  /** The string is complete. `hasHalfPair` says that it contains half of a surrogate pair. */
  end: (hasHalfPair: boolean) => void
}

const brace = 0x7b
const braceEnd = 0x7d
const bracket = 0x5b
const bracketEnd = 0x5d
const quote = 0x22
const backslash = 0x5c
const colon = 0x3a
const comma = 0x2c

/** An escape takes six bytes for one character, and the quotes take two. */
const maxSpelledLength = (key: string): number => 6 * key.length + 2

/**
 * Splits a JSON text that arrives in pieces. The large string at `path` goes to the sink. Everything else is the
 * skeleton, which has a number in the string's place and is valid JSON exactly when the whole is. Only strings and
 * brackets are recognized here; the skeleton's parser checks the rest.
 */
export class JsonSkeleton {
  readonly #path: readonly string[]
  readonly #sink: StringSink
  readonly #limit: number
  #bytes: Buffer
  #length = 0
  /** Number of large strings that have begun. */
  #count = 0
  #string: JsonString | null = null
  #inString = false
  #escaped = false
  /** Position in the skeleton where the current string begins. */
  #stringStart = 0
  /** Number of open containers, and how many of the outermost ones are the hashes on the path. */
  #depth = 0
  #depthOnPath = 0
  /** For the innermost hash, if it is on the path: whether a key comes next, and whether the last key is the path's. */
  #isKeyNext = false
  #isKeyOfPath = false

  /** `limit` is the skeleton's, in bytes. */
  constructor(options: { path: readonly string[]; limit: number; sink: StringSink }) {
    this.#path = options.path
    this.#limit = options.limit
    this.#sink = options.sink
    this.#bytes = Buffer.allocUnsafe(Math.min(16 * 1024, options.limit))
  }

  /** Bytes of the skeleton so far. */
  get length(): number {
    return this.#length
  }

  /** Throws `invalid_request` for an invalid large string, and for a skeleton above its limit. */
  write(piece: Buffer): void {
    let at = 0
    while (at < piece.length) {
      if (this.#string === null) this.#processByte(piece[at++]!)
      else at = this.#processLarge(this.#string, piece, at)
    }
  }

  /** Returns the skeleton. It is called after the last piece. */
  end(): Buffer {
    if (this.#string !== null) throw refusedBody('is not valid JSON')
    return this.#bytes.subarray(0, this.#length)
  }

  /** Whether the value at the path in the parsed skeleton stands for the large string that came last. */
  standsForString(value: unknown): boolean {
    return value === String(this.#count)
  }

  #processLarge(string: JsonString, piece: Buffer, at: number): number {
    const { text, next } = string.write(piece, at)
    if (text.length > 0) this.#sink.add(text)
    if (string.ended) {
      this.#sink.end(string.hasHalfPair)
      this.#string = null
    }
    return next
  }

  #processByte(byte: number): void {
    this.#append(byte)
    if (this.#inString) this.#processInString(byte)
    else if (byte === quote) this.#beginString()
    else if (byte === brace) this.#open(this.#isAtPath(this.#depth) && this.#depth < this.#path.length)
    else if (byte === bracket) this.#open(false)
    else if (byte === braceEnd || byte === bracketEnd) this.#close()
    else if (byte === comma) {
      this.#isKeyNext = this.#depth === this.#depthOnPath
      this.#isKeyOfPath = false
    } else if (byte === colon) this.#isKeyNext = false
  }

  /** Whether a value that begins here is the one that the first `length` keys of the path lead to. */
  #isAtPath(length: number): boolean {
    if (this.#depth !== length || this.#depthOnPath !== length) return false
    return length === 0 || (!this.#isKeyNext && this.#isKeyOfPath)
  }

  #open(isOnPath: boolean): void {
    this.#depth++
    if (!isOnPath) return
    this.#depthOnPath = this.#depth
    this.#isKeyNext = true
  }

  #close(): void {
    if (this.#depth > 0) this.#depth--
    if (this.#depthOnPath <= this.#depth) return
    this.#depthOnPath = this.#depth
    this.#isKeyNext = this.#isKeyOfPath = false
  }

  #beginString(): void {
    if (this.#isAtPath(this.#path.length)) {
      this.#string = new JsonString()
      this.#count++
      for (const digit of `${this.#count}"`) this.#append(digit.charCodeAt(0))
      this.#sink.begin()
      return
    }
    this.#inString = true
    this.#stringStart = this.#length - 1
  }

  #processInString(byte: number): void {
    if (this.#escaped) this.#escaped = false
    else if (byte === backslash) this.#escaped = true
    else if (byte === quote) {
      this.#inString = false
      if (this.#isKeyNext && this.#depth === this.#depthOnPath) this.#isKeyOfPath = this.#isPathsKey()
    }
  }

  #isPathsKey(): boolean {
    const key = this.#path[this.#depth - 1]
    if (key === undefined || this.#length - this.#stringStart > maxSpelledLength(key)) return false
    try {
      return JSON.parse(this.#bytes.toString('utf8', this.#stringStart, this.#length)) === key
    } catch {
      return false
    }
  }

  #append(byte: number): void {
    if (this.#length === this.#bytes.length) {
      if (this.#length >= this.#limit) throw allElseTooLarge(this.#path, this.#limit)
      const larger = Buffer.allocUnsafe(Math.min(2 * this.#length, this.#limit))
      this.#bytes.copy(larger)
      this.#bytes = larger
    }
    this.#bytes[this.#length++] = byte
  }
}

/** The refusal of a body whose text at `path` may be large, while everything else may have `limit` bytes. */
export function allElseTooLarge(path: readonly string[], limit: number): RequestError {
  return new RequestError(
    'invalid_request',
    `the body without ${path.join('.')} may have at most ${limit} bytes`,
    { status: 413 },
  )
}
