import { RequestError } from '../../../shared/contract/errors.ts'
import { JsonString } from './json-string.ts'
import { refusedBody } from './json-text.ts'

/** Told what the large string holds, in order. One that comes again (a key given twice) takes the place of the one before. */
export interface StringSink {
  begin: () => void
  add: (text: Buffer) => void
  /** It is whole; `hasHalfPair` when it holds half of a surrogate pair. */
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

/** An escape is six bytes for what would be one. */
const longestSpelling = (key: string): number => 6 * key.length + 2

/**
 * A JSON text that comes in pieces, with one large string in it, the one at `path`. That string goes to the sink;
 * everything else, with a number in the string's place, is the skeleton, a JSON text as valid as the whole. So only
 * strings and brackets are told apart here, and whether the rest is JSON is for who parses the skeleton.
 */
export class JsonSkeleton {
  readonly #path: readonly string[]
  readonly #sink: StringSink
  readonly #limit: number
  #bytes: Buffer
  #length = 0
  /** How many large strings began. */
  #count = 0
  #string: JsonString | null = null
  #inString = false
  #escaped = false
  /** Where the string that is read begins in the skeleton. */
  #stringStart = 0
  /** Open containers; and how many of the outermost of them are the hashes that the path leads through. */
  #depth = 0
  #depthOnPath = 0
  /** Of the innermost hash, where it is on the path: whether a key comes next, and whether the last one is the path's. */
  #isKeyNext = false
  #isKeyOfPath = false

  /** `limit` is the skeleton's, in bytes. */
  constructor(options: { path: readonly string[]; limit: number; sink: StringSink }) {
    this.#path = options.path
    this.#limit = options.limit
    this.#sink = options.sink
    this.#bytes = Buffer.allocUnsafe(Math.min(16 * 1024, options.limit))
  }

  /** Of the skeleton so far, in bytes. */
  get length(): number {
    return this.#length
  }

  /** Throws `invalid_request` on a large string that is none, and where the skeleton is over its limit. */
  write(piece: Buffer): void {
    let at = 0
    while (at < piece.length) {
      if (this.#string === null) this.#take(piece[at++]!)
      else at = this.#takeLarge(this.#string, piece, at)
    }
  }

  /** The skeleton, when all pieces have come. */
  end(): Buffer {
    if (this.#string !== null) throw refusedBody('is not valid JSON')
    return this.#bytes.subarray(0, this.#length)
  }

  /** Whether the value at the path in the parsed skeleton stands for the large string that came last. */
  standsForString(value: unknown): boolean {
    return value === String(this.#count)
  }

  #takeLarge(string: JsonString, piece: Buffer, at: number): number {
    const { text, next } = string.write(piece, at)
    if (text.length > 0) this.#sink.add(text)
    if (string.ended) {
      this.#sink.end(string.hasHalfPair)
      this.#string = null
    }
    return next
  }

  #take(byte: number): void {
    this.#keep(byte)
    if (this.#inString) this.#takeInString(byte)
    else if (byte === quote) this.#beginString()
    else if (byte === brace) this.#open(this.#isAtPath(this.#depth) && this.#depth < this.#path.length)
    else if (byte === bracket) this.#open(false)
    else if (byte === braceEnd || byte === bracketEnd) this.#close()
    else if (byte === comma) {
      this.#isKeyNext = this.#depth === this.#depthOnPath
      this.#isKeyOfPath = false
    } else if (byte === colon) this.#isKeyNext = false
  }

  /** Whether a value that begins here is what the first `length` keys of the path lead to. */
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
      for (const digit of `${this.#count}"`) this.#keep(digit.charCodeAt(0))
      this.#sink.begin()
      return
    }
    this.#inString = true
    this.#stringStart = this.#length - 1
  }

  #takeInString(byte: number): void {
    if (this.#escaped) this.#escaped = false
    else if (byte === backslash) this.#escaped = true
    else if (byte === quote) {
      this.#inString = false
      if (this.#isKeyNext && this.#depth === this.#depthOnPath) this.#isKeyOfPath = this.#isPathsKey()
    }
  }

  #isPathsKey(): boolean {
    const key = this.#path[this.#depth - 1]!
    if (this.#length - this.#stringStart > longestSpelling(key)) return false
    try {
      return JSON.parse(this.#bytes.toString('utf8', this.#stringStart, this.#length)) === key
    } catch {
      return false
    }
  }

  #keep(byte: number): void {
    if (this.#length === this.#bytes.length) {
      if (this.#length >= this.#limit) throw allElseTooLarge(this.#path, this.#limit)
      const larger = Buffer.allocUnsafe(Math.min(2 * this.#length, this.#limit))
      this.#bytes.copy(larger)
      this.#bytes = larger
    }
    this.#bytes[this.#length++] = byte
  }
}

/** Of a body whose text at `path` may be large; `limit` is in bytes. */
export function allElseTooLarge(path: readonly string[], limit: number): RequestError {
  return new RequestError(
    'invalid_request',
    `the body without ${path.join('.')} may have at most ${limit} bytes`,
    { status: 413 },
  )
}
