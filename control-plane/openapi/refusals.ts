import { z } from 'zod'
import { RequestError } from '../api/request-error.ts'
import { parseJson } from '../api/body/json-text.ts'
import type { BodyDescription, Endpoint } from '../api/endpoint.ts'
import { noOrganization } from '../api/scope.ts'
import { foreignToken } from '../api/token-paging.ts'
import { documentIn, isHash, readBody, readQuery } from '../api/validation.ts'

/**
 * The refusals that an endpoint's description lists, with the values of their examples. Those that follow from schemas
 * are provoked in the code that makes them. The transport's refusals are added by openapi-responses.ts.
 */
export function documentedRefusals(described: Endpoint): RequestError[] {
  const { path, query, body, record, refusals = [] } = described
  const all = [
    ...(path.includes('/:organization_id') ? [noOrganization.example] : []),
    ...(query === undefined ? [] : queryRefusals(query)),
    ...(body === undefined ? [] : bodyRefusals(body)),
    ...[...(record?.refusals ?? []), ...refusals].map(({ example }) => example),
  ]
  return [...new Map(all.map((each) => [`${each.status} ${each.code} ${each.message}`, each])).values()]
}

function queryRefusals(query: z.ZodType): RequestError[] {
  const keys = query instanceof z.ZodObject ? Object.keys(query.shape) : []
  const [firstKey] = keys
  const repeated = firstKey === undefined ? [] : [caught(() => readQuery(query, { [firstKey]: ['', ''] }))]
  const two = keys.includes('page') ? [caught(() => readQuery(query, { page: '1', page_token: '?' }))] : []
  const faulty = keys.map((key) => caught(() => readQuery(query, { [key]: '?' })))
  const token = keys.includes('page_token') ? [foreignToken.example] : []
  return [...repeated, ...faulty, ...two, ...token].filter((refusal) => refusal !== null)
}

/** Provokes invalid JSON, a missing wrapper, missing fields, a value of the wrong type, and the faulty keys. */
function bodyRefusals(body: BodyDescription<unknown>): RequestError[] {
  const { wrapper, optional, isArray, examples, faulty = [] } = body
  const [example] = Object.values(examples)
  const wrapped = (document: unknown): unknown => (wrapper === null ? document : { [wrapper]: document })
  const inArray = (document: unknown): unknown => (isArray === true ? [document] : document)
  const whole = documentIn(wrapper, example)
  const good: unknown = isArray === true && Array.isArray(whole) ? whole[0] : whole
  const first = isHash(good) ? Object.keys(good)[0] : undefined
  const bad = [
    ...(optional === true ? [] : [undefined]),
    wrapped(isArray === true ? [5] : []),
    wrapped({}),
    ...(isHash(good)
      ? [...(first === undefined ? [] : [{ [first]: { $gt: '' } }]), ...faulty].map((keys) =>
          wrapped(inArray({ ...good, ...keys })),
        )
      : []),
  ]
  return [
    caught(() => parseJson(Buffer.from('{'))),
    ...bad.map((sent) => caught(() => readBody(body, sent))),
  ].filter((refusal) => refusal !== null)
}

/** Returns the refusal of `read`; null when it doesn't refuse. */
function caught(read: () => unknown): RequestError | null {
  try {
    read()
    return null
  } catch (error) {
    if (error instanceof RequestError) return error
    throw error
  }
}
