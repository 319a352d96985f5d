import { binaryMegabyte } from '../../../../shared/values/byte-sizes.ts'
import type { TextBytes } from '../../../../shared/values/text-bytes.ts'

/**
 * Up to this length a text is written unit by unit; for longer ones a call into native code is cheaper. 3 units take 4 ns
 * and 21 with `write`, 12 units 19 and 28, 20 units 44 and 43. A length in 4 bytes takes 5.5 ns, with Buffer's method 33.5.
 */
const maxShortText = 16

/** The same for bytes: 16 of them take 13 ns and 25 with `copy`, 60 take 38 and 24 (medians of seven, Node.js 26.10). */
const maxShortBytes = 40

/**
 * Memory that `clear` keeps in any case. It keeps more only while a quarter of it is used: each lane has several writers.
 * Memory that is allocated anew for each batch of long rows made V8 mark the heap for a fifth of the engine's time.
 */
const maxKeptBytes = 2 * binaryMegabyte

/** A byte buffer that grows as it is written, and is reused after `clear`. */
export class ByteWriter {
  protected target: Buffer
  protected at = 0
  readonly #initialBytes: number

  constructor(initialBytes: number) {
    this.#initialBytes = initialBytes
    this.target = Buffer.allocUnsafeSlow(initialBytes)
  }

  /** Bytes written. */
  get length(): number {
    return this.at
  }

  /** A view of what was written; `clear` reuses its memory. */
  get bytes(): Buffer {
    return this.target.subarray(0, this.at)
  }

  clear(): void {
    const isUsed = this.at > this.target.length / 4
    this.at = 0
    if (this.target.length > maxKeptBytes && !isUsed) this.target = Buffer.allocUnsafeSlow(this.#initialBytes)
  }

  /** Writes the text in UTF-8. The caller has reserved three bytes a unit. */
  protected writeText(text: string): void {
    this.at += text.length > maxShortText ? this.target.write(text, this.at) : this.#writeShort(text)
  }

  #writeShort(text: string): number {
    const { target, at } = this
    for (let i = 0; i < text.length; i += 1) {
      const unit = text.charCodeAt(i)
      if (unit >= 0x80) return target.write(text, at)
      target[at + i] = unit
    }
    return text.length
  }

  /** The caller has reserved the bytes. */
  protected writeBytes({ bytes, start, end }: TextBytes): void {
    const { target, at } = this
    if (end - start > maxShortBytes) bytes.copy(target, at, start, end)
    else for (let from = start, to = at; from < end; from += 1, to += 1) target[to] = bytes[from]!
    this.at = at + end - start
  }

  protected reserve(bytes: number): void {
    const needed = this.at + bytes
    if (needed <= this.target.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.target.length * 2))
    this.target.copy(larger, 0, 0, this.at)
    this.target = larger
  }
}

/** Lines of text in UTF-8. */
export class LineWriter extends ByteWriter {
  #lines = 0

  constructor() {
    super(8 * 1024)
  }

  get lines(): number {
    return this.#lines
  }

  /** Line breaks within the line become a blank. */
  add({ bytes, start, end }: TextBytes): void {
    this.reserve(end - start + 1)
    const { target } = this
    let wasBreak = false
    for (let from = start; from < end; from += 1) {
      const byte = bytes[from]!
      const isBreak = byte === 0x0a || byte === 0x0d
      if (!isBreak || !wasBreak) {
        target[this.at] = isBreak ? 0x20 : byte
        this.at += 1
      }
      wasBreak = isBreak
    }
    target[this.at] = 0x0a
    this.at += 1
    this.#lines += 1
  }
}
