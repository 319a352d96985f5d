import fc from 'fast-check'
import { BSON } from 'mongodb'
import t from 'tap'
import { BsonWriter } from '../../../../../../engine/stages/write/bson/bson-writer.ts'
import type { FieldValue } from '../../../../../../shared/contract/schemas/custom-field.ts'

const text = fc.oneof(fc.string({ maxLength: 80 }), fc.string({ unit: 'binary', maxLength: 80 }))
const key = fc
  .oneof(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }), fc.nat({ max: 9999 }).map(String))
  .filter((name) => !name.includes('\0') && name !== '__proto__')
const scalar = fc.oneof(
  text,
  fc.integer(),
  fc.double(),
  fc.maxSafeInteger(),
  fc.constantFrom(0, -0, 2 ** 31, -(2 ** 31), 2 ** 31 - 1, -(2 ** 31) - 1),
  fc.boolean(),
  fc.date({ noInvalidDate: true }),
  fc.array(text, { maxLength: 4 }),
)
type Content = Record<string, FieldValue | Date | Record<string, FieldValue | Date>>

function write(writer: BsonWriter, content: Content): void {
  const start = writer.begin()
  writeElements(writer, content)
  writer.end(start)
}

function writeElements(writer: BsonWriter, content: Content): void {
  for (const [key, value] of Object.entries(content)) {
    if (value instanceof Date) writer.date(key, value.getTime())
    else if (typeof value !== 'object' || Array.isArray(value)) writer.value(key, value)
    else {
      const start = writer.beginObject(key)
      writeElements(writer, value)
      writer.end(start)
    }
  }
}

const document = fc.dictionary(key, fc.oneof(scalar, fc.dictionary(key, scalar, { maxKeys: 6 })), {
  maxKeys: 8,
})

t.test('the bytes are those of the driver, one document after the other', async (t) => {
  const writer = new BsonWriter(16)
  fc.assert(
    fc.property(fc.array(document, { maxLength: 5 }), (documents) => {
      writer.clear()
      for (const one of documents) write(writer, one)
      const expected = Buffer.concat(documents.map((one) => BSON.serialize(one)))
      return writer.bytes.equals(expected)
    }),
    { numRuns: 3_000 },
  )
  t.pass('3,000 random lists of documents')
})

t.test('half a surrogate pair becomes U+FFFD, as with the driver', async (t) => {
  const writer = new BsonWriter()
  const broken = { short: 'a\ud800b', long: `${'x'.repeat(100)}\udc00` }
  write(writer, broken)
  t.ok(writer.bytes.equals(BSON.serialize(broken)))
})
