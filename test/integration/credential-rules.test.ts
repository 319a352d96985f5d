import { EventEmitter, once } from 'node:events'
import type { ClientSession } from 'mongodb'
import t, { type Test } from 'tap'
import { CommandGate } from '../helpers/command-gate.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import {
  bootstrapKey,
  callerOf,
  startProcess,
  startService,
  testMongodbUri,
  until,
  type Answer,
  type Call,
  type Json,
} from '../helpers/service.ts'

/**
 * Which callers may make and change keys and users, whose keys are accepted, and that one system admin always
 * remains.
 */

const service = await startService(t, ['control-plane', 'ftp'])
const { call, get, post } = service
const organization = await post('/organizations', { organization: { name: 'Example Ltd' } })
const adminOf = async (id: number): Promise<{ key: string }> => ({
  key: (await post(`/organizations/${id}/api_keys`, { api_key: { name: 'admin' } })).key,
})
const asAdmin = await adminOf(organization.id)
/** An organization admin beside the system admins. */
const asMate = await adminOf(1)
const password = 'correct horse battery'
let created = 0

const userOf = (fields: Json): Json => ({
  user: {
    full_name: 'Jane Roe',
    active: true,
    role: 'standard',
    password1: password,
    password2: password,
    ...fields,
  },
})

async function newUser(fields: Json = {}): Promise<Json> {
  created += 1
  return post('/users', userOf({ email: `jane${created}@example.com`, ...fields }))
}

const keyOf = (user: Json, fields: Json = {}): Promise<Json> =>
  post(`/organizations/${user.organization_id}/api_keys`, {
    api_key: { name: 'a key', user_id: user.id, ...fields },
  })
const change = async (user: Json, fields: Json, options = {}) =>
  call('PUT', `/users/${user.id}`, { user: fields }, options)
const status = async (key: string, path = '/mailing_lists') =>
  (await call('GET', path, undefined, { key })).status
const ftpLogin = async (key: string): Promise<boolean> => {
  const session = await FtpSession.open(service.processes.ftp!.ready.ftp!, key).catch(() => null)
  session?.close()
  return session !== null
}

t.test('a key of a user has the role and the permissions of the user', async (t) => {
  const user = await newUser({ organization_id: organization.id, permissions: { subscriber: ['read'] } })
  const { id, key, role } = await keyOf(user)
  const roleOf = async () =>
    (await get(`/organizations/${organization.id}/api_keys`)).find((one: Json) => one.id === id).role
  t.equal(role, 'standard', 'the role in force')
  t.equal(await status(key, '/subscriber_imports'), 200)
  t.equal(
    await status(key, '/mailing_lists/999999/subscribers'),
    200,
    'the user may ask, and is told that there is no such list',
  )
  t.equal(await status(key, '/users'), 403)
  t.equal((await call('POST', '/mailing_lists', { mailing_list: { name: 'x' } }, { key })).status, 403)
  t.equal(await ftpLogin(key), false, 'not without subscriber/import')
  await change(user, { permissions: { subscriber: ['import'], mailing_list: ['create'] } })
  t.equal(await status(key, '/mailing_lists/999999/subscribers'), 403)
  t.equal(await status(key, '/subscriber_imports'), 200, 'a user who may import can list imports')
  t.equal((await call('POST', '/mailing_lists', { mailing_list: { name: 'x' } }, { key })).body.success, true)
  t.equal(await ftpLogin(key), true)
  await change(user, { role: 'organization_admin' })
  t.equal(await roleOf(), 'organization_admin')
  t.equal(await status(key, '/users'), 200)
  await change(user, { active: false })
  t.equal(await roleOf(), 'organization_admin', 'also while the user is inactive')
  t.equal(await status(key), 401, 'inactive')
  t.equal(await ftpLogin(key), false)
  await change(user, { active: true })
  t.equal(await status(key), 200)
  const lockedUntil = { locked_until: new Date(Date.now() + 600_000) }
  await service.collections.users.updateOne({ _id: user.id }, { $set: lockedUntil })
  t.equal(await status(key), 200, 'a lockout concerns passwords only')
  await call('DELETE', `/users/${user.id}`)
  t.equal(await status(key), 401, 'deleted')
  t.equal(await ftpLogin(key), false)
  t.match((await call('PUT', `/api_keys/${id}`, { api_key: { name: 'left over' } })).body, {
    data: { name: 'left over', user_id: user.id },
  })
  t.equal(await status(key), 401)
})

