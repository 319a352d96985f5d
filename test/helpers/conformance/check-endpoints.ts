import type { Test } from 'tap'
import type { Endpoint, Permission, PermissionNeed } from '../../../control-plane/api/endpoint.ts'
import { endpoints } from '../../../control-plane/endpoints.ts'
import { conformanceRows } from '../conformance-rows.ts'
import type { Failure, MakeFailure, Row, Sent } from './row.ts'
import { makeWorld, type World } from './world.ts'
import { changedAt, requiredKeysOf, wrongValuesOf } from './wrong-values.ts'
import { faultsOf, fieldTables } from '../field-tables.ts'
import { callerOf, startProcess, startService, type Answer, type Json } from '../service.ts'

/**
 * Endpoints against everything that is documented of them. What is said of all endpoints alike is derived from their
 * descriptions, the rest is in test/helpers/conformance-rows.ts; every reply is held against the description. The
 * endpoints are shared out to test files by their tags, so that no file takes long.
 */
const groups = {
  accounts: ['Organizations', 'API keys'],
  users: ['Users'],
  lists: ['Mailing lists', 'Custom fields'],
  imports: ['Subscriber imports'],
  jobs: ['Subscriber counts', 'Background jobs', 'Reactions', 'Outbox'],
  subscribers: ['Subscribers', 'Confirmation forms'],
  mails: ['Autoresponders', 'Campaign templates'],
}

/** `others` are the endpoints with a tag that no group names. */
export async function checkEndpoints(t: Test, group: keyof typeof groups | 'others'): Promise<void> {
  const grouped = Object.values(groups).flat()
  const isOfGroup = ({ tag }: Endpoint): boolean =>
    group === 'others' ? !grouped.includes(tag) : groups[group].includes(tag)
  const ofGroup = endpoints.filter(isOfGroup)
  if (ofGroup.length === 0) return
  const service = await startService(t, group === 'imports' ? ['control-plane', 'engine'] : ['control-plane'])
  const world = await makeWorld(service)
  const answer = await fetch(`${service.processes['control-plane']!.ready.http}/openapi.json`)
  const document: Json = await answer.json()
  const subjects: Subject[] = []
  for (const described of ofGroup) {
    const row = conformanceRows[described.operationId]
    if (row === undefined) t.fail(`${described.operationId} has no row`)
    else subjects.push(new Subject(described, row, world, document))
  }
  const slow = new Map(subjects.map((subject) => [subject, startSlowFailures(subject)]))
  for (const subject of subjects) {
    const { method, path } = subject.described
    await t.test(`${method.toUpperCase()} ${path}`, (t) => checkEndpoint(t, subject, slow.get(subject)!))
  }
}

type Refused = Promise<{ failure: Failure; answer: Answer }>

/** What the service takes its time to refuse goes on while all else is tried. */
function startSlowFailures(subject: Subject): Map<string, Refused> {
  return new Map(
    Object.entries(subject.row.slowFailures ?? {}).map(([title, make]) => {
      const refused = refusal(subject, make)
      // Whoever waits for it is told.
      refused.catch(() => undefined)
      return [title, refused]
    }),
  )
}

async function refusal(subject: Subject, make: MakeFailure, t?: Test): Refused {
  const failure = await make(subject.world)
  const base = failure.settings && t && (await startBeside(t, subject.world, failure.settings))
  const answer = await subject.send(failure.sent, base === undefined ? {} : { base })
  await failure.after?.()
  return { failure, answer }
}

async function checkEndpoint(t: Test, subject: Subject, slow: Map<string, Refused>): Promise<void> {
  const { described, row } = subject
  await t.test('succeeds, for whoever has just enough rights', (t) => succeeds(t, subject))
  await t.test('asks for a credential', (t) => asksForCredential(t, subject))
  await t.test('is nobody’s who may less', (t) => refusesLesserRoles(t, subject))
  await t.test('knows its methods', (t) => knowsItsMethods(t, subject))
  await t.test('finds nothing by an id that names nothing, or is none', (t) => findsNothing(t, subject))
  await t.test('is not there for another organization', (t) => hidesFromStrangers(t, subject))
  if (subject.params.length === 2)
    await t.test('finds only what belongs together', (t) => findsOnlyWhatBelongsTogether(t, subject))
  if (described.body !== undefined)
    await t.test('reads its body as documented, field by field', (t) => readsItsBody(t, subject))
  if (described.query !== undefined)
    await t.test('reads its query as documented', (t) => readsItsQuery(t, subject))
  const failures = Object.entries(row.failures ?? {}).map(
    ([title, make]) => [title, (t: Test) => refusal(subject, make, t)] as const,
  )
  const slowFailures = [...slow].map(([title, refused]) => [title, () => refused] as const)
  for (const [title, refuse] of [...failures, ...slowFailures])
    await t.test(`refuses ${title}`, async (t) => {
      const { failure, answer } = await refuse(t)
      refused(t, answer, failure.code, title, failure.status)
      if (failure.message !== undefined) t.match(answer.body?.error_message, failure.message)
      t.ok(subject.documented.has(keyOf(answer.status, answer.body)), `is documented: ${answer.text}`)
    })
  await t.test('was seen to refuse whatever it is documented to refuse', (t) => {
    t.same(
      [...subject.documented].filter((refusal) => !subject.seen.has(refusal)),
      [],
      'documented refusals that no request provoked: give them a row',
    )
    t.end()
  })
}

