/** Texts up to this length are written unit by unit, at 5 ns each; for longer ones the call into native code is cheaper. */
const shortText = 12

/** Memory that is kept for the next use; more is rarely needed, and there are several writers in each lane. */
const maxKept = 2 * 1024 * 1024

/** Bytes that are written one after the other into memory that grows to what is needed. */
export class ByteWriter {
  protected target: Buffer
  protected at = 0
  readonly #initialBytes: number

  constructor(initialBytes: number) {
    this.#initialBytes = initialBytes
    this.target = Buffer.allocUnsafeSlow(initialBytes)
  }

  /** Bytes that were written. */
  get length(): number {
    return this.at
  }

  /** What was written; a view of memory that is used again after `clear`. */
  get bytes(): Buffer {
    return this.target.subarray(0, this.at)
  }

  clear(): void {
    this.at = 0
    if (this.target.length > maxKept) this.target = Buffer.allocUnsafeSlow(this.#initialBytes)
  }

  /** Writes the text in UTF-8. Room for three bytes a unit must have been reserved. */
  protected writeText(text: string): void {
    this.at += text.length > shortText ? this.target.write(text, this.at) : this.#writeShort(text)
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

  add(line: string): void {
    this.reserve(line.length * 3 + 1)
    this.writeText(line)
    this.target[this.at] = 0x0a
    this.at += 1
    this.#lines += 1
  }
}
