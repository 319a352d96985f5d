import t from 'tap'
import { z } from 'zod'
import { bytes, instant, integer, toBsonSchema } from '../../../../../shared/contract/schemas/bson-schema.ts'
import { collectionDefinitions } from '../../../../../shared/contract/schemas/collection-definitions.ts'

/** Keywords that MongoDB's draft 4 refuses or ignores, and those that would make a validator wrong. */
const refused = [
  ...['$ref', '$schema', 'definitions', 'default', 'format', 'id'],
  ...['const', 'pattern', 'type', 'prefixItems', 'propertyNames'],
]

function lint(node: unknown, path: string, problems: string[]): void {
  if (typeof node !== 'object' || node === null) return
  for (const [key, value] of Object.entries(node)) {
    if (key === 'properties') {
      for (const [name, property] of Object.entries(value as object))
        lint(property, `${path}.${name}`, problems)
      continue
    }
    if (refused.includes(key)) problems.push(`${path}: ${key}`)
    if (key === 'exclusiveMinimum' && typeof value !== 'boolean')
      problems.push(`${path}: exclusiveMinimum is a boolean in draft 4`)
    if (key === 'bsonType' && (value === 'int' || value === 'long' || value === 'double'))
      problems.push(`${path}: a number has three BSON types`)
    if (key !== 'enum' && key !== 'required') lint(value, `${path}/${key}`, problems)
  }
}

t.test('no validator has a keyword that the server refuses', async (t) => {
  for (const { name, schema } of collectionDefinitions) {
    const problems: string[] = []
    const converted = toBsonSchema(schema)
    lint(converted, name, problems)
    t.same(problems, [], name)
    t.ok((converted['required'] as string[]).includes('_id'), `${name} names _id`)
  }
})

t.test('kinds of values become BSON types', async (t) => {
  t.same(
    toBsonSchema(
      z.object({
        a: integer().min(0),
        b: instant().nullable(),
        c: bytes().optional(),
        d: z.enum(['x', 'y']),
      }),
    ),
    {
      bsonType: 'object',
      properties: {
        a: { bsonType: ['int', 'long', 'double'], multipleOf: 1, minimum: 0 },
        b: { anyOf: [{ bsonType: 'date' }, { bsonType: 'null' }] },
        c: { bsonType: 'binData' },
        d: { bsonType: 'string', enum: ['x', 'y'] },
      },
      required: ['a', 'b', 'd'],
    },
  )
})

t.test('a number that is none of ours is a mistake at start, not in production', async (t) => {
  t.throws(() => toBsonSchema(z.object({ n: z.int() })), /use integer\(\)/)
})