/** Another control plane with other settings; resolves to its address. */
async function startBeside(t: Test, { service }: World, settings: Record<string, string>): Promise<string> {
  const running = await startProcess('control-plane', { ...service.settings, ...settings })
  t.teardown(() => running.stop())
  return running.ready.http!
}

/** An endpoint with its row and its part of the description. */
class Subject {
  readonly described: Endpoint
  readonly row: Row
  readonly world: World
  /** The whole description, and its part about the endpoint. */
  readonly document: Json
  readonly operation: Json
  /** The refusals that the description lists, and those that were seen. */
  readonly documented: ReadonlySet<string>
  readonly seen = new Set<string>()

  constructor(described: Endpoint, row: Row, world: World, document: Json) {
    this.described = described
    this.row = row
    this.world = world
    this.document = document
    const path = `/svc/api/v2${described.path.replaceAll(/:(\w+)/g, '{$1}')}`
    this.operation = document.paths[path][described.method]
    this.documented = documentedIn(this.operation)
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

  async send(
    sent: Sent,
    options: { key?: string | null; method?: string; base?: string } = {},
  ): Promise<Answer> {
    const path = this.described.path.replaceAll(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(String(sent.params?.[name] ?? '1')).replaceAll('%2C', ','),
    )
    const key = options.key === null ? null : (options.key ?? sent.key ?? (await this.leastKey()))
    const method = options.method ?? this.described.method.toUpperCase()
    const { headers = {} } = sent
    const more = { key, headers }
    const { base } = options
    const call = base === undefined ? this.world.service.call : callerOf(() => base)
    const answer = await call(method, `${path}${sent.query ?? ''}`, sent.body, more)
    if (answer.body?.success === false) this.seen.add(keyOf(answer.status, answer.body))
    return answer
  }

  /** A body whose document is changed at one place. */
  bodyWith(body: unknown, path: string[], value: unknown): unknown {
    const { wrapper } = this.described.body!
    return changedAt(body, wrapper === null ? path : [wrapper, ...path], value)
  }
}

/** What comes whatever an endpoint does: too many requests, a fault of the service, a database that is away. */
const ofEveryEndpoint = ['429', '500', '503']

function documentedIn(operation: Json): Set<string> {
  const responses = Object.entries<Json>(operation.responses).filter(
    ([status]) => !ofEveryEndpoint.includes(status),
  )
  const examples = responses.flatMap(([status, { content }]) =>
    Object.values<Json>(content['application/json'].examples ?? {}).map(({ value }) => ({ status, value })),
  )
  return new Set(
    examples
      .filter(({ value }) => value.success === false)
      .map(({ status, value }) => keyOf(Number(status), value)),
  )
}

/** A refusal, ids, names and addresses apart. */
function keyOf(status: number, body: Json): string {
  const message = String(body?.error_message)
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, '"…"')
    .replaceAll(/[^\s"]+@[^\s"]+/g, '…@…')
    .replaceAll(/\d+/g, '1')
  return `${status} ${body?.error_code}: ${message}`
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
  const answer = await subject.send(await subject.good())
  succeeded(t, answer, 'with the least key')
  holdsItsTable(t, subject.described, answer)
  succeeded(t, await subject.send(await subject.good(), { key: subject.world.system }), 'as a system admin')
  const { body } = subject.described
  const good = await subject.good()
  // What may stand in the entries of an array is for the row to say.
  if (body === undefined || good.body === undefined || body.isArray === true) return
  for (const key of ['a_key_that_is_none', ...(subject.described.body?.forSystemAdmins ?? [])]) {
    const more = subject.bodyWith(good.body, [key], { $set: { role: 'system_admin' } })
    const again = await subject.good()
    succeeded(t, await subject.send({ ...again, body: mixed(more, again.body) }), `${key} is ignored`)
  }
}

