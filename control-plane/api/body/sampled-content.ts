import { StringDecoder } from 'node:string_decoder'
import type { StringSink } from './json-skeleton.ts'
import { halfPair } from './json-text.ts'

/** The beginning of a body's content, for an endpoint that only inspects it. */
export interface ContentSample {
  /** UTF-8. */
  bytes: Buffer
  /** Whether the sample is all of the content. */
  isWhole: boolean
  /** Whether all of the content is white space. */
  isBlank: boolean
}

/** Keeps the beginning of a body's content in memory and drops the rest; nothing is staged. */
export class SampledContent implements StringSink {
  readonly #maxBytes: number
  #kept: Buffer[] = []
  #size = 0
  #isBlank = true
  #decoder = new StringDecoder('utf8')
  #hasHalfPair = false

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Bytes of the content so far. */
  get size(): number {
    return this.#size
  }

  begin(): void {
    this.#kept = []
    this.#size = 0
    this.#isBlank = true
    this.#decoder = new StringDecoder('utf8')
    this.#hasHalfPair = false
  }

  add(text: Buffer): void {
    const remaining = this.#maxBytes - this.#size
    // A copy: a piece may be a small part of a large buffer.
    if (remaining > 0) this.#kept.push(Buffer.from(text.subarray(0, remaining)))
    this.#size += text.length
    if (this.#isBlank) this.#isBlank = this.#decoder.write(text).trim() === ''
  }

  end(hasHalfPair: boolean): void {
    this.#hasHalfPair = hasHalfPair
  }

  /** Throws `invalid_request` for content with half of a surrogate pair. */
  finish(): ContentSample {
    if (this.#hasHalfPair) throw halfPair()
    return {
      bytes: Buffer.concat(this.#kept),
      isWhole: this.#size <= this.#maxBytes,
      isBlank: this.#isBlank,
    }
  }
}
