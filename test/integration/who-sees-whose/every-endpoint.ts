import { isDeepStrictEqual } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { z } from 'zod'
import { endpoints } from '../../../control-plane/endpoints.ts'
import { makeWorld } from '../../helpers/conformance/world.ts'
import {
  basic,
  bootstrapKey,
  callerOf,
  startProcess,
  startService,
  type Answer,
  type Json,
} from '../../helpers/service.ts'
import { queriesFor, tokenSourceFor } from './queries.ts'
import { makeRecords, names, pairEmail, password, spares, type Records } from './records.ts'
import { rowsFor, type Case, type Row } from './rows.ts'

/**
 * Every kind of caller calls every endpoint, for records of its own organization and of a foreign one. The replies
 * name records of the right organization, and none of the other one.
 */

const service = await startService(t, ['control-plane', 'engine'])
const world = await makeWorld(service)
const [own, foreign] = await Promise.all([
  makeRecords(world, 'mark-amber'),
  makeRecords(world.foreign, 'mark-birch'),
])
const systemUser = await service.post('/users', {
  user: {
    full_name: 'System',
    email: 'system@example.com',
    active: true,
    role: 'system_admin',
    password1: password,
    password2: password,
  },
})
const rows = rowsFor(own, foreign, { key: 1, user: systemUser.id })
const queries = queriesFor(own, foreign)

/** A caller's rights: a role of an admin or of a partner, one permission, or none. */
interface Caller {
  who: string
  key: string
  right: string | null
}

/** Every permission of the contract. */
const permissions = `
  mailing_list/create mailing_list/update mailing_list/delete subscriber/create subscriber/update subscriber/delete
  subscriber/read subscriber/import subscriber/export segmentation_criteria/create segmentation_criteria/update
  segmentation_criteria/delete autoresponder/create autoresponder/update autoresponder/delete
  autoresponder/update_state autoresponder/read_stats web_form/create web_form/update web_form/delete
  custom_field/create custom_field/update custom_field/delete campaign/create campaign/update campaign/delete
  campaign/send campaign/update_state campaign/read_stats campaign/template/create campaign/template/update
  campaign/template/delete seed_list/create seed_list/update seed_list/delete`
  .trim()
  .split(/\s+/)

const holders = await Promise.all(
  permissions.map(async (permission): Promise<Caller> => {
    const at = permission.lastIndexOf('/')
    const key = await world.holderOf(permission.slice(0, at), permission.slice(at + 1))
    return { who: permission, key, right: permission }
  }),
)

async function succeeded(call: Promise<Answer>): Promise<void> {
  const { status, text, body } = await call
  if (body?.success !== true) throw new Error(`this should succeed: ${status} ${text}`)
}

/** A user of the organization, with a key. */
async function userWithKey(user: object): Promise<{ id: number; keyId: number; key: string }> {
  const { id } = await spares['user']!(world, own)
  await succeeded(service.call('PUT', `/users/${id}`, { user }))
  const { id: keyId, key } = await world.post('/api_keys', { api_key: { name: own.mark, user_id: id } })
  return { id, keyId, key }
}

const admin = { role: 'organization_admin' }
const reader = { permissions: { subscriber: ['read'] } }
const [adminUser, demoted, deprived, ofInactive, ofDeleted, inactive, deleted] = await Promise.all([
  userWithKey(admin),
  userWithKey(admin),
  userWithKey(reader),
  userWithKey(admin),
  userWithKey(admin),
  userWithKey(admin),
  userWithKey(admin),
])

const system: Caller = { who: 'a system admin', key: bootstrapKey, right: 'system admin' }
const ownAdmin: Caller = { who: 'an admin', key: world.admin, right: 'admin' }
const callers: Caller[] = [
  system,
  ownAdmin,
  { who: 'a user who is an admin', key: adminUser.key, right: 'admin' },
  { who: 'a standard key', key: world.keyWithoutPermissions, right: null },
  { who: 'a key of the role uploads', key: world.uploadsKey, right: 'role uploads' },
  { who: 'a user who was an admin', key: demoted.key, right: null },
  { who: 'a user who had a permission', key: deprived.key, right: null },
  ...holders,
]
const callerNamed = new Map([
  ...callers.map((caller) => [caller.who, caller] as const),
  [
    'an admin beside the system admins',
    { who: 'an admin of organization 1', key: await world.adminBesideSystem(), right: 'admin' },
  ],
])