/** The reply against the document's table of its fields, where there is one. */
function holdsItsTable(t: Test, { operationId }: Endpoint, { body }: Answer): void {
  const table = fieldTables.find(({ shownBy }) => shownBy.includes(operationId))
  if (table === undefined) return
  const records: Json[] = Array.isArray(body.data) ? body.data : [body.data]
  t.ok(records.length > 0, 'there is a record to be looked at')
  t.same(
    records.flatMap((record) => faultsOf(table, record)),
    [],
    'the reply has the fields of the table',
  )
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
  const { body } = subject.described
  const credentials = [null, '', 'Basic bm9ib2R5Om5vdGhpbmc=', 'Bearer x']
  for (const authorization of credentials) {
    const headers: Record<string, string> = authorization === null ? {} : { authorization }
    const key = authorization === null ? { key: null } : {}
    const answer = await subject.send({ headers, body: body && {} }, key)
    refused(t, answer, 'not_authorized', JSON.stringify(authorization), 401)
    t.equal(answer.headers.get('www-authenticate'), 'Basic realm="svc"')
  }
}

const permissionsIn = ({ permission, or }: PermissionNeed): Permission[] =>
  or === undefined ? [permission] : [permission, or.permission]

/** The role comes before the record and the body: what is sent is wrong in both. */
async function refusesLesserRoles(t: Test, subject: Subject): Promise<void> {
  const { needs, body } = subject.described
  const wrong: Sent = body === undefined ? {} : { body: '{', headers: { 'content-type': 'text/plain' } }
  const lesser =
    needs === 'any_key'
      ? []
      : needs === 'system_admin'
        ? [subject.world.nobody, subject.world.admin]
        : typeof needs === 'string'
          ? [subject.world.nobody]
          : [subject.world.nobody, await subject.world.holderOfAllBut(permissionsIn(needs))]
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
  'all',
]

async function findsNothing(t: Test, subject: Subject): Promise<void> {
  const good = await subject.good()
  for (const name of subject.params) {
    const others =
      subject.row.otherParams?.[name] ?? idsThatNameNothing.map((value) => ({ value, code: 'not_found' }))
    // `all` in a path of its own is another endpoint.
    const isDocumented = ({ value }: { value: string }): boolean =>
      endpoints.some(({ path }) => path === subject.described.path.replace(`:${name}`, value))
    const trials = others
      .filter((other) => !isDocumented(other))
      .map(({ value, code }) => async () => {
        const answer = await subject.send({ ...good, params: { ...good.params, [name]: value } })
        if (code !== null) return faultOf(answer, code, '', value)
        return answer.body?.success === true ? null : `${value}: ${answer.text}`
      })
    await holds(t, trials, name)
  }
}

async function hidesFromStrangers(t: Test, subject: Subject): Promise<void> {
  const { needs } = subject.described
  if (subject.params.length === 0 || needs === 'system_admin') return
  const answer = await subject.send(await subject.good(), { key: subject.world.foreigner })
  if (subject.row.strangerSeesNothing === true) {
    succeeded(t, answer, 'a stranger')
    t.same(answer.body.data, [])
    return
  }
  refused(t, answer, 'not_found', 'a stranger')
  const missing = Object.fromEntries(subject.params.map((name) => [name, '999999999']))
  const { body } = (await subject.send(
    { ...(await subject.good()), params: missing },
    { key: subject.world.foreigner },
  )) as Json
  t.equal(body.error_code, 'not_found', 'and a record that is not there looks the same')
}

/**
 * One of the path's two ids is of the caller's organization, the other of a foreign one: both exist, not together. A
 * system admin reaches both parents, so that for him the child is what names nothing.
 */
async function findsOnlyWhatBelongsTogether(t: Test, subject: Subject): Promise<void> {
  const { world, row, params } = subject
  const child = params[1]!
  const others = row.otherParams?.[child]
  const ofMissing = others?.find(({ value }) => value === '999999999')
  // A word, such as a log's kind, means the same everywhere.
  if (others !== undefined && ofMissing === undefined) return
  for (const foreignName of params) {
    for (const key of [await subject.leastKey(), world.admin, world.system]) {
      const own = await subject.good()
      const foreign = await row.good(world.foreign)
      const mixed = { ...own.params, [foreignName]: foreign.params![foreignName]! }
      const answer = await subject.send({ ...own, params: mixed }, { key })
      const isOfChild = foreignName === child || key === world.system
      const code = isOfChild && ofMissing !== undefined ? ofMissing.code : 'not_found'
      const who = key === world.system ? 'a system admin' : 'the organization'
      const what = `${foreignName} of another organization, for ${who}`
      if (code === null) t.same(answer.body?.data, [], what)
      else refused(t, answer, code, what)
    }
  }
}

/** Why an answer isn't the refusal that is due; null when it is. */
function faultOf(
  answer: Answer,
  code: string,
  names: RegExp | string,
  what: string,
  status = 200,
): string | null {
  const { body } = answer
  const isNamed =
    typeof names === 'string' ? String(body?.error_message).includes(names) : names.test(body?.error_message)
  const isDue =
    answer.status === status && body?.success === false && body.data === null && body.error_code === code
  return isDue && isNamed ? null : `${what}: ${answer.status} ${answer.text.slice(0, 200)}`
}

