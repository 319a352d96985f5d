import { z } from 'zod'
import { isDuplicateKey } from '../../shared/runtime/driver-errors.ts'
import { RequestError, type RequestErrorCode } from './request-error.ts'
import type { BodyDescription, Endpoint } from './endpoint.ts'

/**
 * Validates requests against their schemas. The messages are this service's own, not zod's: one sentence for each
 * fault, which names the field, joined with "; ".
 */

/**
 * Reads a query; every fault is `invalid_request`. A repeated parameter is refused, and a blank one counts as none. Keys
 * that the endpoint doesn't know are ignored, even repeated ones.
 */
export function readQuery(schema: z.ZodType | undefined, query: Record<string, unknown>): unknown {
  if (schema === undefined) return undefined
  const repeated = Object.keys(query).find((key) => Array.isArray(query[key]) && isKnownKey(schema, key))
  if (repeated !== undefined) throw new RequestError('invalid_request', `${repeated} must be given once`)
  const given = Object.entries(query).filter(([, value]) => typeof value !== 'string' || value.trim() !== '')
  return parse(schema, Object.fromEntries(given), 'invalid_request')
}

const maxNamedKeys = 10
const maxNamedKeyLength = 50

/** Values of the `Warning` header, which name what the endpoint ignores of a query and of a body. */
export function unknownKeysWarnings(
  { query: schema, body: description, reply }: Pick<Endpoint, 'query' | 'body' | 'reply'>,
  query: Record<string, unknown>,
  body: unknown,
): string[] {
  const parameters = Object.keys(query).filter((key) => !isKnownKey(schema, key))
  const view = 'data' in reply ? withoutWrapping(reply.data) : undefined
  const keys =
    description === undefined ? [] : unknownKeys(description, body).filter((key) => !isKnownKey(view, key))
  const warn = (what: string, names: string[]) =>
    names.length === 0 ? [] : [`299 - "ignored, as this endpoint has no such ${what}: ${nameKeys(names)}"`]
  return [...warn('query parameter', parameters.map(encodedKey)), ...warn('key of the body', keys)]
}

const encodedKey = (key: string): string =>
  encodeURIComponent(key.toWellFormed().slice(0, maxNamedKeyLength).toWellFormed())

/** The first of the keys, and the number of the others. */
export function nameKeys(keys: readonly string[]): string {
  const more = keys.length > maxNamedKeys ? ` and ${keys.length - maxNamedKeys} more` : ''
  return `${keys.slice(0, maxNamedKeys).join(', ')}${more}`
}

/** Paths of the keys of a body that its description doesn't have, such as `file_format.seperator`. */
export function unknownKeys(
  { wrapper, schema, beside = [] }: BodyDescription<unknown>,
  body: unknown,
): string[] {
  if (!isHash(body)) return []
  if (wrapper === null) return unknownKeysIn(schema, body)
  // A body without its wrapper is refused as a whole, so that nothing of it is ignored.
  if (![wrapper, ...beside].some((key) => Object.hasOwn(body, key))) return []
  const outside = Object.keys(body).filter((key) => key !== wrapper && !beside.includes(key))
  return [
    ...unknownKeysIn(schema, body[wrapper], Array.isArray(body[wrapper]) ? `${wrapper}.` : ''),
    ...outside.map((key) => `${encodedKey(key)} beside ${wrapper}`),
  ]
}

function unknownKeysIn(wrapped: z.core.$ZodType, value: unknown, at = ''): string[] {
  const schema = withoutWrapping(wrapped)
  if (Array.isArray(value) && schema instanceof z.ZodArray)
    return value.flatMap((entry, i) => unknownKeysIn(schema.element, entry, `${at}${i}.`))
  if (!isHash(value)) return []
  if (schema instanceof z.ZodDiscriminatedUnion) {
    const kind = schema.options.find(
      (option) =>
        option instanceof z.ZodObject &&
        z.safeParse(
          option.shape[schema.def.discriminator] as z.core.$ZodType,
          value[schema.def.discriminator],
        ).success,
    )
    return kind === undefined ? [] : unknownKeysIn(kind, value, at)
  }
  if (!(schema instanceof z.ZodObject)) return []
  return Object.entries(value).flatMap(([key, entry]) =>
    isKnownKey(schema, key)
      ? unknownKeysIn(schema.shape[key] as z.core.$ZodType, entry, `${at}${key}.`)
      : [`${at}${encodedKey(key)}`],
  )
}

