import { BSON, type Document } from 'mongodb'
import { bsonType } from './bson-types.ts'

/**
 * Reads a BSON document element by element, in their order. The driver makes several objects of each document, which
 * are thousands a batch.
 */
export class BsonReader {
  /** The current element's name. */
  name = ''
  readonly #bytes: Buffer
  #type = 0
  /** Offset of the current element's value. */
  #at: number
  #next: number

  /** `start`: the document's offset in `bytes`. */
  constructor(bytes: Buffer, start = 0) {
    this.#bytes = bytes
    this.#next = this.#at = start + 4
  }

  /** Moves to the next element; false after the last. */
  next(): boolean {
    const bytes = this.#bytes
    const start = this.#next
    this.#type = bytes[start]!
    if (this.#type === 0) return false
    let end = start + 1
    while (bytes[end] !== 0) end += 1
    this.name = bytes.toString('latin1', start + 1, end)
    this.#at = end + 1
    this.#next = this.#at + this.#size()
    return true
  }

  /** Throws when the element has another type, as the methods below do. */
  string(): string {
    this.#expect(bsonType.string)
    return this.#bytes.toString('utf8', this.#at + 4, this.#next - 1)
  }

  boolean(): boolean {
    this.#expect(bsonType.boolean)
    return this.#bytes[this.#at] === 1
  }

  /** Accepts any of BSON's number types. */
  number(): number {
    switch (this.#type) {
      case bsonType.int32:
        return this.#bytes.readInt32LE(this.#at)
      case bsonType.double:
        return this.#bytes.readDoubleLE(this.#at)
      case bsonType.int64:
        return Number(this.#bytes.readBigInt64LE(this.#at))
      default:
        throw this.#unexpected()
    }
  }

  /** A reader of the element's value, which is a document or an array. */
  inner(): BsonReader {
    if (this.#type !== bsonType.object && this.#type !== bsonType.array) throw this.#unexpected()
    return new BsonReader(this.#bytes, this.#at)
  }

  /** The element's document, deserialized by the driver. */
  object(): Document {
    this.#expect(bsonType.object)
    return BSON.deserialize(this.#bytes.subarray(this.#at, this.#next))
  }

  #size(): number {
    switch (this.#type) {
      case bsonType.null:
        return 0
      case bsonType.boolean:
        return 1
      case bsonType.int32:
        return 4
      case bsonType.double:
      case bsonType.date:
      case bsonType.timestamp:
      case bsonType.int64:
        return 8
      case bsonType.string:
        return 4 + this.#bytes.readInt32LE(this.#at)
      case bsonType.object:
      case bsonType.array:
        return this.#bytes.readInt32LE(this.#at)
      default:
        throw this.#unexpected()
    }
  }

  #expect(type: number): void {
    if (this.#type !== type) throw this.#unexpected()
  }

  #unexpected(): Error {
    return new Error(
      `the database sent ${this.name} as BSON type ${this.#type}, which is never written there`,
    )
  }
}
