import fc from 'fast-check'
import t from 'tap'
import { endpoints } from '../../control-plane/endpoints.ts'
import { collectionDefinitions } from '../../shared/contract/schemas/collection-definitions.ts'
import { conformanceRows } from '../helpers/conformance-rows.ts'
import { makeWorld } from '../helpers/conformance/world.ts'
import { changedAt } from '../helpers/conformance/wrong-values.ts'
import { bodySchema } from '../helpers/body-schema.ts'
import { descriptionOf, startService, type Answer, type Json } from '../helpers/service.ts'

/**
 * No client would send these requests. Each answer is in the envelope and documented (the client checks that), and is
 * never a 500, a stack trace or a message of the driver. A refused request changes nothing.
 */

const service = await startService(t, ['control-plane'])
const world = await makeWorld(service)
const seed = 20_261_121
const runsPerEndpoint = 6

/**
 * Collections that a refused request may write: counters of ids and wrong credentials, and leases, which are renewed.
 */
const bookkeeping = ['counters', 'auth_failures', 'processes']

/** What a wrong password rightly changes about the user whom it was tried for. */
const noteOfTry = { password_failures: 0, locked_until: 0, password_tried_at: 0 } as const

/** The database's own hash of its content, without the fields of users and keys that a call rightly changes. */
async function digest(operationId = ''): Promise<string> {
  const isSignIn = operationId === 'authenticateUser'
  const left = [...bookkeeping, 'api_keys', ...(isSignIn ? ['users'] : [])]
  const collections = collectionDefinitions.map(({ name }) => name).filter((name) => !left.includes(name))
  const { collections: hashes } = await service.db.command({ dbHash: 1, collections })
  const users = isSignIn
    ? await service.collections.users.find().project(noteOfTry).sort({ _id: 1 }).toArray()
    : []
  // Each use of a key may be noted.
  const keys = await service.collections.apiKeys
    .find()
    .project({ last_used_at: 0 })
    .sort({ _id: 1 })
    .toArray()
  return JSON.stringify([hashes, users, keys])
}

const driverWords =
  /Mongo|BSON|E11000|\$jsonSchema|node_modules|node:internal|\.ts:\d|\n\s+at |ECONN|undefined/

function faultOf(answer: Answer): string | null {
  if (answer.status >= 500) return `status ${answer.status}: ${answer.text}`
  const isRefused = answer.body?.success === false
  return isRefused && driverWords.test(answer.text) ? `it says too much: ${answer.text}` : null
}

const operators = ['$gt', '$ne', '$where', '$regex', '$expr', '$set', '$function', '$in']
const oneOperator = operators.map((operator) => ({ [operator]: '' }))
/** A query that read it as operators would fail in the database. */
const allOperators = Object.assign({}, ...oneOperator) as object
const nastyKeys = [
  ...['__proto__', 'constructor', 'prototype', 'toString'],
  ...['hasOwnProperty', 'a.b', '$a', '', '\0', 'é', '_id'],
]
const nastyTextsOfOne = [
  ...['', ' ', '\0', '\u{feff}x', '\u202etxt', 'аdmin@example.com', 'ＡＢＣ', 'ﬀ', 'İ'],
  '🙂'.repeat(50),
  '../../etc/passwd',
  "'; DROP TABLE users; --",
  '{"$gt":""}',
  '<script>alert(1)</script>',
  '=1+1',
  '%00',
  '%s%n',
  'x'.repeat(70_000),
  'http://169.254.169.254/',
  'file:///etc/passwd',
  '2026-13-45T99:99:99Z',
  '\r\nSet-Cookie: a=b',
]
const nastyText = fc.oneof(fc.constantFrom(...nastyTextsOfOne), fc.string({ unit: 'binary', maxLength: 30 }))
const nastyNumbers = [0, -1, 1e308, -1e308, 2 ** 53, 2 ** 53 + 2, 2 ** 31, -(2 ** 63), 0.1, 1e-300]
const nastyNumber = fc.oneof(
  fc.constantFrom(...nastyNumbers),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
)
const nastyHash = fc.oneof(
  fc.constantFrom(...oneOperator),
  fc
    .constantFrom(...nastyKeys)
    .map((key) => JSON.parse(`{${JSON.stringify(key)}:{"role":"system_admin"}}`) as object),
)
const nastyValue = fc.oneof(
  nastyText,
  nastyNumber,
  nastyHash,
  fc.constantFrom(null, true, false, [], {}, [[]], [null], [{ $gt: '' }]),
  fc.jsonValue({ maxDepth: 3 }),
)

