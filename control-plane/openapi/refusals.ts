import { z } from 'zod'
import { RequestError, requestErrorCodes, type RequestErrorCode } from '../api/request-error.ts'
import { parseJson } from '../api/body/json-text.ts'
import type { BodyDescription, Endpoint } from '../api/endpoint.ts'
import { missing } from '../api/scope.ts'
import { documentIn, isHash, readBody, readQuery } from '../api/validation.ts'

/**
 * The refusals with status 200 that an endpoint's description lists. Refusals that endpoints have in common are
 * provoked in the code that makes them, so that the texts are exact. Those of a handler are declared beside it.
 */
export interface Refusal {
  code: RequestErrorCode
  message: string
}

export function documentedRefusals(described: Endpoint): Refusal[] {
  const { path, query, body, refusals = {} } = described
  const declared = requestErrorCodes.flatMap((code) => {
    const messages = refusals[code] ?? []
    return (typeof messages === 'string' ? [messages] : messages).map((message) => ({ code, message }))
  })
  const all = [
    ...pathRefusals(path),
    ...(query === undefined ? [] : queryRefusals(query)),
    ...(body === undefined ? [] : bodyRefusals(body)),
    ...declared,
  ]
  return all.filter(
    ({ code, message }, i) =>
      all.findIndex((other) => other.code === code && other.message === message) === i,
  )
}

/** Refusals for parameters with a name of their own. Those for `:id` are declared by the endpoint. */
function pathRefusals(path: string): Refusal[] {
  const names = [...path.matchAll(/:(\w+)_id\b/g)].map(([, name = '']) => name.replaceAll('_', ' '))
  return names.map((name) => toRefusal(missing(name, 4711)))
}

function queryRefusals(query: z.ZodType): Refusal[] {
  const keys = query instanceof z.ZodObject ? Object.keys(query.shape) : []
  const [firstKey] = keys
  const repeated = firstKey === undefined ? [] : [caught(() => readQuery(query, { [firstKey]: ['', ''] }))]
  return [...repeated, ...keys.map((key) => caught(() => readQuery(query, { [key]: '?' })))].filter(
    (refusal) => refusal !== null,
  )
}

/** Provokes invalid JSON, a missing wrapper, missing fields, and a value of the wrong type. */
function bodyRefusals(body: BodyDescription<unknown>): Refusal[] {
  const { wrapper, optional, example } = body
  const wrapped = (document: unknown): unknown => (wrapper === null ? document : { [wrapper]: document })
  const good = documentIn(wrapper, example)
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
  ].filter((refusal) => refusal !== null)
}

const toRefusal = ({ code, message }: RequestError): Refusal => ({ code, message })

/** Returns the refusal of `read`; null when it doesn't refuse. */
function caught(read: () => unknown): Refusal | null {
  try {
    read()
    return null
  } catch (error) {
    if (error instanceof RequestError) return toRefusal(error)
    throw error
  }
}