t.test('a key belongs only to users of its organization', async (t) => {
  const foreign = await newUser()
  const system = await newUser({ role: 'system_admin' })
  for (const user_id of [foreign.id, system.id, 99_999]) {
    const body = { api_key: { name: 'x', user_id } }
    const expected = {
      status: 200,
      body: { error_code: 'validation_failed', error_message: /^user_id names no user/ },
    }
    t.match(await call('POST', '/api_keys', body, asAdmin), expected, 'it is not told who else there is')
  }
  await call('DELETE', `/users/${system.id}`).then(() => undefined)
})

t.test('a record with more permissions than the caller is refused before any other rule', async (t) => {
  const boss = await newUser({ role: 'system_admin' })
  const bossKey = await keyOf(boss)
  const forbidden = async (method: string, path: string, body?: unknown, options = asMate) => {
    const answer = await call(method, path, body, options)
    t.match(
      { status: answer.status, ...answer.body },
      { status: 403, error_code: 'not_authorized', error_message: /^you can't create, change or delete/ },
      `${method} ${path} ${JSON.stringify(body)}`,
    )
  }
  const mate = await newUser()
  for (const [wrapper, path, id, bossId] of [
    ['user', '/users', mate.id, boss.id],
    ['api_key', '/api_keys', (await keyOf(mate)).id, bossKey.id],
  ] as const) {
    await forbidden('POST', path, { [wrapper]: { role: 'system_admin' } })
    await forbidden('POST', path, { [wrapper]: { role: 'system_admin', nonsense: 5 } }, asAdmin)
    await forbidden('PUT', `${path}/${id}`, { [wrapper]: { role: 'system_admin' } })
    await forbidden('PUT', `${path}/${bossId}`, { [wrapper]: { role: 'standard', active: 5 } })
    await forbidden('PUT', `${path}/${bossId}`, { [wrapper]: {} })
    await forbidden('DELETE', `${path}/${bossId}`)
  }
  await forbidden('PUT', `/users/${boss.id}`, { user: { password1: 'another password', password2: 'x' } })
  await forbidden('PUT', `/users/${boss.id}/reset_password_failure_lockout`, {})
  await forbidden('POST', '/api_keys', { api_key: { name: 'x', user_id: boss.id } })
  await forbidden('PUT', `/api_keys/${(await keyOf(mate)).id}`, { api_key: { user_id: boss.id } })
  t.match(
    (await call('GET', `/users/${boss.id}`, undefined, asMate)).body,
    { success: true },
    'seeing is no change',
  )
  const signIn = { user: { email: boss.email, password } }
  t.match((await call('POST', '/users/authenticate', signIn, asMate)).body, { success: true })
})

/** A second control plane whose requests can be overtaken between their reads and the commit of their transaction. */
async function startOvertakenPlane(t: Test) {
  const begins = new EventEmitter()
  const gate = await CommandGate.open(testMongodbUri(), (command) => {
    if (command['update'] === 'installation') begins.emit('transaction')
  })
  const other = await startProcess('control-plane', { ...service.settings, MONGODB_URI: gate.uri })
  t.teardown(async () => {
    await other.stop()
    await gate.close()
  })
  const callOther = callerOf(() => other.ready.http ?? '')
  const { installation } = service.collections
  /** Makes the request; once it has read everything, and before its transaction commits, the change is committed. */
  return async (
    change: (session: ClientSession) => Promise<unknown>,
    ...request: Parameters<Call>
  ): Promise<Answer> => {
    const session = service.client.startSession()
    session.startTransaction()
    await installation.updateOne({ _id: 'installation' }, { $inc: { credentials_revision: 1 } }, { session })
    await change(session)
    const begun = once(begins, 'transaction')
    const answer = callOther(...request)
    await Promise.race([begun, answer])
    await session.commitTransaction()
    await session.endSession()
    return answer
  }
}

type Revocation = (key: Json, userId: number, session: ClientSession) => Promise<unknown>

t.test('a request whose key is revoked before it commits is refused and changes nothing', async (t) => {
  const overtake = await startOvertakenPlane(t)
  const { users, apiKeys } = service.collections
  const revoked = { status: 401, body: { error_message: /was revoked or changed meanwhile/ } }
  const revocations: [what: string, revoke: Revocation][] = [
    ['deleted', ({ id }, _, session) => apiKeys.deleteOne({ _id: id }, { session })],
    [
      'switched off',
      ({ id }, _, session) => apiKeys.updateOne({ _id: id }, { $set: { active: false } }, { session }),
    ],
    [
      'of an inactive user',
      (_, user, session) => users.updateOne({ _id: user }, { $set: { active: false } }, { session }),
    ],
    ['of a deleted user', (_, user, session) => users.deleteOne({ _id: user }, { session })],
    [
      'of a user who is less now',
      (_, user, session) => users.updateOne({ _id: user }, { $set: { role: 'standard' } }, { session }),
    ],
  ]
  const bystander = await newUser()
  const requests: [method: string, path: string, body: Json][] = [
    ['POST', '/api_keys', { api_key: { name: 'successor' } }],
    ['POST', '/users', userOf({ full_name: 'successor', email: 'successor@example.com' })],
    ['PUT', `/users/${bystander.id}`, { user: { full_name: 'successor' } }],
    ['PUT', `/users/${bystander.id}/reset_password_failure_lockout`, {}],
  ]
  const successors = async () =>
    (await apiKeys.countDocuments({ name: 'successor' })) +
    (await users.countDocuments({ full_name: 'successor' }))
  for (const [method, path, body] of requests)
    for (const [what, revoke] of revocations) {
      const user = await newUser({ role: 'organization_admin' })
      const key = await keyOf(user)
      const answer = await overtake((session) => revoke(key, user.id, session), method, path, body, {
        key: key.key,
      })
      t.match(answer, revoked, `${method} ${path} with a key ${what}`)
      t.equal(await successors(), 0, `${method} ${path} with a key ${what}`)
    }
})

t.test('a request on a user who is promoted before it commits is refused and changes nothing', async (t) => {
  const overtake = await startOvertakenPlane(t)
  const { users, apiKeys } = service.collections
  const refused = { status: 403, body: { error_message: /^you can't create, change or delete/ } }
  const lockedOut = { password_failures: 5, locked_until: new Date(Date.now() + 600_000) }
  const requests: [method: string, path: (ids: { user: number; key: number }) => string, body?: Json][] = [
    ['PUT', ({ user }) => `/users/${user}`, { user: { full_name: 'Mallory' } }],
    ['DELETE', ({ user }) => `/users/${user}`],
    ['PUT', ({ user }) => `/users/${user}/reset_password_failure_lockout`],
    ['POST', () => '/api_keys', { api_key: { name: 'Mallory' } }],
    ['PUT', ({ key }) => `/api_keys/${key}`, { api_key: { name: 'Mallory', user_id: null } }],
    ['DELETE', ({ key }) => `/api_keys/${key}`],
  ]
  for (const [method, path, body] of requests) {
    const user = await newUser()
    const key = await keyOf(user)
    await users.updateOne({ _id: user.id }, { $set: lockedOut })
    const promoted = (session: ClientSession) =>
      users.updateOne({ _id: user.id }, { $set: { role: 'system_admin' } }, { session })
    const sentBody = method === 'POST' ? { api_key: { ...body.api_key, user_id: user.id } } : body
    const answer = await overtake(promoted, method, path({ user: user.id, key: key.id }), sentBody, asMate)
    t.match(answer, refused, `${method} ${path({ user: user.id, key: key.id })}`)
    t.match(await users.findOne({ _id: user.id }), { full_name: 'Jane Roe', ...lockedOut })
    t.match(await apiKeys.find({ user_id: user.id }).toArray(), [{ name: 'a key' }])
    await users.deleteOne({ _id: user.id })
  }
})

t.test('a user cannot delete itself', async (t) => {
  const user = await newUser({ organization_id: organization.id, role: 'organization_admin' })
  const { key } = await keyOf(user)
  t.match((await call('DELETE', `/users/${user.id}`, undefined, { key })).body, {
    error_code: 'validation_failed',
    error_message: /^you cannot delete your own user/,
  })
  t.match((await call('DELETE', `/users/${user.id}`, undefined, asAdmin)).body, { success: true, data: null })
  t.match((await call('GET', `/users/${user.id}`)).body, { error_code: 'not_found' })
  t.match((await call('DELETE', `/users/${user.id}`)).body, { error_code: 'not_found' })
})

t.test('an active system-admin user is left where there was one, also when two go at once', async (t) => {
  const others = await service.collections.users.find({ role: 'system_admin' }).toArray()
  for (const { _id } of others.slice(1)) await call('DELETE', `/users/${_id}`)
  let last: Json = { id: others[0]!._id }
  const kept = { error_code: 'validation_failed', error_message: /no active system-admin user/ }
  t.match((await call('DELETE', `/users/${last.id}`)).body, kept)
  t.match((await change(last, { active: false })).body, kept)
  t.match((await change(last, { role: 'standard' })).body, kept)
  t.match((await change(last, { full_name: 'Still here' })).body, { success: true })
  for (let round = 0; round < 4; round += 1) {
    const second = await newUser({ role: 'system_admin' })
    const both = await Promise.all([
      round % 2 === 0 ? change(last, { active: false }) : call('DELETE', `/users/${last.id}`),
      round % 2 === 0
        ? change(second, { role: 'organization_admin' })
        : call('DELETE', `/users/${second.id}`),
    ])
    t.equal(both.filter(({ body }) => body.success === true).length, 1, 'one of the two')
    const left = await service.collections.users.find({ role: 'system_admin', active: true }).toArray()
    t.equal(left.length, 1)
    last = { id: left[0]!._id }
  }
})

t.test('the last usable system-admin key is kept against changes of its user too', async (t) => {
  const boss = await newUser({ role: 'system_admin' })
  const { id, key } = await keyOf(boss)
  const asBoss = { key }
  const inactive = await newUser({ role: 'system_admin' })
  const unusable = await keyOf(inactive, { role: 'system_admin' })
  await change(inactive, { active: false })
  for (const other of await get('/api_keys')) {
    if (other.id === unusable.id) continue
    if (other.role === 'system_admin' && other.id !== id)
      t.match((await call('DELETE', `/api_keys/${other.id}`, undefined, asBoss)).body, { success: true })
  }
  t.equal(await status(bootstrapKey), 401)
  const kept = { error_code: 'validation_failed', error_message: /no usable system-admin key/ }
  t.match((await change(boss, { active: false }, asBoss)).body, kept)
  t.match((await change(boss, { role: 'organization_admin' }, asBoss)).body, kept)
  t.match((await call('DELETE', `/api_keys/${id}`, undefined, asBoss)).body, kept)
  t.match((await call('PUT', `/api_keys/${id}`, { api_key: { active: false } }, asBoss)).body, kept)
  t.match((await call('PUT', `/api_keys/${id}`, { api_key: { user_id: null } }, asBoss)).body, kept)

  const second = (
    await call('POST', '/api_keys', { api_key: { name: 'second', role: 'system_admin' } }, asBoss)
  ).body.data
  const [ofKey, ofUser] = await Promise.all([
    call('DELETE', `/api_keys/${second.id}`, undefined, asBoss),
    change(boss, { role: 'organization_admin' }, { key: second.key }),
  ])
  t.ok(ofKey.body.success !== true || ofUser.body.success !== true, 'not both of two at once')
  await until(
    'a usable system-admin key',
    async () =>
      Promise.all([status(key, '/organizations/1/users'), status(second.key, '/organizations/1/users')]),
    (statuses) => statuses.includes(200),
  )
})
