import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { KnownCallers } from '../../../control-plane/api/known-callers.ts'
import { hashKey, keyHashSecret } from '../../../shared/store/api-keys.ts'
import {
  basic,
  bootstrapKey,
  callerOf,
  controlPlaneOrigin,
  startProcess,
  until,
  type Json,
} from '../../helpers/service.ts'
import { gatedDatabase } from '../../helpers/gated-database.ts'
import { growthSince } from '../../helpers/metric-value.ts'
import { service } from './service.ts'

const { call, post } = service
const as = (authorization: string) => call('GET', '/mailing_lists', undefined, { headers: { authorization } })

t.test('a key is accepted in each of its four forms', async (t) => {
  t.equal((await as(basic(`1:${bootstrapKey}`))).status, 200, 'organization id and key')
  t.equal((await as(basic(`api:${bootstrapKey}`))).status, 200, 'api and key')
  t.equal((await as(basic(`${bootstrapKey}:`))).status, 200, 'key without a password')
  t.equal((await as(`Basic ${bootstrapKey}`)).status, 200, 'the key itself')
  t.equal((await as(`basic  ${bootstrapKey}`)).status, 200, 'the scheme in any case')
})

t.test('everything else is 401 in the envelope, with a challenge', async (t) => {
  const wrong = [
    basic(`2:${bootstrapKey}`),
    basic('api:wrong_key_0123456789'),
    basic(`other:${bootstrapKey}`),
    basic(`${bootstrapKey}:x`),
    `Bearer ${bootstrapKey}`,
    'Basic',
    'Basic !!!',
    basic(''),
  ]
  for (const authorization of wrong) {
    const answer = await as(authorization)
    t.equal(answer.status, 401, authorization)
    t.equal(answer.headers.get('www-authenticate'), 'Basic realm="svc"')
    t.match(answer.body, { success: false, data: null, error_code: 'not_authorized', error_message: String })
  }
  const missing = await fetch(`${service.processes['control-plane']!.ready.http}/svc/api/v2/nowhere`)
  t.equal(missing.status, 401, 'the credential comes before the path')
})

t.test('a key is stored only as a hash, shown once, and refused when it is inactive', async (t) => {
  const created = await post('/api_keys', { api_key: { name: 'second' } })
  t.match(created, {
    organization_id: 1,
    name: 'second',
    role: 'organization_admin',
    active: true,
    user_id: null,
    key: /^rollcall_[a-z0-9]{30,}$/,
  })
  const stored = await service.collections.apiKeys.findOne({ _id: created.id })
  t.notOk(JSON.stringify(stored).includes(created.key))
  t.notMatch((await call('GET', '/api_keys')).text, created.key)
  t.equal((await call('GET', '/mailing_lists', undefined, { key: created.key })).status, 200)
  await call('PUT', `/api_keys/${created.id}`, { api_key: { active: false } })
  t.equal((await call('GET', '/mailing_lists', undefined, { key: created.key })).status, 401)
})

t.test('a key that one process refuses is soon refused by others, which remember it a moment', async (t) => {
  const { id, key } = await post('/api_keys', { api_key: { name: 'for both' } })
  const first = service.processes['control-plane']!
  const other = await service.start('control-plane')
  service.processes['control-plane'] = first
  const callOther = callerOf(() => other.ready.http!)
  const statusThere = async () => (await callOther('GET', '/mailing_lists', undefined, { key })).status
  t.equal(await statusThere(), 200)
  t.equal((await callOther('PUT', `/api_keys/${id}`, { api_key: { active: false } })).status, 200)
  t.equal(await statusThere(), 401, 'at once where it was changed')
  t.equal((await callOther('PUT', `/api_keys/${id}`, { api_key: { active: true } })).status, 200)
  t.equal(await statusThere(), 200)
  await service.call('PUT', `/api_keys/${id}`, { api_key: { active: false } })
  // The cache lasts 5 s; a slow machine gets more.
  await until('the refusal', statusThere, (status) => status === 401, 15_000)
})

