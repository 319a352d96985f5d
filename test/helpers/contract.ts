import formats from 'ajv-formats'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import type { Json } from './service.ts'

/**
 * Compares replies with the service's description: every status, media type and field of a reply must be documented.
 * A path that is no endpoint answers 404, and another method 405, which no description can list.
 */

interface ContractReply {
  method: string
  /** The path as it was sent, with its query. */
  path: string
  status: number
  contentType: string | null
  text: string
}

export interface Contract {
  document: Json
  /** Names what the description doesn't allow in a reply. */
  problems: (reply: ContractReply) => string[]
}

/** Tells a validator what `format` means. The package's types don't say that it is a function. */
export const addFormats = formats as unknown as (ajv: Ajv2020) => void

/** Makes the description's schemas strict, in place. */
export function contractOf(description: Json): Contract {
  const document = strict(description)
  // openapi.test.ts checks the description itself.
  const ajv = new Ajv2020({
    strict: false,
    allErrors: false,
    validateFormats: true,
    validateSchema: false,
    // This halves the time that the validators take; a test uses each a few times only.
    inlineRefs: false,
    code: { optimize: false },
  })
  addFormats(ajv)
  ajv.addSchema({ $id: 'openapi', ...document })
  const validators = new Map<string, ValidateFunction>()
  const validatorAt = (pointer: string): ValidateFunction => {
    const known = validators.get(pointer)
    if (known !== undefined) return known
    const made = ajv.compile({ $ref: `openapi#${pointer}` })
    validators.set(pointer, made)
    return made
  }
  const templates = Object.keys(document.paths).map((template) => ({
    template,
    pattern: patternOf(template),
  }))

  const problems = ({ method, path, status, contentType, text }: ContractReply): string[] => {
    const template = templateFor(templates, new URL(path, 'http://host').pathname)
    const operation = template === null ? undefined : document.paths[template][method.toLowerCase()]
    const mediaType = contentType?.split(';')[0]?.trim() ?? ''
    if (operation === undefined) {
      const expected = template === null ? [404] : method === 'HEAD' ? [200] : [405]
      // Replies that come before the endpoint is known, and what Node itself refuses.
      if (![...expected, 400, 401, 414, 429, 431, 503].includes(status))
        return [`${status} where ${expected.join()} is due: it is no endpoint`]
      if (method === 'HEAD') return []
      return describe(validatorAt('/components/schemas/Failure'), text)
    }
    const response = operation.responses[String(status)]
    if (response === undefined) return [`status ${status} is not documented`]
    if (response.content === undefined && text === '') return []
    if (response.content?.[mediaType] === undefined)
      return [`media type ${mediaType} of status ${status} is not documented`]
    const steps = ['paths', template!, method.toLowerCase(), 'responses', String(status)]
    const pointer = pointerTo([...steps, 'content', mediaType, 'schema'])
    if (mediaType === 'text/event-stream')
      return eventsOf(text).flatMap((event) => [
        ...problemsOf(validatorAt(pointer), event),
        ...describe(validatorAt(`${pointer}/properties/data/contentSchema`), String(event['data'])),
      ])
    return mediaType === 'application/json' ? describe(validatorAt(pointer), text) : []
  }
  return { document, problems }
}

/** Every object that lists its properties has no others. */
function strict(node: Json): Json {
  if (typeof node !== 'object' || node === null) return node
  for (const value of Object.values(node)) strict(value)
  const isOpen = node.type === 'object' && node.properties !== undefined
  if (isOpen && node.additionalProperties === undefined && node.unevaluatedProperties === undefined)
    node.unevaluatedProperties = false
  return node
}

function patternOf(template: string): RegExp {
  const parts = template.split(/\{\w+\}/).map((part) => part.replaceAll(/[.*+?^$()|[\]\\]/g, String.raw`\$&`))
  return new RegExp(`^${parts.join('[^/]+')}/?$`)
}

/** A fixed segment outranks a parameter at the same position. */
function templateFor(templates: { template: string; pattern: RegExp }[], pathname: string): string | null {
  if (pathname.split('/').some((segment) => !isDecodable(segment))) return null
  const fitting = templates.filter(({ pattern }) => pattern.test(pathname)).map(({ template }) => template)
  const parameters = (template: string) => template.split('{').length
  return fitting.sort((a, b) => parameters(a) - parameters(b))[0] ?? null
}

function isDecodable(segment: string): boolean {
  try {
    decodeURIComponent(segment)
    return true
  } catch {
    return false
  }
}

const pointerTo = (steps: string[]): string =>
  steps.map((step) => `/${encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))}`).join('')

function describe(validate: ValidateFunction, text: string): string[] {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return ['the body is no JSON']
  }
  return problemsOf(validate, body)
}

/** The events of a stream that has ended, by their fields; comments are none. */
function eventsOf(text: string): Record<string, unknown>[] {
  const events = text.split('\n\n').map((event) =>
    event
      .split('\n')
      .map((line) => /^(\w+): (.*)$/.exec(line))
      .filter((field) => field !== null)
      .map(([, name = '', value = '']) => [name, name === 'retry' ? Number(value) : value] as const),
  )
  return events.filter((fields) => fields.length > 0).map((fields) => Object.fromEntries(fields))
}

function problemsOf(validate: ValidateFunction, body: unknown): string[] {
  if (validate(body)) return []
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) =>
      `${instancePath || 'the reply'} ${message} ${JSON.stringify(params)}`,
  )
}
