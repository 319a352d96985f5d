import { z } from 'zod'
import { isDuplicateKey } from '../../shared/runtime/database.ts'
import { RequestError, type RequestErrorCode } from '../../shared/contract/errors.ts'
import type { BodyDescription } from './endpoint.ts'

/**
 * Requests against their schemas. A message names the field and what is wrong with it, one sentence each, joined with
 * "; ", whatever zod would have said.
 */

/** A blank one of these would lead to the first page again, and a client that pages would never end. */
const pagingKeys = ['page', 'per_page', 'page_token']

/**
 * Reads a query; every problem is `invalid_request`. Repeated parameters never pass for a value; a blank filter is no
 * filter. Keys that the endpoint doesn't know are ignored, however often they come.
 */
export function readQuery<Query>(
  schema: z.ZodType<Query> | undefined,
  query: Record<string, unknown>,
): Query {
  if (schema === undefined) return undefined as Query
  const repeated = Object.keys(query).find((key) => Array.isArray(query[key]) && isKnownKey(schema, key))
  if (repeated !== undefined) throw new RequestError('invalid_request', `${repeated} must be given once`)
  const filled = Object.entries(query).filter(
    ([key, value]) => typeof value !== 'string' || value.trim() !== '' || pagingKeys.includes(key),
  )
  return parse(schema, Object.fromEntries(filled), 'invalid_request')
}

const maxNamedKeys = 10
const maxKeyLength = 50

/** The text of a `Warning` header that names the keys of a query that the endpoint ignores; null where it knows all. */
export function unknownKeysWarning(
  schema: z.ZodType | undefined,
  query: Record<string, unknown>,
): string | null {
  const unknown = Object.keys(query).filter((key) => !isKnownKey(schema, key))
  if (unknown.length === 0) return null
  const named = unknown
    .slice(0, maxNamedKeys)
    .map((key) => encodeURIComponent(key.toWellFormed().slice(0, maxKeyLength).toWellFormed()))
  const more = unknown.length > maxNamedKeys ? ` and ${unknown.length - maxNamedKeys} more` : ''
  return `299 - "ignored, as this endpoint has no such query parameter: ${named.join(', ')}${more}"`
}

const isKnownKey = (schema: z.ZodType | undefined, key: string): boolean =>
  schema instanceof z.ZodObject && Object.hasOwn(schema.shape, key)

/**
 * Takes the document out of its wrapper and checks it, without the keys that are to be ignored. Throws `invalid_request`
 * for a body without the wrapper, `validation_failed` for what the schema refuses.
 */
export function readBody<Body>(
  description: BodyDescription<Body>,
  body: unknown,
  ignored: readonly string[] = [],
): Body {
  const { wrapper, schema, optional, beside = [] } = description
  if (body === undefined && optional === true) return parse(schema, {}, 'validation_failed')
  if (!isHash(body))
    throw new RequestError(
      'invalid_request',
      `the body must be a JSON hash${wrapper === null ? '' : ` with the key ${wrapper}`}`,
    )
  const wrapped = wrapper === null ? body : body[wrapper]
  if (wrapper !== null && description.isArray === true) {
    if (!Array.isArray(wrapped)) throw new RequestError('invalid_request', `${wrapper} must be an array`)
    return parse(schema, wrapped, 'validation_failed', [wrapper])
  }
  if (!isHash(wrapped)) throw new RequestError('invalid_request', `${wrapper} must be a hash`)
  const others = beside.filter((key) => Object.hasOwn(body, key)).map((key) => [key, body[key]] as const)
  const given = (part: Hash) => (description.isUpdate === true ? part : withoutNullsIn(part))
  // In a creation a null inside is no key, so what stands beside counts.
  const document = { ...given(Object.fromEntries(others)), ...given(wrapped) }
  const heeded = Object.fromEntries(Object.entries(document).filter(([key]) => !ignored.includes(key)))
  const result = schema.safeParse(heeded, { reportInput: true, error: integerMessage })
  if (result.success) return result.data
  throw new FaultyBody(result.error.issues, withoutFaults(description, heeded, result.error))
}

/** A request is refused for something, a sentence each. The message has the first hundred and says how many more there are. */
class FaultyRequest extends RequestError {
  readonly problems: readonly string[]
  readonly omitted: number

  constructor(code: RequestErrorCode, problems: readonly string[], omitted = 0) {
    const told = problems.slice(0, maxProblems).map(shortened)
    const more = problems.length - told.length + omitted
    super(code, [...told, ...(more === 0 ? [] : [`and ${more} more problems`])].join('; '))
    this.problems = problems
    this.omitted = omitted
  }
}

const maxProblems = 100
const maxProblemLength = 500

/** A sentence without its middle: it begins with the name of a key, which may be long, and ends with what is wrong. */
function shortened(sentence: string): string {
  if (sentence.length <= maxProblemLength) return sentence
  return `${sentence.slice(0, maxProblemLength / 2)}...${sentence.slice(-maxProblemLength / 2)}`.toWellFormed()
}

/** What a schema finds wrong with a body; `sound` is the body without the faulty keys, see `Endpoint.examine`. */
export class FaultyBody extends FaultyRequest {
  readonly sound: SoundBody | null

  constructor(issues: readonly z.core.$ZodIssue[], sound: SoundBody | null) {
    super('validation_failed', sentencesOf(issues), omittedOf(issues))
    this.sound = sound
  }

