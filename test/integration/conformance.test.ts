import t, { type Test } from 'tap'
import type { Endpoint } from '../../control-plane/api/endpoint.ts'
import { endpoints } from '../../control-plane/endpoints.ts'
import { conformanceRows } from '../helpers/conformance-rows.ts'
import type { Row, Sent } from '../helpers/conformance/row.ts'
import { makeWorld, type World } from '../helpers/conformance/world.ts'
import { changedAt, requiredKeysOf, wrongValuesOf } from '../helpers/conformance/wrong-values.ts'
import { startService, type Answer, type Json } from '../helpers/service.ts'

/**
 * Every endpoint against everything that is documented of it. What is said of all endpoints alike is derived from
 * their descriptions, the rest is in test/helpers/conformance-rows.ts; every reply is held against the description.
 */

const service = await startService(t, ['control-plane', 'engine'])
const world = await makeWorld(service)
const document: Json = await (
  await fetch(`${service.processes['control-plane']!.ready.http}/openapi.json`)
).json()

t.test('every endpoint has a row, and every row an endpoint', async (t) => {
  const described = endpoints.map(({ operationId }) => operationId)
  t.same(Object.keys(conformanceRows).sort(), described.sort())
})

for (const described of endpoints) {
  const row = conformanceRows[described.operationId]
  if (row === undefined) continue
  t.test(`${described.method.toUpperCase()} ${described.path}`, async (t) => {
    const subject = new Subject(described, row, world)
    await t.test('succeeds, for whoever has just enough rights', (t) => succeeds(t, subject))
    await t.test('asks for a credential', (t) => asksForCredential(t, subject))
    await t.test('is nobody’s who may less', (t) => refusesLesserRoles(t, subject))
    await t.test('knows its methods', (t) => knowsItsMethods(t, subject))
    await t.test('finds nothing by an id that names nothing, or is none', (t) => findsNothing(t, subject))
    await t.test('is not there for another organization', (t) => hidesFromStrangers(t, subject))
    if (described.body !== undefined)
      await t.test('reads its body as documented, field by field', (t) => readsItsBody(t, subject))
    if (described.query !== undefined)
      await t.test('reads its query as documented', (t) => readsItsQuery(t, subject))
    for (const [title, make] of Object.entries(row.failures ?? {}))
      await t.test(`refuses ${title}`, async (t) => {
        const { sent, code, message, status } = await make(world)
        refused(t, await subject.send(sent), code, title, status)
        if (message !== undefined) t.match((await subject.send(sent)).body.error_message, message)
      })
  })
}

/** An endpoint with its row and its part of the description. */
class Subject {
  readonly described: Endpoint
  readonly row: Row
  readonly world: World
  readonly operation: Json

  constructor(described: Endpoint, row: Row, world: World) {
    this.described = described
    this.row = row
    this.world = world
    const path = `/svc/api/v2${described.path.replaceAll(/:(\w+)/g, '{$1}')}`
    this.operation = document.paths[path][described.method]
  }

  get params(): string[] {
    return [...this.described.path.matchAll(/:(\w+)/g)].map((match) => match[1]!)
  }

  good(): Promise<Sent> {
    return Promise.resolve(this.row.good(this.world))
  }

  /** The key of whoever may do just this. */
  async leastKey(): Promise<string> {
    const { needs } = this.described
    if (typeof needs !== 'string') return this.world.holderOf(...needs.permission)
    return { any_key: this.world.nobody, admin: this.world.admin, system_admin: this.world.system }[needs]
  }

  async send(sent: Sent, options: { key?: string; method?: string } = {}): Promise<Answer> {
    const path = this.described.path.replaceAll(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(String(sent.params?.[name] ?? '1')).replaceAll('%2C', ','),
    )
    const key = options.key ?? sent.key ?? (await this.leastKey())
    const method = options.method ?? this.described.method.toUpperCase()
    const { headers = {} } = sent
    return this.world.service.call(method, `${path}${sent.query ?? ''}`, sent.body, { key, headers })
  }

