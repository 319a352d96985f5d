import fc from 'fast-check'
import { BSON, Long } from 'mongodb'
import t from 'tap'
import { BsonReader } from '../../../../../../engine/stages/write/bson/bson-reader.ts'

const values = fc.dictionary(
  fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 8 }).filter((name) => name !== '__proto__'),
  fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.record({ inner: fc.string() }),
  ),
)

function read(bytes: Buffer, start: number): Record<string, unknown> {
  const reader = new BsonReader(bytes, start)
  const read: Record<string, unknown> = {}
  const expected = BSON.deserialize(bytes.subarray(start))
  while (reader.next()) {
    const value: unknown = expected[reader.name]
    if (typeof value === 'string') read[reader.name] = reader.string()
    else if (typeof value === 'number') read[reader.name] = reader.number()
    else if (typeof value === 'boolean') read[reader.name] = reader.boolean()
    else read[reader.name] = reader.object()
  }
  return read
}

t.test('elements are read as the driver reads them', async (t) => {
  fc.assert(
    fc.property(values, fc.nat({ max: 9 }), (document, start) => {
      const bytes = Buffer.concat([Buffer.alloc(start), BSON.serialize(document)])
      t.strictSame(read(bytes, start), BSON.deserialize(BSON.serialize(document)))
    }),
    { numRuns: 300 },
  )
})

t.test('what is not asked for is passed over, and a wrong type is told', async (t) => {
  const bytes = Buffer.from(
    BSON.serialize({
      at: new Date(),
      none: null,
      big: Long.fromNumber(2 ** 40),
      list: ['a', 'b'],
      last: 'x',
    }),
  )
  const reader = new BsonReader(bytes)
  while (reader.next()) {
    if (reader.name === 'big') t.equal(reader.number(), 2 ** 40)
    if (reader.name === 'last') t.throws(() => reader.number(), /sent last as BSON type 2/)
    if (reader.name !== 'list') continue
    const list = reader.inner()
    const read: string[] = []
    while (list.next()) read.push(list.string())
    t.strictSame(read, ['a', 'b'])
  }
})