type Trial = () => Promise<string | null>

/** Makes the trials, some at a time; passes when none of them finds a fault. */
async function holds(t: Test, trials: Trial[], title: string): Promise<void> {
  const faults: (string | null)[] = []
  for (let i = 0; i < trials.length; i += 6)
    faults.push(...(await Promise.all(trials.slice(i, i + 6).map((trial) => trial()))))
  t.same(
    faults.filter((fault) => fault !== null),
    [],
    `${title}: ${trials.length} requests`,
  )
}

const brokenTexts = ['{', 'null', '[]', '"x"', '5', '{"a":1}{', '{"a":1,}', "{'a':1}", '\u{feff}{}x']

async function readsItsBody(t: Test, subject: Subject): Promise<void> {
  const { wrapper, optional, isUpdate, isArray } = subject.described.body!
  const good = await subject.good()
  const send = (body: unknown, headers: Record<string, string> = {}, key?: string) =>
    subject.send(
      { ...good, headers: { ...good.headers, ...headers }, body },
      key === undefined ? {} : { key },
    )
  const refuses = (body: unknown, code: string, names: string | RegExp, what: string): Trial => {
    // Others than system admins may send anything in the place of what is theirs.
    const isTheirs = subject.described.body?.forSystemAdmins?.some((name) => what.startsWith(`${name} =`))
    const key = isTheirs === true ? subject.world.system : undefined
    return async () => faultOf(await send(body, {}, key), code, names, what)
  }

  const unreadable: unknown[] = [...brokenTexts, ...(optional === true ? [] : [new Uint8Array()])]
  if (wrapper !== null)
    unreadable.push(
      {},
      { [wrapper]: null },
      { [wrapper]: isArray === true ? {} : [] },
      { [wrapper]: 'x' },
      { other: {} },
    )
  await holds(
    t,
    unreadable.map((body) => refuses(body, 'invalid_request', '', JSON.stringify(body))),
    'bodies that are none',
  )
  refused(t, await send('{}', { 'content-type': 'text/plain' }), 'invalid_request', 'text/plain', 415)
  refused(t, await send('{}', { 'content-encoding': 'compress' }), 'invalid_request', 'compress', 415)
  refused(t, await send(`{"a":"${'x'.repeat(1_100_000)}"}`), 'invalid_request', 'over 1 MB', 413)

  const whole = subject.operation.requestBody.content['application/json'].schema
  const schema = wrapper === null ? whole : whole.properties[wrapper]
  const lenient = new Set(subject.row.lenientFields ?? [])
  const wrong = wrongValuesOf(subject.document, schema).map(({ path, value }) => ({
    name: path.join('.'),
    path,
    value,
  }))
  await holds(
    t,
    wrong
      .filter(({ name }) => !lenient.has(name))
      .map(({ name, path, value }) => {
        const what = `${name} = ${JSON.stringify(value).slice(0, 40)}`
        return refuses(subject.bodyWith(good.body, path, value), 'validation_failed', name, what)
      }),
    'fields with a wrong value',
  )
  const absent = isUpdate === true ? [undefined] : [undefined, null]
  const required = requiredKeysOf(subject.document, schema)
  if (required.length > 0) {
    const empty = wrapper === null ? {} : { [wrapper]: {} }
    refused(t, await send(empty), 'validation_failed', 'an empty document')
  }
  await holds(
    t,
    required.flatMap((path) =>
      absent.map((value) =>
        refuses(
          subject.bodyWith(good.body, path, value),
          'validation_failed',
          path.at(-1)!,
          `no ${path.join('.')}`,
        ),
      ),
    ),
    'required fields',
  )
}

async function readsItsQuery(t: Test, subject: Subject): Promise<void> {
  const good = await subject.good()
  const trials: Trial[] = []
  const refuses = (query: string, name: string): void => {
    trials.push(async () =>
      faultOf(await subject.send({ ...good, query }), 'invalid_request', new RegExp(`^${name} `), query),
    )
  }
  for (const { in: where, name, schema } of subject.operation.parameters) {
    if (where !== 'query') continue
    refuses(`?${name}=1&${name}=1`, name)
    const isInteger = schema.type === 'integer'
    const wrong = schema.enum !== undefined ? ['nonsense', ''] : isInteger ? wrongIntegers : []
    for (const value of wrong) refuses(`?${name}=${value}`, name)
  }
  await holds(t, trials, 'parameters with a wrong value')
}

const wrongIntegers = ['x', '-1', '1.5', '', '9'.repeat(40)]
