import { Ajv2020 } from 'ajv/dist/2020.js'
import { addFormats } from '../contract.ts'
import type { Json } from '../service.ts'

/** Values that a body's JSON schema refuses, field by field. */
interface WrongValue {
  /** Keys from the schema down to the field. */
  path: string[]
  value: unknown
}

const candidates: unknown[] = [5.5, -1, 'nonsense', true, [{}], { $gt: '' }, 'x'.repeat(70_000), 2 ** 53]

// One validator for all fields: making one takes 20 ms, and there are hundreds of fields.
const ajv = new Ajv2020({ strict: false, validateSchema: false, code: { optimize: false } })
addFormats(ajv)
ajv.addFormat('idn-email', /^[^@\s]+@[^@\s]+$/)

/** `document` is where the schema's references point to. */
export function wrongValuesOf(document: Json, schema: Json, path: string[] = []): WrongValue[] {
  const resolved = resolve(document, schema)
  const found: WrongValue[] = []
  for (const [key, property] of Object.entries<Json>(resolved.properties ?? {})) {
    const field = resolve(document, property)
    // Each compilation searches all that could be referred to, and few fields refer to anything.
    const refers = JSON.stringify(field).includes('"$ref"')
    const validate = ajv.compile(refers ? { ...field, components: document.components } : field)
    for (const value of candidates) if (!validate(value)) found.push({ path: [...path, key], value })
    found.push(...wrongValuesOf(document, property, [...path, key]))
  }
  return found
}

/** Keys that a schema requires, at every depth whose parents are required too. */
export function requiredKeysOf(document: Json, schema: Json, path: string[] = []): string[][] {
  const resolved = resolve(document, schema)
  const required: string[] = resolved.required ?? []
  return required.flatMap((key) => [
    [...path, key],
    ...requiredKeysOf(document, resolved.properties[key], [...path, key]),
  ])
}

/** A copy of `value` with something else at `path`; without the key when `put` is undefined. */
export function changedAt(value: Json, path: string[], put: unknown): Json {
  const [key, ...rest] = path
  if (key === undefined) return put
  const copy: Json = Array.isArray(value) ? [...value] : { ...(typeof value === 'object' ? value : {}) }
  const changed = changedAt(copy[key], rest, put)
  if (changed === undefined) Reflect.deleteProperty(copy, key)
  else copy[key] = changed
  return copy
}

function resolve(document: Json, schema: Json): Json {
  if (schema?.$ref === undefined) return schema ?? {}
  const steps = String(schema.$ref).replace(/^#\//, '').split('/')
  return steps.reduce((node, step) => node[step], document)
}