/** A control plane may use a cached key for 5 s after another one has changed it. */
const beliefMs = 5_000
for (const { key } of [demoted, deprived, ofInactive, ofDeleted, inactive, deleted])
  await succeeded(service.call('GET', '/mailing_lists', undefined, { key }))
const beside = await startProcess('control-plane', service.settings)
t.teardown(() => beside.stop())
const callBeside = callerOf(() => beside.ready.http!)
const changes: [method: string, path: string, body?: unknown][] = [
  ['PUT', `/users/${demoted.id}`, { user: { role: 'standard' } }],
  ['PUT', `/users/${deprived.id}`, { user: { permissions: { subscriber: [] } } }],
  ['PUT', `/users/${ofInactive.id}`, { user: { active: false } }],
  ['DELETE', `/users/${ofDeleted.id}`],
  ['PUT', `/api_keys/${inactive.keyId}`, { api_key: { active: false } }],
  ['DELETE', `/api_keys/${deleted.keyId}`],
]
for (const [method, path, body] of changes) await succeeded(callBeside(method, path, body))
const changesApplyAt = Date.now() + beliefMs

const refusedCredentials: [who: string, authorization: string | null][] = [
  ['no key', null],
  ['a wrong key', basic('api:wrong_key_0123456789')],
  ['a key beside a foreign organization', basic(`${foreign.organization}:${world.admin}`)],
  ['an inactive key', basic(`api:${inactive.key}`)],
  ['a deleted key', basic(`api:${deleted.key}`)],
  ['a key of an inactive user', basic(`api:${ofInactive.key}`)],
  ['a key of a deleted user', basic(`api:${ofDeleted.key}`)],
]

type Ids = Partial<Record<keyof Records, unknown>>

function send(
  [method, path]: readonly string[],
  row: Row,
  ids: Ids,
  options: { key: string | null; headers?: Record<string, string>; query?: string; body?: unknown },
): Promise<Answer> {
  const kinds = [...(row.path ?? [])]
  const filled = path!.replaceAll(/:\w+/g, () => encodeURIComponent(String(ids[kinds.shift()!])))
  const { key, headers = {}, query = '', body = {} } = options
  const sent = method === 'POST' || method === 'PUT' ? body : undefined
  return service.call(method!, `${filled}${query}`, sent, { key, headers })
}

/** 404 where scripts see the status alone. */
const isNotFound = ({ status, body }: Answer): boolean =>
  [200, 404].includes(status) && body?.error_code === 'not_found'

const shown = ({ status, text }: Answer): string => `${status} ${text.slice(0, 200)}`

function isLetIn({ needs }: Row, { right }: Caller): boolean {
  if (right === 'system admin' || needs === 'every key') return true
  if (needs === 'any key') return right !== 'role uploads'
  if (needs === 'system admin' || right === null) return false
  return right === 'admin' || (needs !== 'admin' && needs.includes(right))
}

/** Refused for the content of the request, an empty body as a rule: the caller and the record have passed. */
const pastTheDoor = ['invalid_request', 'validation_failed']

function passed(method: string, { status, body }: Answer): boolean {
  if (status !== 200) return false
  return (
    body === undefined || body.success === true || (method !== 'GET' && pastTheDoor.includes(body.error_code))
  )
}

/**
 * Names what is wrong with a reply that should have these organizations' records and no others; null where nothing
 * is.
 */
function misplaced({ text, body }: Answer, expected: Records[]): string | null {
  for (const records of [own, foreign]) {
    const isDue = expected.includes(records)
    if (names(text, records) !== isDue)
      return `${isDue ? 'lacks' : 'shows'} ${records.mark}: ${text.slice(0, 300)}`
  }
  const count = body?.num_records
  if (typeof count === 'number' && Math.min(count, body.per_page) !== body.data.length)
    return `counts ${count} of ${body.data.length}`
  return null
}