/** Every documented field gets each of them; all operators once more, one field at a time. */
const nastyForAll: unknown[] = [
  ...oneOperator,
  ...nastyTextsOfOne,
  ...nastyNumbers,
  null,
  true,
  [],
  {},
  [[]],
  [null],
  [{ $gt: '' }],
]

const deep = (open: string, close: string, levels: number): string =>
  open.repeat(levels) + '1' + close.repeat(levels)

/** Bodies as text: what JSON.stringify would never write; those that some endpoint may read apart. */
const nastyTexts = (wrapper: string | null): { unreadable: string[]; readable: string[] } => {
  const wrapped = (text: string) => (wrapper === null ? text : `{${JSON.stringify(wrapper)}:${text}}`)
  const unreadable = [
    wrapped(deep('[', ']', 5_000)),
    wrapped(deep('{"a":', '}', 5_000)),
    deep('[', ']', 200_000),
    `${wrapped('{}')}\0`,
    'NaN',
    '{"a":undefined}',
  ]
  const readable = [
    wrapped('{"name":"a","name":{"$gt":""}}'),
    `{"a":1,"a":2,${JSON.stringify(wrapper ?? 'b')}:{},${JSON.stringify(wrapper ?? 'b')}:[]}`,
    wrapped('{"name":1e999,"id":-1e999}'),
    wrapped(`{"name":${'9'.repeat(5_000)}}`),
    wrapped('{"__proto__":{"role":"system_admin"},"constructor":{"prototype":{"success":true}}}'),
    '{"__proto__":{"isAdmin":true}}',
    wrapped('{"name":"\\ud800"}'),
    wrapped('{"name":"\\u0000"}'),
  ]
  return { unreadable, readable }
}

const description: Json = await descriptionOf(service.processes['control-plane']!.ready.http!)

for (const described of endpoints) {
  const { body, method, path, operationId, needs } = described
  const row = conformanceRows[operationId]
  if (body === undefined || row === undefined) continue
  t.test(`${method.toUpperCase()} ${path} reads any body without harm`, async (t) => {
    const good = await row.good(world)
    const key = needs === 'system_admin' ? world.system : world.admin
    const target = path.replaceAll(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(String(good.params?.[name])),
    )
    const send = (sent: unknown) => world.service.call(method.toUpperCase(), target, sent, { key })
    const documentOf = (value: Json): Json => (body.wrapper === null ? value : value[body.wrapper])
    const documented = fieldsOf(
      body.wrapper,
      description.paths[`/svc/api/v2${path.replaceAll(/:(\w+)/g, '{$1}')}`][method],
    )
    const fields = [...documented, ...fieldPaths(documentOf(good.body)), ...nastyKeys.map((name) => [name])]

    let before = await digest(operationId)
    const judge = async (sent: unknown): Promise<void> => {
      const answer = await send(sent)
      const fault = faultOf(answer)
      if (fault !== null) throw new Error(fault)
      const after = await digest(operationId)
      if (answer.body?.success === false && after !== before)
        throw new Error(`refused, and changed: ${answer.text}`)
      before = after
    }
    /** Sends some bodies at a time; where all of them are refused, they may change nothing together. */
    const judgeAll = async (bodies: unknown[]): Promise<void> => {
      for (let i = 0; i < bodies.length; i += 8) {
        const some = bodies.slice(i, i + 8)
        const answers = await Promise.all(some.map(send))
        const fault = answers.map(faultOf).find((found) => found !== null)
        if (fault !== undefined) throw new Error(fault)
        const after = await digest(operationId)
        if (after !== before && answers.every((answer) => answer.body?.success === false))
          throw new Error(`refused, and changed: ${answers.map(({ text }) => text).join()}`)
        before = after
      }
    }
    const { unreadable, readable } = nastyTexts(body.wrapper)
    await judgeAll(unreadable)
    for (const text of readable) await judge(text)
    const document = documentOf(good.body)
    const wrapped = (changed: Json): Json => (body.wrapper === null ? changed : { [body.wrapper]: changed })
    const everywhere = (value: unknown): Json =>
      wrapped(documented.reduce((changed: Json, at) => changedAt(changed, at, value), document))
    await judgeAll(nastyForAll.map(everywhere))
    await judgeAll(documented.map((at) => wrapped(changedAt(document, at, allOperators))))
    const change = fc.tuple(fc.constantFrom(...fields), nastyValue)
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
        let sent: Json = documentOf(good.body)
        for (const [at, value] of changes) sent = changedAt(sent, at, value)
        await judge(wrapped(sent))
      }),
      { seed, numRuns: runsPerEndpoint, endOnFailure: true },
    )
    t.pass()
  })
}