  /** The error with what an examination of the sound body found, leaving out problems that name a faulty key. */
  with(found: RequestError): RequestError {
    const keys = this.sound!.faultyKeys
    const { problems, omitted } =
      found instanceof FaultyRequest ? found : { problems: [found.message], omitted: 0 }
    const keysIn = (text: string): string[] => text.match(/^\w+|\b[a-z]+_\w+/g) ?? []
    const others = problems.filter((text) => !keysIn(text).some((key) => keys.has(key)))
    return new FaultyRequest('validation_failed', [...this.problems, ...others], this.omitted + omitted)
  }
}

interface SoundBody {
  body: unknown
  faultyKeys: ReadonlySet<string>
}

function withoutFaults(
  { schema, wrapper, example }: BodyDescription<unknown>,
  document: Hash,
  { issues }: z.ZodError,
): SoundBody | null {
  const faultyKeys = new Set(issues.map(({ path }) => String(path[0])))
  const shown = wrapper === null || !isHash(example) ? example : example[wrapper]
  const sound = Object.entries(document).filter(([key]) => !faultyKeys.has(key))
  const required = isHash(shown) ? Object.entries(shown).filter(([key]) => faultyKeys.has(key)) : []
  for (const stand of [[], required]) {
    const { success, data } = schema.safeParse(Object.fromEntries([...sound, ...stand]))
    if (success) return { body: data, faultyKeys }
  }
  return null
}

/** What stands in the wrapper, whatever it is. */
export function documentIn(wrapper: string | null, body: unknown): unknown {
  return wrapper === null || !isHash(body) ? body : body[wrapper]
}

type Hash = Record<string, unknown>

export function isHash(value: unknown): value is Hash {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** An explicit null on creation is the same as leaving the key out, at every depth; in an array it is an element. */
function withoutNullsIn(hash: Hash, name = ''): Hash {
  // `{value: null}` says that a custom field has no value; without its key it would be any hash.
  const isFieldValue = (key: string): boolean => key === 'value' && !fieldsByName.has(name)
  return Object.fromEntries(
    Object.entries(hash)
      .filter(([key, entry]) => entry !== null || isFieldValue(key))
      .map(([key, entry]) => [key, isHash(entry) ? withoutNullsIn(entry, key) : entry]),
  )
}

/** Hashes whose keys are names of custom fields, one of which may be called "value". */
const fieldsByName = new Set(['custom_fields', 'for_all', 'for_new', 'for_active', 'for_reactivated'])

/** `at` is where the value stands. */
function parse<T>(
  schema: z.ZodType<T>,
  value: unknown,
  code: RequestErrorCode,
  at: readonly string[] = [],
): T {
  const result = schema.safeParse(value, { reportInput: true, error: integerMessage })
  if (result.success) return result.data
  const { issues } = result.error
  throw new FaultyRequest(code, sentencesOf(issues, at), omittedOf(issues))
}

/** Of the first problems alone: there may be a hundred thousand. */
const sentencesOf = (issues: readonly z.core.$ZodIssue[], at: readonly string[] = []): string[] =>
  issues.slice(0, maxProblems).map((issue) => sentenceOf({ ...issue, path: [...at, ...issue.path] }))

const omittedOf = ({ length }: readonly unknown[]): number => Math.max(0, length - maxProblems)

/** The keys that were given, null ones too. */
export const withoutUndefined = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Key in keyof Fields]?: Exclude<Fields[Key], undefined>
  }

const notAnInteger = 'must be an integer'

/** Zod expects just a number where an integer is due, as long as what came is none. */
const integerMessage: z.core.$ZodErrorMap = ({ code, inst }) => {
  const def = inst?._zod.def as { format?: unknown } | undefined
  return code === 'invalid_type' && def?.format === 'safeint' ? notAnInteger : undefined
}

/** Problems that a schema can't see, as the same kind of message. Throws when there are any. */
export function refuseProblems(
  problems: readonly string[],
  code: RequestErrorCode = 'validation_failed',
): void {
  if (problems.length > 0) throw new FaultyRequest(code, problems)
}

/** Writes what must be unique: what is taken already is refused with the message. */
export async function mapDuplicateKey<T>(message: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (isDuplicateKey(error)) throw new RequestError('validation_failed', message)
    throw error
  }
}

const typeNames: Record<string, string> = {
  string: 'a string',
  boolean: 'a boolean',
  number: 'a number',
  int: 'an integer',
  array: 'an array',
  object: 'a hash',
  record: 'a hash',
}

function sentenceOf(issue: z.core.$ZodIssue): string {
  const name = issue.path.length === 0 ? 'the document' : issue.path.map(String).join('.')
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return `${name} is required`
      if (issue.message === notAnInteger) return `${name} ${notAnInteger}`
      return `${name} must be ${typeNames[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      if (issue.input === undefined) return `${name} is required`
      return `${name} must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map((value) => JSON.stringify(value)).join(', ')}`
    case 'too_small':
      return `${name} must ${boundOf(issue.origin, 'at least', issue.minimum)}`
    case 'too_big':
      return `${name} must ${boundOf(issue.origin, 'at most', issue.maximum)}`
    default:
      return `${name} ${issue.message}`
  }
}

function boundOf(origin: string, comparison: string, bound: number | bigint): string {
  if (origin === 'string')
    return bound === 1 && comparison === 'at least'
      ? 'not be blank'
      : `have ${comparison} ${bound} characters`
  if (origin === 'array') return `have ${comparison} ${bound} entries`
  return `be ${comparison} ${bound}`
}
