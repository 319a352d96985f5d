import { z } from 'zod'

/**
 * MongoDB validators from zod schemas, so that a document's shape is written once. `z.toJSONSchema` does the
 * work; this file puts BSON's types in place of JSON's and leaves out what the server refuses.
 */

export type BsonSchema = Record<string, unknown>

/** An integer. The driver stores a number beyond 32 bits as a double, so three BSON types are one of ours. */
export const integer = () =>
  z
    .number()
    .int()
    .meta({ bson: { bsonType: ['int', 'long', 'double'], multipleOf: 1 } })

/** An id: a positive integer, unique per kind of document over the whole system, never reused. */
export const id = () => integer().min(1)

export const instant = () => z.date().meta({ bson: { bsonType: 'date' } })

/** Bytes, which the driver hands over as a Binary and takes as a Buffer. */
export const bytes = () =>
  z.custom<Uint8Array>((value) => value instanceof Uint8Array).meta({ bson: { bsonType: 'binData' } })

const jsonTypeToBson: Record<string, string> = {
  boolean: 'bool',
  null: 'null',
  string: 'string',
  array: 'array',
  object: 'object',
  number: 'number',
}

/** Keywords that the server's draft 4 doesn't know or that would only cost time on every write. */
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

/** The `$jsonSchema` of a collection whose documents are described by `schema`. */
export function toBsonSchema(schema: z.ZodType): BsonSchema {
  return convert(
    z.toJSONSchema(schema, {
      target: 'draft-4',
      io: 'output',
      reused: 'inline',
      cycles: 'throw',
      unrepresentable: 'any',
    }),
  ) as BsonSchema
}

function convert(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(convert)
  if (typeof node !== 'object' || node === null) return node
  const source = node as Record<string, unknown>
  if (source['bson'] !== undefined)
    return { ...(source['bson'] as BsonSchema), ...pick(source, ['minimum', 'maximum']) }

  const target: BsonSchema = {}
  for (const [key, value] of Object.entries(source)) {
    if (refusedKeywords.includes(key)) continue
    // A newer version beside this one may write more fields than this one knows.
    if (key === 'additionalProperties' && typeof value === 'boolean') continue
    if (key === 'type') target['bsonType'] = bsonTypeOf(value)
    else if (key === 'properties') target[key] = mapValues(value as Record<string, unknown>, convert)
    else target[key] = key === 'enum' || key === 'required' ? value : convert(value)
  }
  return target
}

function bsonTypeOf(type: unknown): unknown {
  if (Array.isArray(type)) return type.map(bsonTypeOf)
  const bsonType = jsonTypeToBson[type as string]
  if (bsonType === undefined)
    throw new Error(`no BSON type for the JSON type ${String(type)}: use integer(), instant() or bytes()`)
  return bsonType
}

function pick(source: Record<string, unknown>, keys: string[]): Record<string, unknown> {
  return Object.fromEntries(
    keys
      .filter((key) => Number.isSafeInteger(source[key]) && Math.abs(source[key] as number) < 2 ** 52)
      .map((key) => [key, source[key]]),
  )
}

function mapValues(
  source: Record<string, unknown>,
  change: (value: unknown) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(source).map(([key, value]) => [key, change(value)]))
}