/** The caller's own records, or those that the path names. */
async function faultOfCaller(endpoint: string[], row: Row, caller: Caller): Promise<string | null> {
  const [method] = endpoint
  const mayEnter = isLetIn(row, caller)
  const last = row.path?.at(-1)
  const ids: Ids = { ...own }
  if (method === 'DELETE' && mayEnter) ids[last!] = (await spares[last!]!(world, own)).id
  const answer = await send(endpoint, row, ids, { key: caller.key })
  if (!mayEnter)
    return answer.status === 403 && answer.body?.error_code === 'not_authorized'
      ? null
      : `${caller.who} is not refused: ${shown(answer)}`
  if (row.ownOnly === true && caller === system)
    return isNotFound(answer) ? null : `${caller.who} is not refused: ${shown(answer)}`
  if (!passed(method!, answer)) return `${caller.who} is refused: ${shown(answer)}`
  if (method !== 'GET' || row.namesNothing === true) return null
  const inOwn = caller !== system || row.path?.some((kind) => own[kind] !== foreign[kind]) === true
  const fault = misplaced(
    answer,
    row.systemSees === 'all' && caller === system ? [own, foreign] : inOwn ? [own] : [],
  )
  return fault === null ? null : `to ${caller.who} it ${fault}`
}

/** Paths with foreign ids: all of them, or one beside an own one. */
async function faultsOfForeignPaths(endpoint: string[], row: Row): Promise<(string | null)[]> {
  const kinds = (row.path ?? []).filter((kind) => own[kind] !== foreign[kind])
  const first = callers.find(
    (caller) => caller.right !== 'admin' && caller !== system && isLetIn(row, caller),
  )
  const tried = [first, ownAdmin, system].filter((caller) => caller !== undefined && isLetIn(row, caller))
  const choices = kinds.length === 2 ? [[kinds[0]!], [kinds[1]!], kinds] : kinds.length === 1 ? [kinds] : []
  const trials = tried.flatMap((caller) => choices.map((choice) => [caller!, choice] as const))
  return Promise.all(
    trials.map(async ([caller, choice]) => {
      const isWhole = choice.length === kinds.length
      if (caller === system && isWhole && endpoint[0] === 'DELETE') return null
      const ids: Ids = { ...own, ...Object.fromEntries(choice.map((kind) => [kind, foreign[kind]])) }
      const answer = await send(endpoint, row, ids, { key: caller.key })
      const what = `to ${caller.who}, with a foreign ${choice.join(' and ')}, it`
      if (caller === system && isWhole && row.ownOnly !== true) {
        if (!passed(endpoint[0]!, answer)) return `${what} is refused: ${shown(answer)}`
        const fault = endpoint[0] === 'GET' && row.namesNothing !== true ? misplaced(answer, [foreign]) : null
        return fault === null ? null : `${what} ${fault}`
      }
      return isNotFound(answer) ? null : `${what} is not refused: ${shown(answer)}`
    }),
  )
}

async function faultOfCase(endpoint: string[], row: Row, testCase: Case): Promise<string | null> {
  const { what, as = ownAdmin.who, path = {}, body, gets } = testCase
  const { key } = callerNamed.get(as)!
  const answer = await send(endpoint, row, { ...own, ...path }, { key, body })
  const { error_code: code, data } = answer.body ?? {}
  const isDue = typeof gets === 'string' ? code === gets : answer.body?.success === true && fits(data, gets)
  if (!isDue) return `${what}: ${shown(answer)}`
  return typeof gets !== 'string' && names(answer.text, foreign) ? `${what} shows ${foreign.mark}` : null
}

/** An array is as expected, and an object has at least these fields. */
const fits = (data: Json, expected: object): boolean =>
  Array.isArray(expected)
    ? isDeepStrictEqual(data, expected)
    : Object.entries(expected).every(([key, value]: [string, unknown]) =>
        typeof value === 'object' && value !== null
          ? fits(data[key], value)
          : isDeepStrictEqual(data[key], value),
      )

