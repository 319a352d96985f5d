import t from 'tap'
import { readBody } from '../../../../control-plane/api/validation.ts'
import { openApiDocument } from '../../../../control-plane/openapi/openapi.ts'
import { endpoints } from '../../../../control-plane/endpoints.ts'
import { RequestError } from '../../../../control-plane/api/request-error.ts'
import { changedAt } from '../../../helpers/conformance/wrong-values.ts'
import { bodySchema } from '../../../helpers/body-schema.ts'
import type { Json } from '../../../helpers/service.ts'

/**
 * Validation follows the description of a body's fields: the bound itself is accepted, one past it is refused, and
 * where no bound is named there is none. Patterns and formats are compared by the conformance tests, since some are
 * checked only where the list is known.
 */
const document: Json = JSON.parse(JSON.stringify(openApiDocument(endpoints)))

/** Refused for what no bound says: no name of the long list, not the same as another text, a field of a new list. */
const beyondBounds = ['time_zone_name', 'password2', 'primary_key_custom_field_id']

interface Field {
  path: string[]
  schema: Json
}

for (const { method, path, operationId, body } of endpoints) {
  if (body === undefined) continue
  const operation = document.paths[`/svc/api/v2${path.replaceAll(/:(\w+)/g, '{$1}')}`][method]
  const whole = bodySchema(document, operation)
  const { wrapper } = body
  const schema = wrapper === null ? whole : whole.properties[wrapper]
  const [first] = Object.values(body.examples) as Json[]
  const example: Json = wrapper === null ? first : first[wrapper]

  /** Whether validation finds a fault with the field or with what is in it. */
  const isRefused = ({ path: keys }: Field, value: unknown): boolean => {
    const sent = changedAt(example, keys, value)
    try {
      readBody(body, wrapper === null ? sent : { [wrapper]: sent })
      return false
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      const name = keys.join('.')
      return error.message.split('; ').some((sentence) => new RegExp(`^${name}(\\.\\d+)? `).test(sentence))
    }
  }

  t.test(`${operationId} has the bounds that are described`, (t) => {
    const faults: string[] = []
    for (const field of fieldsOf(schema)) {
      const shown = `${field.path.join('.')} ${JSON.stringify(field.schema).slice(0, 150)}`
      const { taken, refused } = trialsOf(field, valueAt(example, field.path) ?? field.schema.default)
      for (const value of beyondBounds.includes(field.path.at(-1)!) ? [] : taken)
        if (isRefused(field, value)) faults.push(`${shown}: refuses ${shownValue(value)}`)
      for (const value of refused)
        if (!isRefused(field, value)) faults.push(`${shown}: takes ${shownValue(value)}`)
    }
    t.same(faults, [])
    t.end()
  })
}

t.test('lengths are counted in characters, not in halves of them', (t) => {
  const creation = endpoints.find(({ operationId }) => operationId === 'createOrganization')!.body!
  readBody(creation, { organization: { name: '\u{1f642}'.repeat(255) } })
  t.throws(() => readBody(creation, { organization: { name: '\u{1f642}'.repeat(256) } }), {
    message: 'name must have at most 255 characters',
  })
  t.end()
})

t.test('a number with a fraction, and what is no number, is told that an integer is due', (t) => {
  const creation = endpoints.find(({ operationId }) => operationId === 'createApiKey')!.body!
  for (const user_id of [5.5, '5', true, [5]])
    t.throws(() => readBody(creation, { api_key: { name: 'x', user_id } }), {
      message: 'user_id must be an integer',
    })
  t.end()
})

/** Every field at every depth, of an array's entries in its first one, without its null. */
function fieldsOf(node: Json, path: string[] = []): Field[] {
  const schema = resolved(node)
  return Object.entries<Json>(schema.properties ?? {}).flatMap(([name, property]) => {
    const own = [...path, name]
    const field = { path: own, schema: resolved(property) }
    const entries = field.schema.items === undefined ? [] : fieldsOf(field.schema.items, [...own, '0'])
    return [field, ...entries, ...fieldsOf(property, own)]
  })
}

function resolved(node: Json): Json {
  if (node.$ref !== undefined)
    return resolved(
      String(node.$ref)
        .slice(2)
        .split('/')
        .reduce((inner, step) => inner[step], document),
    )
  const others = node.anyOf?.filter(({ type }: Json) => type !== 'null')
  return others?.length === 1 && node.anyOf.length === 2 ? { ...resolved(others[0]), ...plain(node) } : node
}

function plain({ anyOf: _both, ...rest }: Json): Json {
  return rest
}

function trialsOf(field: Field, sample: unknown): { taken: unknown[]; refused: unknown[] } {
  const { schema, path } = field
  if (schema.type === 'array') {
    const item = resolved(schema.items)
    const inner = trialsOf({ schema: item, path }, undefined)
    const entry = entryOf(item)
    const many = (count: number) => Array<unknown>(count).fill(entry)
    return {
      taken: [
        many(schema.maxItems ?? 3_000),
        many(schema.minItems ?? 0),
        ...inner.taken.map((value) => [value]),
      ],
      refused: [
        ...(schema.maxItems === undefined ? [] : [many(Number(schema.maxItems) + 1)]),
        ...(schema.minItems === undefined ? [] : [many(schema.minItems - 1)]),
        ...inner.refused.map((value) => [value]),
      ],
    }
  }
  if (schema.type === 'integer' || schema.type === 'number')
    return {
      taken: [schema.minimum, schema.maximum],
      refused: [schema.minimum - 1, Number(schema.maximum) + 1],
    }
  const isListed = schema.enum !== undefined || schema.const !== undefined || schema.anyOf !== undefined
  if (schema.type !== 'string' || isListed) return { taken: [], refused: [] }
  const { minLength, maxLength } = schema
  const text = (length: number) => textOf(length, schema, sample)
  const isUnbounded = schema.pattern === undefined && schema.format === undefined
  return {
    taken: [
      ...(maxLength === undefined ? (isUnbounded ? ['x'.repeat(70_000)] : []) : [text(maxLength)]),
      ...(minLength === undefined ? [] : [text(minLength)]),
    ],
    refused: [
      ...(maxLength === undefined ? [] : [text(Number(maxLength) + 1)]),
      ...(minLength === undefined ? [] : [text(minLength - 1)]),
    ],
  }
}

/** Kinds of which an array may have any number. */
function entryOf({ type, format, minimum, enum: listed }: Json): unknown {
  if (listed !== undefined) return listed[0]
  if (type === 'object') return {}
  if (type === 'integer') return minimum
  return format === undefined ? 'x' : emailOf(20)
}

/** A text of this length that fits the schema's pattern or format. */
function textOf(length: number, { format, pattern }: Json, sample: unknown): string {
  if (format !== undefined) return emailOf(length)
  if (pattern === undefined || pattern === String.raw`\S`) return 'x'.repeat(length)
  return String(sample).padEnd(length, 'x')
}

function emailOf(length: number): string {
  const domain = length < 300 ? 'a.example' : `${'d'.repeat(63)}.`.repeat(3) + `${'d'.repeat(62)}.d`
  return `${'l'.repeat(length - 1 - domain.length)}@${domain}`
}

function valueAt(value: Json, path: string[]): unknown {
  return path.reduce((inner, key) => inner?.[key], value)
}

function shownValue(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 30)}... (${text.length})` : text
}