  /** A body whose document is changed at one place. */
  bodyWith(body: unknown, path: string[], value: unknown): unknown {
    const { wrapper } = this.described.body!
    return changedAt(body, wrapper === null ? path : [wrapper, ...path], value)
  }
}

function refused(t: Test, answer: Answer, code: string, what: string, status = 200): void {
  t.equal(answer.status, status, `${what}: ${answer.text.slice(0, 300)}`)
  t.match(answer.body, { success: false, data: null, error_code: code, error_message: /\w/ }, what)
}

function succeeded(t: Test, answer: Answer, what: string): void {
  t.equal(answer.status, 200, `${what}: ${answer.text.slice(0, 300)}`)
  if (answer.body !== undefined) t.equal(answer.body.success, true, `${what}: ${answer.text.slice(0, 300)}`)
}

async function succeeds(t: Test, subject: Subject): Promise<void> {
  succeeded(t, await subject.send(await subject.good()), 'with the least key')
  succeeded(t, await subject.send(await subject.good(), { key: world.system }), 'as a system admin')
  const { body } = subject.described
  const good = await subject.good()
  if (body === undefined || good.body === undefined) return
  const more = subject.bodyWith(good.body, ['a_key_that_is_none'], { $set: { role: 'system_admin' } })
  const again = await subject.good()
  succeeded(t, await subject.send({ ...again, body: mixed(more, again.body) }), 'with an unknown key')
}

/** The new request's own values, with what was added. */
function mixed(more: Json, body: Json): Json {
  return typeof body === 'object' && body !== null && !Array.isArray(body)
    ? Object.fromEntries(
        [...new Set([...Object.keys(more), ...Object.keys(body)])].map((key) => [
          key,
          mixed(more[key], body[key] ?? more[key]),
        ]),
      )
    : body
}

async function asksForCredential(t: Test, subject: Subject): Promise<void> {
  for (const authorization of ['', 'Basic bm9ib2R5Om5vdGhpbmc=', 'Bearer x']) {
    const answer = await subject.send({ headers: { authorization }, body: subject.described.body && {} })
    refused(t, answer, 'not_authorized', JSON.stringify(authorization), 401)
    t.equal(answer.headers.get('www-authenticate'), 'Basic realm="svc"')
  }
}

/** The role comes before the record and the body: what is sent is wrong in both. */
async function refusesLesserRoles(t: Test, subject: Subject): Promise<void> {
  const { needs, body } = subject.described
  const wrong: Sent = body === undefined ? {} : { body: '{', headers: { 'content-type': 'text/plain' } }
  const lesser =
    needs === 'any_key' ? [] : needs === 'system_admin' ? [world.nobody, world.admin] : [world.nobody]
  for (const key of lesser)
    refused(t, await subject.send(wrong, { key }), 'not_authorized', JSON.stringify(needs), 403)
}

async function knowsItsMethods(t: Test, subject: Subject): Promise<void> {
  const answer = await subject.send({}, { method: 'PATCH' })
  refused(t, answer, 'invalid_request', 'PATCH', 405)
  const allowed = answer.headers.get('allow')?.split(', ') ?? []
  t.ok(allowed.includes(subject.described.method.toUpperCase()), `Allow: ${allowed.join()}`)
}

const idsThatNameNothing = [
  '999999999',
  'abc',
  '0',
  '-1',
  '1e3',
  '1.5',
  '+1',
  '01',
  ' 1',
  '9'.repeat(30),
  '$gt',
  '__proto__',
]

async function findsNothing(t: Test, subject: Subject): Promise<void> {
  const good = await subject.good()
  for (const name of subject.params) {
    const others =
      subject.row.otherParams?.[name] ?? idsThatNameNothing.map((value) => ({ value, code: 'not_found' }))
    for (const { value, code } of others) {
      const answer = await subject.send({ ...good, params: { ...good.params, [name]: value } })
      if (code === null) succeeded(t, answer, `${name} ${value}`)
      else refused(t, answer, code, `${name} ${value}`)
    }
  }
}

