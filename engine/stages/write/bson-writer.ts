import type { FieldValue } from '../../../shared/contract/schemas/custom-field.ts'
import { bsonType } from './bson-types.ts'
import { ByteWriter } from './byte-writer.ts'

/**
 * Documents as BSON, side by side in one buffer that is used again for the next batch. The driver's own serializer
 * wants the objects of a whole batch to be alive when the command is sent; those objects, thousands at a time and a
 * tenth of a second old, took a third of the engine's time in garbage collection. Written here they die at once.
 *
 * The caller names each element; going over the keys of objects was optimized for their shapes and thrown away again
 * a hundred times a second. The bytes are those that the driver would write (a test holds them against each other).
 */
export class BsonWriter extends ByteWriter {
  /** How many documents were written; whoever writes one counts it. */
  documents = 0

  constructor(initialBytes = 64 * 1024) {
    super(initialBytes)
  }

  override clear(): void {
    super.clear()
    this.documents = 0
  }

  /** The documents in portions of so many bytes at most, a larger document alone in its own. */
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

  /** Begins a document; what is returned ends it. */
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

  /** Ends an object that `beginObject` began; takes it back, and says false, when nothing was put into it. */
  endFilled(name: string, start: number): boolean {
    const isFilled = this.at > start + 4
    if (isFilled) this.end(start)
    else this.at = start - nameBytes(name).length - 1
    return isFilled
  }

  /** Takes back a document that was begun. */
  cancel(start: number): void {
    this.at = start
  }

  string(name: string, text: string): void {
    this.#name(bsonType.string, name)
    this.reserve(text.length * 3 + 8)
    const start = this.at
    this.at += 4
    this.writeText(text)
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

  date(name: string, value: Date): void {
    this.#name(bsonType.date, name)
    const ms = value.getTime()
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

  value(name: string, value: FieldValue): void {
    if (typeof value === 'string') this.string(name, value)
    else if (typeof value === 'number') this.number(name, value)
    else if (typeof value === 'boolean') this.boolean(name, value)
    else this.texts(name, value)
  }

  /** The element's type and name, and room for a value of fixed size. */
  #name(type: number, name: string): void {
    const bytes = nameBytes(name)
    this.reserve(bytes.length + 16)
    const { target, at } = this
    target[at] = type
    for (let i = 0; i < bytes.length; i += 1) target[at + 1 + i] = bytes[i]!
    this.at = at + 1 + bytes.length
  }

  #putInt32(at: number, value: number): void {
    const { target } = this
    target[at] = value
    target[at + 1] = value >> 8
    target[at + 2] = value >> 16
    target[at + 3] = value >> 24
  }
}

/** Names are few and come again in every document: their bytes, with the zero at the end, are kept. */
const knownNames = new Map<string, Buffer>()
const maxKnownNames = 10_000

function nameBytes(name: string): Buffer {
  let bytes = knownNames.get(name)
  if (bytes === undefined) {
    bytes = Buffer.from(`${name}\0`)
    if (knownNames.size >= maxKnownNames) knownNames.clear()
    knownNames.set(name, bytes)
  }
  return bytes
}
