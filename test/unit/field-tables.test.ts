import t from 'tap'
import { openApiDocument } from '../../control-plane/openapi/openapi.ts'
import { endpoints } from '../../control-plane/endpoints.ts'
import { creationDefaults, fieldTables } from '../helpers/field-tables.ts'
import { bodySchema } from '../helpers/body-schema.ts'
import type { Json } from '../helpers/service.ts'

/** Compares the tables of fields with the description; the conformance tests compare them with replies. */
const document: Json = JSON.parse(JSON.stringify(openApiDocument(endpoints)))

const formats: Record<string, string> = { time: 'date-time', date: 'date' }

for (const { schema, fields, values = {}, isWhole } of fieldTables)
  t.test(`${schema} is described as in the table`, (t) => {
    const component = document.components.schemas[schema]
    for (const [path, type] of Object.entries(fields)) {
      const { types, format, required } = described(component, path.split('.'))
      const [plain = ''] = type.split('?')
      const expectedFormat = formats[plain]
      const expected = [
        expectedFormat === undefined ? plain : 'string',
        ...(type.endsWith('?') ? ['null'] : []),
      ]
      t.same(types, expected.sort(), `type of ${path}`)
      t.equal(format, expectedFormat, `format of ${path}`)
      t.equal(required, true, `${path} is always there`)
    }
    for (const [path, expected] of Object.entries(values))
      t.same(described(component, path.split('.')).values, [...expected].sort(), `values of ${path}`)
    if (isWhole === true) {
      const names = new Set(Object.keys(fields).map((path) => path.split('.')[0]))
      t.same(Object.keys(component.properties).sort(), [...names].sort(), 'nothing else')
    }
    t.end()
  })

t.test('creations have the documented defaults', (t) => {
  for (const [operationId, defaults] of Object.entries(creationDefaults)) {
    const { method, path, body } = endpoints.find((described) => described.operationId === operationId)!
    const operation = document.paths[`/svc/api/v2${path.replaceAll(/:(\w+)/g, '{$1}')}`][method]
    const whole = bodySchema(document, operation)
    const schema = whole.properties[body!.wrapper!]
    const example = (Object.values(body!.examples) as Json[])[0][body!.wrapper!]
    for (const [field, value] of Object.entries(defaults)) {
      const steps = field.split('.')
      const { default: said, description } = steps.reduce((inner, step) => inner.properties[step], schema)
      if (said === undefined && /where none is given/.test(description)) {
        // Said in words: generators can't read this one as a keyword.
        const parsed: Json = body!.schema.parse(example)
        t.same(
          steps.reduce((inner, step) => inner[step], parsed),
          value,
          `${operationId}: ${field}`,
        )
      } else t.same(said, value, `${operationId}: ${field}`)
    }
  }
  t.end()
})

interface Described {
  types: string[]
  format?: string
  values?: string[]
  required: boolean
}

/** The description of a field. The field is required when every object on its path requires the next key. */
function described(node: Json, path: string[], required = true): Described {
  const options: Json[] = optionsOf(node)
  const [step, ...rest] = path
  if (step === undefined) {
    const types = options
      .flatMap(({ type }) => type as string | string[])
      .filter((type) => type !== undefined)
    const { format, enum: listed } = options.find((option) => option.type !== 'null') ?? {}
    return {
      types: [...new Set(types)].sort(),
      format,
      ...(listed === undefined ? {} : { values: [...listed].sort() }),
      required,
    }
  }
  const holder = options.find(({ type }) => type === 'object' || type === 'array')
  if (step === '[]') return described(holder.items, rest, required)
  if (step === '*') return described(holder.additionalProperties, rest, required)
  return described(holder.properties[step], rest, required && holder.required?.includes(step) === true)
}

function optionsOf(node: Json): Json[] {
  if (node.$ref !== undefined)
    return optionsOf(document.components.schemas[String(node.$ref).split('/').at(-1)!])
  return (node.anyOf ?? [node]).flatMap((option: Json) => (option === node ? [option] : optionsOf(option)))
}