async function faultOfCredential(
  endpoint: string[],
  row: Row,
  [who, authorization]: [string, string | null],
): Promise<string | null> {
  const headers: Record<string, string> = authorization === null ? {} : { authorization }
  const answer = await send(endpoint, row, { ...own }, { key: null, headers })
  const isDue = answer.status === 401 && answer.body?.error_code === 'not_authorized'
  return isDue ? null : `${who} is not refused: ${shown(answer)}`
}

/** A value of a query key, with the reply that an admin gets: own records, or none. */
async function faultOfQuery(
  endpoint: string[],
  row: Row,
  query: string,
  isOwn: boolean,
): Promise<string | null> {
  const caller = row.needs === 'system admin' ? system : ownAdmin
  const answer = await send(endpoint, row, { ...own }, { key: caller.key, query })
  if (!passed('GET', answer)) return `${query} is refused: ${shown(answer)}`
  if (row.namesNothing === true) return names(answer.text, foreign) ? `${query} shows ${foreign.mark}` : null
  if (!isOwn && !isDeepStrictEqual(answer.body?.data, [])) return `${query} shows ${shown(answer)}`
  const expected = !isOwn ? [] : row.systemSees === 'all' && caller === system ? [own, foreign] : [own]
  const fault = misplaced(answer, expected)
  return fault === null ? null : `with ${query} it ${fault}`
}

/** The token of a foreign list's first page, for the own list. */
async function faultOfForeignToken(name: string, row: Row): Promise<string | null> {
  const given = tokenSourceFor(name)
  const pathOf = (records: Records): Ids =>
    given.isOfOneList === true
      ? { ...records, list: records.keyedList, sharedEmail: pairEmail }
      : { ...records }
  const source = given.of ?? name
  const { key } = given.isOfSystem === true ? system : { key: world.foreign.admin }
  const query = '?per_page=1'
  const first = await send(source.split(' '), rows[source]!, pathOf(foreign), { key, query })
  const token: unknown = first.body?.next_page_token
  if (typeof token !== 'string') return `the foreign list of ${source} has no token: ${shown(first)}`
  const caller = row.needs === 'system admin' ? system : ownAdmin
  const answer = await send(name.split(' '), row, pathOf(own), {
    key: caller.key,
    query: `?page_token=${encodeURIComponent(token)}`,
  })
  return answer.body?.error_code === 'invalid_request' ? null : `a foreign token gets ${shown(answer)}`
}

/** A token of the list without a filter, for the same list with one. */
async function faultsOfFilters(name: string, row: Row): Promise<string[]> {
  const filters = Object.entries(queries[name] ?? {}).filter(
    ([query]) => query !== 'page' && query !== 'per_page',
  )
  if (filters.length === 0) return []
  const { key } = row.needs === 'system admin' ? system : { key: world.foreign.admin }
  const show = (query: string) => send(name.split(' '), row, { ...foreign }, { key, query })
  const first = await show('?per_page=1')
  const token: unknown = first.body?.next_page_token
  // Autoresponders come whole.
  if (typeof token !== 'string')
    return tokenSourceFor(name).of === undefined ? [`no token: ${shown(first)}`] : []
  return present(
    await Promise.all(
      filters.map(async ([query, [[, value] = ['', '']]]) => {
        const text = `${query}=${encodeURIComponent(value)}`
        const answer = await show(`?${text}&page_token=${encodeURIComponent(token)}`)
        // The token's own organization is another one, which the caller can't access.
        const due = query === 'organization_id' ? 'not_found' : 'invalid_request'
        return answer.body?.error_code === due ? null : `with ${text}: ${shown(answer)}`
      }),
    ),
  )
}

const present = <T>(values: (T | null)[]): T[] => values.filter((value) => value !== null)

t.test('every endpoint has a row, and every row is of an endpoint', (t) => {
  const known = endpoints.map(({ method, path }) => `${method.toUpperCase()} ${path}`)
  t.same(Object.keys(rows).sort(), known.sort())
  t.end()
})

t.test('every query key of an endpoint has its values here', (t) => {
  for (const { method, path, query } of endpoints) {
    const name = `${method.toUpperCase()} ${path}`
    const shape: Record<string, z.ZodType> = query === undefined ? {} : (query as z.ZodObject).shape
    const keys = Object.keys(shape).filter((key) => shape[key]!.meta()?.['isRefused'] !== true)
    const tried = Object.keys(queries[name] ?? {})
    t.same(tried.toSorted(), keys.filter((key) => key !== 'page_token').sort(), name)
  }
  t.same(
    Object.keys(queries).filter((name) => rows[name] === undefined),
    [],
  )
  t.end()
})