t.test('a key that becomes inactive during its look-up is not cached', async (t) => {
  const { id, key } = await post('/api_keys', { api_key: { name: 'looked up' } })
  const { apiKeys } = service.collections
  const findOne = async (filter: object) => {
    const found = await apiKeys.findOne(filter)
    await apiKeys.updateOne({ _id: id }, { $set: { active: false } })
    callers.clear()
    return found
  }
  const callers = new KnownCallers(
    { ...service.collections, apiKeys: { findOne, updateOne: async () => undefined } as never },
    await keyHashSecret(service.collections),
  )
  t.match(await callers.find(key), { keyId: id }, 'it was active when it was read')
  t.equal(await callers.find(key), null)
})

t.test('a wrong key is looked up by its keyed hash alone, even when nearly all of it is right', async (t) => {
  const almost = `${bootstrapKey.slice(0, -1)}X`
  await service.db.command({ profile: 2, filter: { ns: `${service.db.databaseName}.api_keys` } })
  t.equal((await as(basic(`api:${almost}`))).status, 401)
  t.equal((await as(basic('api:nothing_of_it_is_right'))).status, 401)
  await service.db.command({ profile: 0 })
  const lookups = await service.db
    .collection('system.profile')
    .find({ ns: `${service.db.databaseName}.api_keys` })
    .toArray()
  const secret = (await service.collections.installation.findOne({ _id: 'installation' }))!.key_hash_secret
  const sought = lookups.map(({ command }) => (command.filter.key_hash as Buffer).toString('hex'))
  for (const key of [almost, 'nothing_of_it_is_right'])
    t.ok(sought.includes(hashKey(key, secret).toString('hex')), key)
  for (const { planSummary, docsExamined } of lookups)
    t.match({ planSummary, docsExamined }, { planSummary: /^IXSCAN \{ key_hash/, docsExamined: 0 })
})

t.test('paths outside of the API need no credential', async (t) => {
  const base = service.processes['control-plane']!.ready.http!
  for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs/'])
    t.equal((await fetch(base + path)).status, 200, path)
  t.match(await (await fetch(base)).json(), {
    name: 'Rollcall',
    version: /^\d+\.\d+\.\d+(?: \([0-9a-f]{7,}\))?$/,
    api: '/svc/api/v2',
    docs: '/docs',
    console: '/console',
    metrics: '/metrics',
  })
  t.equal((await fetch(`${base}/nowhere`)).status, 404)
  for (const path of ['/', '/healthz', '/readyz', '/metrics', '/openapi.json', '/docs', '/docs/'])
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const refused = await fetch(base + path, { method })
      t.same([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD'], `${method} ${path}`)
      t.match(await refused.json(), { success: false, error_code: 'invalid_request' })
    }
})

t.test('too many wrong credentials of one address are refused for a minute, right ones pass', async (t) => {
  const throttled = {
    ...service.settings,
    AUTH_FAILURES_PER_MINUTE: '3',
    TRUSTED_PROXIES: '127.0.0.1/32',
  }
  const [first, second] = await Promise.all([
    startProcess('control-plane', throttled),
    startProcess('control-plane', throttled),
  ])
  t.teardown(() => Promise.all([first.stop(), second.stop()]))
  const callFirst = callerOf(() => first.ready.http!)
  const callSecond = callerOf(() => second.ready.http!)
  const from = (address: string, authorization: string) =>
    callFirst('GET', '/mailing_lists', undefined, {
      headers: { authorization, 'x-forwarded-for': address },
    })
  const right = basic(`api:${bootstrapKey}`)
  for (const [forwarded, address] of [
    ['192.0.2.77:5555', '192.0.2.77'],
    ['[2001:db8::77]:5555', '2001:db8::77'],
    ['2001:db8::78', '2001:db8::78'],
    ['<script>', '127.0.0.1'],
    ['9'.repeat(500), '127.0.0.1'],
  ] as const) {
    const lines = () => first.log().split(`"msg":"request"`).length
    const before = lines()
    t.equal((await from(forwarded, right)).status, 200)
    await until(
      'the line',
      async () => lines(),
      (count) => count > before,
    )
    const line = first
      .log()
      .split('\n')
      .findLast((text) => text.includes('"msg":"request"'))
    t.ok(line?.includes(`"address":"${address}"`), forwarded.slice(0, 50))
  }
  t.notMatch(first.log(), /<script>|9{20}|\d:5555"/)
  const wrong = basic('api:wrong_key_0123456789')
  for (let i = 0; i < 5; i += 1) {
    const noCredential = await fetch(`${first.ready.http}/svc/api/v2/mailing_lists`, {
      headers: { 'x-forwarded-for': '192.0.2.1' },
    })
    t.equal(noCredential.status, 401, 'missing ones do not count')
  }
  const endOfMinute = async () =>
    (await service.collections.authFailures.findOne({ _id: '192.0.2.1' }))?.until.getTime()
  t.equal((await from('192.0.2.1', wrong)).status, 401)
  const end = await endOfMinute()
  t.type(end, 'number')
  for (let i = 0; i < 2; i += 1) t.equal((await from('192.0.2.1', wrong)).status, 401)
  t.equal(
    await endOfMinute(),
    end,
    'the minute begins with the first wrong key, and later ones do not prolong it',
  )
  t.equal((await from('192.0.2.1', right)).status, 200, 'three are allowed')
  for (let i = 0; i < 5; i += 1) {
    const bearer = await from('192.0.2.1', `Bearer ${bootstrapKey}`)
    t.equal(bearer.status, 401, 'nor where no key is tried')
    t.match(bearer.body.error_message, /^Authorization must have the scheme Basic, .* curl -u api:KEY$/)
  }
  const named = await fetch(`${first.ready.http}/svc/api/v2/mailing_lists`, {
    headers: { 'x-forwarded-for': '192.0.2.1', 'x-api-key': bootstrapKey },
  })
  t.match(
    ((await named.json()) as { error_message: string }).error_message,
    /not read from X-API-Key: .* scheme Basic/,
  )
  const fourth = await from('192.0.2.1', 'Basic malformed')
  t.equal(fourth.status, 429)
  t.match(fourth.body, { success: false, error_code: 'not_authorized' })
  const after = Number(fourth.headers.get('retry-after'))
  t.ok(after > 0 && after <= 60, `Retry-After is ${after}`)
  t.equal((await from('192.0.2.1', wrong)).status, 429)
  t.equal(await endOfMinute(), end, 'refused ones do not prolong it')
  t.equal((await from('192.0.2.1', right)).status, 200, 'right ones pass')
  t.equal((await from('192.0.2.2', wrong)).status, 401, 'another address is another matter')
  const blocks = first
    .log()
    .matchAll(/"address":"192\.0\.2\.1".*more than 3 wrong credentials came from this/g)
  t.equal([...blocks].length, 1, 'the refusal that begins the block is logged')

  const fromOther = (address: string, authorization: string) =>
    callSecond('GET', '/mailing_lists', undefined, {
      headers: { authorization, 'x-forwarded-for': address },
    })
  t.equal((await fromOther('192.0.2.1', right)).status, 200)
  const there = await fromOther('192.0.2.1', wrong)
  t.equal(there.status, 429, 'and in every other process')
  t.ok(Number(there.headers.get('retry-after')) <= after, 'until the same minute is over')
  for (const send of [from, fromOther, from])
    t.equal((await send('192.0.2.3', wrong)).status, 401, 'which count together')
  t.equal((await fromOther('192.0.2.3', wrong)).status, 429)

  for (const host of ['1', '2', 'aaaa:bbbb:cccc:dddd'])
    t.equal((await from(`2001:db8:0:7::${host}`.replace('::a', ':a'), wrong)).status, 401)
  t.equal((await from('2001:db8:0:7::9', wrong)).status, 429, 'a /64 counts as one address')
  t.equal((await from('2001:db8:0:8::9', wrong)).status, 401, 'its neighbour as another')
})

t.test('a key that loses its right while its body arrives changes nothing', async (t) => {
  const list = await post('/mailing_lists', { mailing_list: { name: 'Slow bodies' } })
  const user = await post('/users', {
    user: {
      email: 'slow@example.com',
      full_name: 'Slow',
      active: true,
      role: 'standard',
      permissions: { mailing_list: ['create', 'update'] },
      password1: 'long enough',
      password2: 'long enough',
    },
  })
  const keyOf = async (fields: Json) => post('/api_keys', { api_key: { name: 'slow', ...fields } })
  const revoked = await keyOf({ role: 'organization_admin' })
  const reduced = await keyOf({ user_id: user.id })
  const deactivated = await keyOf({ role: 'organization_admin' })
  const file_source = { type: 'json', content: 'email\nslow@example.com\n' }
  const growth = await growthSince(`${controlPlaneOrigin(service)}/metrics`)
  const requests = await Promise.all(
    [
      [
        revoked,
        'POST',
        `/mailing_lists/${list.id}/subscribers`,
        { subscriber: { email: 'slow@example.com' } },
      ],
      [
        revoked,
        'POST',
        `/mailing_lists/${list.id}/subscriber_imports`,
        { subscriber_import: { column_mapping: ['email'], file_source } },
      ],
      [deactivated, 'POST', '/mailing_lists', { mailing_list: { name: 'Made too late' } }],
      [reduced, 'PUT', `/mailing_lists/${list.id}`, { mailing_list: { name: 'Renamed too late' } }],
    ].map(([{ key }, method, path, body]) => beginRequest(key, method, path, JSON.stringify(body))),
  )
  const used = { _id: { $in: [revoked.id, reduced.id, deactivated.id] }, last_used_at: { $exists: true } }
  await until(
    'all requests and the checks of their keys',
    async () => [
      await growth('rollcall_http_requests_in_flight'),
      await service.collections.apiKeys.countDocuments(used),
    ],
    ([requests, keys]) => requests === 4 && keys === 3,
  )
  // Longer than what is checked once holds.
  await sleep(2_200)
  await call('DELETE', `/api_keys/${revoked.id}`)
  await call('PUT', `/api_keys/${deactivated.id}`, { api_key: { active: false } })
  await call('PUT', `/users/${user.id}`, { user: { permissions: { mailing_list: [] } } })
  const answers = await Promise.all(requests.map((finish) => finish()))
  t.same(
    answers.map(({ status, body }) => [status, body.error_code]),
    [401, 401, 401, 403].map((status) => [status, 'not_authorized']),
  )
  const { mailingLists, subscribers, imports } = service.collections
  t.equal(await mailingLists.countDocuments({ name: /too late/ }), 0)
  t.equal(await subscribers.countDocuments({ mailing_list_id: list.id }), 0)
  t.equal(await imports.countDocuments({ mailing_list_id: list.id }), 0)
})

/** Sends a request except for the last byte of its body. The result sends that, and resolves to the reply. */
async function beginRequest(key: string, method: string, path: string, body: string) {
  const sent = request(`${service.processes['control-plane']!.ready.http}/svc/api/v2${path}`, {
    method,
    headers: { authorization: basic(`api:${key}`), 'content-type': 'application/json' },
  })
  const reply = once(sent, 'response') as Promise<[IncomingMessage]>
  sent.write(body.slice(0, -1))
  return async () => {
    sent.end(body.slice(-1))
    const [response] = await reply
    return { status: response.statusCode, body: (await json(response)) as Json }
  }
}

t.test('a thousand requests that come together with one key cost a few reads of the database', async (t) => {
  const { database, gate } = await gatedDatabase(t, service.db.databaseName)
  const callers = new KnownCallers(database.collections, await keyHashSecret(database.collections))
  await gate.watch(null)
  const found = await Promise.all(Array.from({ length: 1_000 }, () => callers.find(bootstrapKey)))
  t.ok(found.every((caller) => caller?.organizationId === 1))
  t.ok(gate.commands.length <= 2, `${gate.commands.length} reads of keys`)
})
