import type { CellValue } from '../../../../shared/values/field-value.ts'
import { TextBytes } from '../../../../shared/values/text-bytes.ts'
import { bsonType } from './bson-types.ts'
import { ByteWriter } from './byte-writer.ts'

/**
 * Serializes documents as BSON into one buffer, which the next batch reuses. The driver's serializer needs the
 * objects of a whole batch to live until the command is sent. Their garbage collection took a third of the engine's
 * time.
 *
 * The caller names each element: code that iterates over the keys of objects was optimized for their shapes and
 * deoptimized a hundred times a second. The bytes are those of the driver, which a test compares.
 */
export class BsonWriter extends ByteWriter {
  constructor(initialBytes = 64 * 1024) {
    super(initialBytes)
  }

  /** The documents in pieces of up to `maxBytes`; a larger document is a piece of its own. */
  *pieces(maxBytes: number): Generator<Buffer> {
    const { bytes } = this
    let start = 0
    for (let at = 0; at < bytes.length;) {
      const end = at + bytes.readInt32LE(at)
      if (end - start > maxBytes && at > start) {
        yield bytes.subarray(start, at)
        start = at
      }
      at = end
    }
    if (start < bytes.length) yield bytes.subarray(start)
  }

  /** Begins a document. `end` and `cancel` take the position that it returns. */
  begin(): number {
    this.reserve(8)
    const start = this.at
    this.at += 4
    return start
  }

  beginObject(name: string): number {
    this.#name(bsonType.object, name)
    return this.begin()
  }

  end(start: number): void {
    this.reserve(1)
    this.target[this.at] = 0
    this.at += 1
    this.#putInt32(start, this.at - start)
  }

  /** Ends an object that `beginObject` began. Removes it and returns false when it is empty. */
  endFilled(name: string, start: number): boolean {
    const isFilled = this.at > start + 4
    if (isFilled) this.end(start)
    else this.at = start - Buffer.byteLength(name) - 2
    return isFilled
  }

  /** Removes a document that was begun. */
  cancel(start: number): void {
    this.at = start
  }

  /** `prefix` is ASCII. */
  string(name: string, text: TextBytes | string, prefix = ''): void {
    this.#name(bsonType.string, name)
    this.reserve((prefix.length + text.length) * 3 + 8)
    const start = this.at
    this.at += 4
    if (prefix !== '') this.writeText(prefix)
    if (typeof text === 'string') this.writeText(text)
    else this.writeBytes(text)
    this.target[this.at] = 0
    this.at += 1
    this.#putInt32(start, this.at - start - 4)
  }

  number(name: string, value: number): void {
    if ((value | 0) === value && !Object.is(value, -0)) {
      this.#name(bsonType.int32, name)
      this.#putInt32(this.at, value)
      this.at += 4
    } else {
      this.#name(bsonType.double, name)
      this.target.writeDoubleLE(value, this.at)
      this.at += 8
    }
  }

  boolean(name: string, value: boolean): void {
    this.#name(bsonType.boolean, name)
    this.target[this.at] = value ? 1 : 0
    this.at += 1
  }

  /** `ms`: milliseconds since 1970. */
  date(name: string, ms: number): void {
    this.#name(bsonType.date, name)
    const high = Math.floor(ms / 0x1_0000_0000)
    this.#putInt32(this.at, ms - high * 0x1_0000_0000)
    this.#putInt32(this.at + 4, high)
    this.at += 8
  }

  texts(name: string, values: readonly string[]): void {
    this.#name(bsonType.array, name)
    const start = this.begin()
    for (let i = 0; i < values.length; i += 1) this.string(String(i), values[i]!)
    this.end(start)
  }

  value(name: string, value: CellValue): void {
    if (typeof value === 'string' || value instanceof TextBytes) this.string(name, value)
    else if (typeof value === 'number') this.number(name, value)
    else if (typeof value === 'boolean') this.boolean(name, value)
    else this.texts(name, value)
  }

  /** Writes an element's type and name, and reserves bytes for a value of fixed size. */
  #name(type: number, name: string): void {
    this.reserve(name.length * 3 + 18)
    this.target[this.at] = type
    this.at += 1
    this.writeText(name)
    this.target[this.at] = 0
    this.at += 1
  }

  #putInt32(at: number, value: number): void {
    const { target } = this
    target[at] = value
    target[at + 1] = value >> 8
    target[at + 2] = value >> 16
    target[at + 3] = value >> 24
  }
}
