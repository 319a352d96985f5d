import { z } from 'zod'

/**
 * Converts zod schemas to MongoDB validators, so that the shape of a document is written once. `z.toJSONSchema` makes a
 * JSON schema. This file replaces its types by BSON types and drops the keywords that the server refuses.
 */

type BsonSchema = Record<string, unknown>

/** The driver stores an integer beyond 32 bits as a double, and the server may store it as a long. */
export const integer = () =>
  z
    .number()
    .int()
    .meta({ bson: { bsonType: ['int', 'long', 'double'], multipleOf: 1 } })

/** A positive integer, unique among all documents of a kind in the installation and never reused. */
export const id = () => integer().min(1)

export const instant = () => z.date().meta({ bson: { bsonType: 'date' } })

/** The driver accepts a Buffer and returns a Binary. */
export const bytes = () =>
  z.custom<Uint8Array>((value) => value instanceof Uint8Array).meta({ bson: { bsonType: 'binData' } })

/** Other JSON types than `boolean` that are also BSON types. */
const sharedTypes: readonly unknown[] = ['null', 'string', 'array', 'object', 'number']

/** Keywords that the server doesn't know, or whose check on every write would cost time without use. */
const refusedKeywords = [
  '$schema',
  '$ref',
  'definitions',
  'default',
  'format',
  'id',
  'pattern',
  'bson',
  'propertyNames',
]

/** Makes the `$jsonSchema` of a collection whose documents have the given schema. */
export function toBsonSchema(schema: z.ZodType): BsonSchema {
  return convertSchema(z.toJSONSchema(schema, { target: 'draft-4', cycles: 'throw', unrepresentable: 'any' }))
}

function convert(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(convert)
  return isObject(node) ? convertSchema(node) : node
}

function convertSchema(source: Record<string, unknown>): BsonSchema {
  const { bson } = source
  if (isObject(bson)) return { ...bson, ...pickBounds(source) }

  const target: BsonSchema = {}
  for (const [key, value] of Object.entries(source)) {
    if (refusedKeywords.includes(key)) continue
    // A newer version that runs beside this one may write fields that this one doesn't know.
    if (key === 'additionalProperties' && typeof value === 'boolean') continue
    if (key === 'type') target['bsonType'] = toBsonType(value)
    else if (key === 'properties' && isObject(value))
      target[key] = Object.fromEntries(
        Object.entries(value).map(([name, property]) => [name, convert(property)]),
      )
    else target[key] = key === 'enum' || key === 'required' ? value : convert(value)
  }
  return target
}

function toBsonType(type: unknown): unknown {
  if (Array.isArray(type)) return type.map(toBsonType)
  if (type === 'boolean') return 'bool'
  if (sharedTypes.includes(type)) return type
  throw new Error(`no BSON type for the JSON type ${String(type)}: use integer(), instant() or bytes()`)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Without zod's own bounds of safe integers. */
function pickBounds(source: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    ['minimum', 'maximum']
      .filter((key) => Number.isSafeInteger(source[key]) && Math.abs(Number(source[key])) < 2 ** 52)
      .map((key) => [key, source[key]]),
  )
}