t.test('paths and queries may be anything', async (t) => {
  const key = world.system
  const reading = endpoints.filter(({ method }) => method === 'get')
  const segment = fc.oneof(
    nastyText.map((text) => text.slice(0, 500)),
    fc.constantFrom(
      '..',
      '.',
      '%2e%2e',
      '%00',
      '%ff',
      '%',
      '1;2',
      '1,2',
      '$where',
      '__proto__',
      '9'.repeat(400),
    ),
  )
  const name = fc.constantFrom(
    'page',
    'per_page',
    'page_token',
    'scope',
    'state',
    'begins_at__after',
    '__proto__',
    'a[$gt]',
    '$where',
  )
  const before = await digest()
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...reading),
      fc.array(segment, { minLength: 3, maxLength: 3 }),
      fc.array(fc.tuple(name, segment), { maxLength: 3 }),
      async ({ path }, segments, query) => {
        let used = 0
        const target = path.replaceAll(/:\w+/g, () => encodable(segments[used++ % segments.length]!))
        const parameters = query.map(
          ([parameter, value]) => `${encodeURIComponent(parameter)}=${encodable(value)}`,
        )
        const fault = faultOf(
          await world.service.call('GET', `${target}?${parameters.join('&')}`, undefined, { key }),
        )
        if (fault !== null) throw new Error(`${target}: ${fault}`)
      },
    ),
    { seed, numRuns: 80, endOnFailure: true },
  )
  t.equal(await digest(), before)
})

/** Half characters can't be sent; text that is percent-encoded already is sent unchanged. */
function encodable(text: string): string {
  return /^%[\da-f]{0,2}|^\.\.?$/i.test(text) ? text : encodeURIComponent(text.toWellFormed())
}

function fieldPaths(document: Json, path: string[] = []): string[][] {
  if (typeof document !== 'object' || document === null || Array.isArray(document)) return []
  return Object.entries<Json>(document).flatMap(([key, value]) => [
    [...path, key],
    ...fieldPaths(value, [...path, key]),
  ])
}

/** The paths of all fields that a body is documented to have, in its wrapper. */
function fieldsOf(wrapper: string | null, operation: Json): string[][] {
  const whole = bodySchema(description, operation)
  return schemaPaths(wrapper === null ? whole : whole.properties[wrapper])
}

function schemaPaths(schema: Json, path: string[] = []): string[][] {
  const steps = String(schema.$ref ?? '')
    .replace(/^#\/?/, '')
    .split('/')
    .filter(Boolean)
  const resolved = steps.reduce((node: Json, step) => node[step], steps.length === 0 ? schema : description)
  return Object.entries<Json>(resolved.properties ?? {}).flatMap(([key, inner]) => [
    [...path, key],
    ...schemaPaths(inner, [...path, key]),
  ])
}