/** The schema inside of defaults, null and transformations. */
function withoutWrapping(schema: z.core.$ZodType): z.core.$ZodType {
  const { innerType, in: input } = schema._zod.def as { innerType?: z.core.$ZodType; in?: z.core.$ZodType }
  const inner = innerType ?? input
  return inner === undefined ? schema : withoutWrapping(inner)
}

const isKnownKey = (schema: z.core.$ZodType | undefined, key: string): boolean =>
  schema instanceof z.ZodObject && Object.hasOwn(schema.shape, key)

/**
 * Takes the document out of its wrapper and checks it without the ignored keys. Throws `invalid_request` for a body
 * without the wrapper, and `validation_failed` for faults that the schema finds.
 */
export function readBody<Body>(
  description: BodyDescription<Body>,
  body: unknown,
  ignored: readonly string[] = [],
): Body {
  const { wrapper, schema, optional, beside = [] } = description
  if (body === undefined && optional === true) return parse(schema, {}, 'validation_failed')
  if (!isHash(body)) throw missingWrapper(description)
  const others = beside.filter((key) => Object.hasOwn(body, key)).map((key) => [key, body[key]] as const)
  const isBare = description.isWrapperOptional === true && others.length > 0
  const wrapped = wrapper === null ? body : (body[wrapper] ?? (isBare ? {} : undefined))
  if (wrapper !== null && description.isArray === true) {
    if (!Array.isArray(wrapped)) throw missingWrapper(description)
    return parse(schema, wrapped, 'validation_failed', [wrapper])
  }
  if (!isHash(wrapped)) throw missingWrapper(description)
  const normalized = (part: Hash) => {
    const given = withHashesIn(schema, part)
    return description.isUpdate === true ? given : withoutNullsIn(given)
  }
  // In a creation a null in the wrapper is the same as no key, so the value beside the wrapper counts.
  const document = { ...normalized(Object.fromEntries(others)), ...normalized(wrapped) }
  const relevant = Object.fromEntries(Object.entries(document).filter(([key]) => !ignored.includes(key)))
  return parse(schema, relevant, 'validation_failed')
}

const missingWrapper = ({ wrapper, isArray }: BodyDescription<unknown>): RequestError =>
  new RequestError(
    'invalid_request',
    `the body must be ${wrapper === null ? 'a JSON hash' : `{"${wrapper}": ${isArray === true ? '[...]' : '{...}'}}`}`,
  )

/** A refusal with a sentence for each fault. The message has the first hundred, and the number of the others. */
function refuseAllOf(code: RequestErrorCode, problems: readonly string[], count: number): RequestError {
  const shown = problems.slice(0, maxProblems).map(shortened)
  const more = count - shown.length
  return new RequestError(code, [...shown, ...(more === 0 ? [] : [`and ${more} more problems`])].join('; '))
}

const maxProblems = 100
const maxProblemLength = 500

/** Cuts the middle out of a long sentence: it begins with a key, which may be long, and ends with what is wrong. */
function shortened(sentence: string): string {
  if (sentence.length <= maxProblemLength) return sentence
  return `${sentence.slice(0, maxProblemLength / 2)}...${sentence.slice(-maxProblemLength / 2)}`.toWellFormed()
}

/** Returns the wrapper's value unchecked. */
export function documentIn(wrapper: string | null, body: unknown): unknown {
  return wrapper === null || !isHash(body) ? body : body[wrapper]
}

type Hash = Record<string, unknown>

