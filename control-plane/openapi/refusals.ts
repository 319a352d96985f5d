import { z } from 'zod'
import { RequestError, type RequestErrorCode } from '../../shared/contract/errors.ts'
import { parseJson } from '../api/body/json-text.ts'
import type { BodyDescription, Endpoint } from '../api/endpoint.ts'
import { missing } from '../api/scope.ts'
import { isHash, readBody, readQuery } from '../api/validation.ts'

/**
 * The refusals with status 200 that an endpoint's description lists. What all endpoints of a kind say is taken from
 * the very code that says it, by making it refuse; what a handler finds out is written beside the handler.
 */
export interface Refusal {
  code: RequestErrorCode
  message: string
}

export function documentedRefusals(described: Endpoint): Refusal[] {
  const { path, query, body, refusals = {} } = described
  const own = Object.entries(refusals).flatMap(([code, messages]) =>
    (typeof messages === 'string' ? [messages] : messages).map((message) => ({
      code: code as RequestErrorCode,
      message,
    })),
  )
  const all = [
    ...ofPath(path),
    ...(query === undefined ? [] : ofQuery(query)),
    ...(body === undefined ? [] : ofBody(body)),
    ...own,
  ]
  return all.filter(
    ({ code, message }, i) =>
      all.findIndex((other) => other.code === code && other.message === message) === i,
  )
}

/** What the parameters with a name of their own name; what `:id` names is for the endpoint to say. */
function ofPath(path: string): Refusal[] {
  const names = [...path.matchAll(/:(\w+)_id\b/g)].map((match) => match[1]!.replaceAll('_', ' '))
  return names.map((name) => refusalOf(missing(name, 4711)))
}

function ofQuery(query: z.ZodType): Refusal[] {
  const keys = query instanceof z.ZodObject ? Object.keys(query.shape) : []
  const repeated = keys[0] === undefined ? [] : [caught(() => readQuery(query, { [keys[0]!]: ['', ''] }))]
  return [...repeated, ...keys.map((key) => caught(() => readQuery(query, { [key]: '?' })))].filter(isRefusal)
}

/** No JSON, no wrapper, required fields missing, and a field with a value of the wrong type. */
function ofBody(body: BodyDescription<unknown>): Refusal[] {
  const { wrapper, optional, example } = body
  const wrapped = (document: unknown): unknown => (wrapper === null ? document : { [wrapper]: document })
  const good = wrapper === null || !isHash(example) ? example : example[wrapper]
  const first = isHash(good) ? Object.keys(good)[0] : undefined
  const bad = [
    ...(optional === true ? [] : [undefined]),
    wrapped([]),
    wrapped({}),
    ...(isHash(good) && first !== undefined ? [wrapped({ ...good, [first]: { $gt: '' } })] : []),
  ]
  return [
    caught(() => parseJson(Buffer.from('{'))),
    ...bad.map((sent) => caught(() => readBody(body, sent))),
  ].filter(isRefusal)
}

const isRefusal = (refusal: Refusal | null): refusal is Refusal => refusal !== null

const refusalOf = ({ code, message }: RequestError): Refusal => ({ code, message })

/** What `read` refuses with; null when it doesn't. */
function caught(read: () => unknown): Refusal | null {
  try {
    read()
    return null
  } catch (error) {
    if (error instanceof RequestError) return refusalOf(error)
    throw error
  }
}