async function hidesFromStrangers(t: Test, subject: Subject): Promise<void> {
  const { needs } = subject.described
  if (subject.params.length === 0 || needs === 'system_admin') return
  const answer = await subject.send(await subject.good(), { key: world.foreigner })
  if (subject.row.strangerSeesNothing === true) {
    succeeded(t, answer, 'a stranger')
    t.same(answer.body.data, [])
    return
  }
  refused(t, answer, 'not_found', 'a stranger')
  const missing = Object.fromEntries(subject.params.map((name) => [name, '999999999']))
  const { body } = (await subject.send(
    { ...(await subject.good()), params: missing },
    { key: world.foreigner },
  )) as Json
  t.equal(body.error_code, 'not_found', 'and a record that is not there looks the same')
}

async function readsItsBody(t: Test, subject: Subject): Promise<void> {
  const { wrapper, schema: _, optional, isUpdate } = subject.described.body!
  const good = await subject.good()
  const send = (body: unknown, headers: Record<string, string> = {}) =>
    subject.send({ ...good, headers: { ...good.headers, ...headers }, body })

  for (const text of ['{', '', 'null', '[]', '"x"', '5', '{"a":1}{', '{"a":1,}', "{'a':1}", '\u{feff}{}x'])
    if (text !== '' || optional !== true)
      refused(t, await send(text === '' ? new Uint8Array() : text), 'invalid_request', JSON.stringify(text))
  const typed = await send('{}', { 'content-type': 'text/plain' })
  refused(t, typed, 'invalid_request', 'text/plain', 415)
  const large = await send(`{"a":"${'x'.repeat(1_100_000)}"}`)
  refused(t, large, 'invalid_request', 'over 1 MB', 413)
  if (wrapper !== null)
    for (const body of [{}, { [wrapper]: null }, { [wrapper]: [] }, { [wrapper]: 'x' }, { other: {} }])
      refused(t, await send(body), 'invalid_request', JSON.stringify(body))

  const whole = subject.operation.requestBody.content['application/json'].schema
  const schema = wrapper === null ? whole : whole.properties[wrapper]
  const lenient = new Set(subject.row.lenientFields ?? [])
  for (const { path, value } of wrongValuesOf(document, schema)) {
    const name = path.join('.')
    if (lenient.has(name)) continue
    const answer = await send(subject.bodyWith(good.body, path, value))
    const what = `${name} = ${JSON.stringify(value).slice(0, 40)}`
    refused(t, answer, 'validation_failed', what)
    t.ok(
      answer.body.error_message?.includes(name),
      `${what}: the message names it: ${answer.body.error_message}`,
    )
  }
  for (const path of requiredKeysOf(document, schema)) {
    for (const value of isUpdate === true ? [undefined] : [undefined, null]) {
      const answer = await send(subject.bodyWith(good.body, path, value))
      refused(t, answer, 'validation_failed', `without ${path.join('.')}`)
      t.match(answer.body.error_message, path.at(-1))
    }
  }
}

async function readsItsQuery(t: Test, subject: Subject): Promise<void> {
  const good = await subject.good()
  for (const { in: where, name, schema } of subject.operation.parameters) {
    if (where !== 'query') continue
    const once = `${name}=1`
    refused(t, await subject.send({ ...good, query: `?${once}&${once}` }), 'invalid_request', `${name} twice`)
    const wrong =
      schema.enum !== undefined
        ? ['nonsense', '']
        : schema.type === 'integer'
          ? ['x', '-1', '1.5', '', '9'.repeat(40)]
          : []
    for (const value of wrong) {
      const answer = await subject.send({ ...good, query: `?${name}=${value}` })
      refused(t, answer, 'invalid_request', `${name}=${value}`)
      t.match(answer.body.error_message, new RegExp(`^${name} `))
    }
  }
}