export function isHash(value: unknown): value is Hash {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Where the schema has a hash, a null is no hash given, in updates too, and `[]` is an empty one: clients in PHP send both
 * for a hash without keys.
 */
function withHashesIn(schema: z.core.$ZodType, hash: Hash): Hash {
  const fieldOf = (key: string) =>
    schema instanceof z.ZodObject && isKnownKey(schema, key)
      ? withoutWrapping(schema.shape[key] as z.core.$ZodType)
      : undefined
  return Object.fromEntries(
    Object.entries(hash).flatMap(([key, entry]) => {
      const field = fieldOf(key)
      if (field === undefined || !isHashSchema(field)) return [[key, entry]]
      if (entry === null) return []
      const given = Array.isArray(entry) && entry.length === 0 ? {} : entry
      return [[key, isHash(given) ? withHashesIn(field, given) : given]]
    }),
  )
}

const isHashSchema = (schema: z.core.$ZodType): boolean =>
  schema instanceof z.ZodObject || schema instanceof z.ZodRecord || schema instanceof z.ZodCustom

/** Removes nulls at every depth, because in a creation null is the same as no key. In an array null is an element. */
function withoutNullsIn(hash: Hash, name = ''): Hash {
  // `{value: null}` means that a custom field has no value; without its key it would be an empty hash.
  const isFieldValue = (key: string): boolean => key === 'value' && !fieldsByName.has(name)
  return Object.fromEntries(
    Object.entries(hash)
      .filter(([key, entry]) => entry !== null || isFieldValue(key))
      .map(([key, entry]) => [key, isHash(entry) ? withoutNullsIn(entry, key) : entry]),
  )
}

/** Keys of hashes that have the names of custom fields as keys. A custom field may be named "value". */
const fieldsByName = new Set(['custom_fields', 'for_all', 'for_new', 'for_active', 'for_reactivated'])

/** `at` is the value's path in the body. */
function parse<T>(
  schema: z.ZodType<T>,
  value: unknown,
  code: RequestErrorCode,
  at: readonly string[] = [],
): T {
  const result = schema.safeParse(value, { reportInput: true, error: integerMessage })
  if (result.success) return result.data
  const { issues } = result.error
  // Only the first problems become sentences, because there may be a hundred thousand.
  const sentences = issues
    .slice(0, maxProblems)
    .map((issue) => toSentence({ ...issue, path: [...at, ...issue.path] }))
  throw refuseAllOf(code, sentences, issues.length)
}

/** Drops undefined values; nulls stay. */
export const withoutUndefined = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Key in keyof Fields]?: Exclude<Fields[Key], undefined>
  }

const notAnInteger = 'must be an integer'

/** For a value that isn't a number, zod's own message asks for any number, even where only an integer is valid. */
const integerMessage: z.core.$ZodErrorMap = ({ code, inst }) => {
  const def = inst?._zod.def
  const isInteger = def !== undefined && 'format' in def && def.format === 'safeint'
  return code === 'invalid_type' && isInteger ? notAnInteger : undefined
}

/** Throws the refusals, if there are any, as one: their sentences with the code of the first. */
export function refuseAll(refusals: readonly RequestError[]): void {
  const [first] = refusals
  if (first !== undefined)
    throw refuseAllOf(
      first.code,
      refusals.map(({ message }) => message),
      refusals.length,
    )
}

/** Turns a duplicate key error of `write` into the refusal. */
export async function mapDuplicateKey<T>(taken: RequestError, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    throw isDuplicateKey(error) ? taken : error
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

function toSentence(issue: z.core.$ZodIssue): string {
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
      return `${name} must ${describeBound(issue.origin, 'at least', issue.minimum)}`
    case 'too_big':
      return `${name} must ${describeBound(issue.origin, 'at most', issue.maximum)}`
    default:
      return `${name} ${issue.message}`
  }
}

function describeBound(origin: string, comparison: string, bound: number | bigint): string {
  if (origin === 'string')
    return bound === 1 && comparison === 'at least'
      ? 'not be blank'
      : `have ${comparison} ${bound} characters`
  if (origin === 'array') return `have ${comparison} ${bound} entries`
  return `be ${comparison} ${bound}`
}