t.test('a query shows nothing foreign, and a token of a foreign list is refused', async (t) => {
  for (const { method, path, query } of endpoints) {
    const name = `${method.toUpperCase()} ${path}`
    const row = rows[name]!
    for (const [key, values] of Object.entries(queries[name] ?? {}))
      for (const [shows, value] of values) {
        const text = `?${key}=${encodeURIComponent(value)}`
        t.equal(await faultOfQuery(name.split(' '), row, text, shows === 'own'), null, `${name}${text}`)
      }
    if (query !== undefined && 'page_token' in (query as z.ZodObject).shape)
      t.equal(await faultOfForeignToken(name, row), null, `${name}: a foreign token`)
  }
})

t.test('a token is bound to the filter of its list', async (t) => {
  for (const { method, path, query } of endpoints) {
    const name = `${method.toUpperCase()} ${path}`
    if (query !== undefined && 'page_token' in (query as z.ZodObject).shape)
      t.same(await faultsOfFilters(name, rows[name]!), [], name)
  }
})

/** This runs before the control plane changes any key or user itself, which would clear its cache. */
t.test('what another control plane revoked is so here after 5 s', async (t) => {
  await sleep(Math.max(0, changesApplyAt - Date.now()))
  const name = 'GET /subscriber_imports'
  const [endpoint, row] = [name.split(' '), rows[name]!]
  for (const credential of refusedCredentials)
    t.equal(await faultOfCredential(endpoint, row, credential), null)
  for (const caller of callers) t.equal(await faultOfCaller(endpoint, row, caller), null)
})

t.test('an own path with foreign ids in the body or the query reaches nothing foreign', async (t) => {
  for (const [name, row] of Object.entries(rows))
    for (const testCase of row.cases ?? [])
      t.equal(await faultOfCase(name.split(' '), row, testCase), null, `${name}: ${testCase.what}`)
})

for (const [name, row] of Object.entries(rows))
  t.test(name, async (t) => {
    const endpoint = name.split(' ')
    const faults = [
      ...(await Promise.all(
        refusedCredentials.map((credential) => faultOfCredential(endpoint, row, credential)),
      )),
      ...(await faultsOfForeignPaths(endpoint, row)),
    ]
    for (let i = 0; i < callers.length; i += 8)
      faults.push(
        ...(await Promise.all(callers.slice(i, i + 8).map((caller) => faultOfCaller(endpoint, row, caller)))),
      )
    t.same(present(faults), [])
  })

/** The rows before need these subscribers. */
t.test('by an address that both organizations have, a write reaches the own subscriber only', async (t) => {
  const { subscribers, reactions } = service.collections
  const ofForeign = { mailing_list_id: { $in: [foreign.list, foreign.keyedList] } }
  const stored = async () => ({
    subscribers: await subscribers.find(ofForeign).sort({ _id: 1 }).toArray(),
    reactions: await reactions.countDocuments(ofForeign),
  })
  const before = await stored()
  t.equal(before.subscribers.filter(({ email }) => email === own.sharedEmail).length, 2)
  for (const list of [own.list, own.keyedList]) {
    const path = `/mailing_lists/${list}/subscribers/${own.sharedEmail}`
    const writes: [method: string, path: string, body?: unknown][] = [
      ['PUT', path, { subscriber: { subscribe_ip: '192.0.2.7' } }],
      ['PUT', path, { subscriber: { status: 'active' }, run_autoresponders: true }],
      ['POST', `${path}/trigger_autoresponders`, { autoresponder_names: ['*'] }],
      ['DELETE', path],
    ]
    for (const [method, url, body] of writes) {
      const { text, body: reply } = await service.call(method, url, body, { key: world.admin })
      t.equal(reply?.success, true, `${method} ${url}: ${text}`)
      t.same(await stored(), before, `${method} ${url}`)
    }
  }
})
