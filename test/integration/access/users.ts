import t, { type Test } from 'tap'
import { permissionValues } from '../../../shared/contract/schemas/user.ts'
import { type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

const { call, post, collections } = service

const organization = await post('/organizations', {
  organization: { name: 'Example Ltd', time_zone_name: 'Europe/Berlin' },
})
const adminKey: string = (
  await post(`/organizations/${organization.id}/api_keys`, { api_key: { name: 'admin' } })
).key
const asAdmin = { key: adminKey }

const password = 'correct horse battery'
const someone = (fields: Json = {}): Json => ({
  full_name: 'Jane Roe',
  email: 'jane@example.com',
  active: true,
  role: 'standard',
  password1: password,
  password2: password,
  ...fields,
})
const create = (fields: Json = {}, options = {}) => call('POST', '/users', { user: someone(fields) }, options)
const change = async (id: number, fields: Json, options = {}) =>
  (await call('PUT', `/users/${id}`, { user: fields }, options)).body
const none = Object.fromEntries(Object.keys(permissionValues).map((key) => [key, []]))

t.test('a user has each documented field, with its default', async (t) => {
  const { body } = await create({ full_name: '  Jane Roe ', email: ' Jane@Example.com ' }, asAdmin)
  const { id } = body.data
  t.same(body.data, {
    id,
    organization_id: organization.id,
    full_name: 'Jane Roe',
    email: 'Jane@Example.com',
    active: true,
    role: 'standard',
    show_quick_tips: true,
    default_preview_recipients: [],
    terms_and_conditions_version: null,
    permissions: none,
    password_failure_lockout: { is_locked_out: false, expires_at: null },
  })
  t.same((await call('GET', `/users/${id}`, undefined, asAdmin)).body.data, body.data)
  const stored = await collections.users.findOne({ _id: id })
  t.match(stored!.password_hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.notMatch(JSON.stringify(stored), password)
})

/** What is wrong, the fields that differ from a user without faults, and the message of the refusal. */
type Fault = [what: string, fields: Json, message: RegExp]

async function checkRefusedCreations(t: Test, faults: readonly Fault[]): Promise<void> {
  const before = await collections.users.countDocuments()
  const answers: Json[] = []
  for (const [what, fields] of faults) {
    const { status, body } = await create({ email: 'other@example.com', ...fields }, asAdmin)
    answers.push({ what, status, ...body })
  }
  t.match(
    answers,
    faults.map(([what, , message]) => ({
      ...{ what, status: 200 },
      ...{ error_code: 'validation_failed', error_message: message },
    })),
  )
  t.equal(await collections.users.countDocuments(), before, 'and no user is created')
}

t.test('a creation names each fault of name, address, activity and role', async (t) => {
  await checkRefusedCreations(t, [
    ['no full_name', { full_name: undefined }, /^full_name is required$/],
    ['null full_name', { full_name: null }, /^full_name is required$/],
    ['blank full_name', { full_name: ' \t' }, /^full_name must not be blank$/],
    ['long full_name', { full_name: 'x'.repeat(101) }, /^full_name must have at most 100 characters$/],
    ['full_name of another type', { full_name: 5 }, /^full_name must be a string$/],
    ['no email', { email: undefined }, /^email is required$/],
    ['no address', { email: 'jane' }, /^email must be an email address$/],
    ['IDN', { email: 'jane@bücher.example' }, /^email must have a domain in ASCII/],
    ['no active', { active: undefined }, /^active is required$/],
    ['active as text', { active: 'true' }, /^active must be a boolean$/],
    ['no role', { role: undefined }, /^role is required$/],
    [
      'unknown role',
      { role: 'owner' },
      /^role must be one of "system_admin", "organization_admin", "standard"$/,
    ],
  ])
})

t.test('a creation names each fault of its passwords', async (t) => {
  const longest = 'é'.repeat(512)
  await checkRefusedCreations(t, [
    [
      'no passwords',
      { password1: undefined, password2: undefined },
      /^password1 is required; password2 is required$/,
    ],
    ['one password', { password2: undefined }, /^password2 is required$/],
    ['different passwords', { password2: 'correct horse' }, /^password2 must be the same as password1$/],
    [
      'short password',
      { password1: '1234567', password2: '1234567' },
      /^password1 must have at least 8 characters$/,
    ],
    [
      'short password of long characters',
      { password1: '😀'.repeat(7), password2: '😀'.repeat(7) },
      /at least 8/,
    ],
    [
      'long password',
      { password1: `${longest}x`, password2: `${longest}x` },
      /^password1 must have at most 1024 bytes/,
    ],
    [
      'password as number',
      { password1: 12345678, password2: 12345678 },
      /^password1 must be a string; password2/,
    ],
    [
      'two faults',
      { email: 'x', password2: 'other' },
      /^email must be an email address; password2 must be the same/,
    ],
  ])
})

t.test('a creation names each fault of preferences and permissions', async (t) => {
  await checkRefusedCreations(t, [
    ['tips as number', { show_quick_tips: 1 }, /^show_quick_tips must be a boolean$/],
    ['recipients as text', { default_preview_recipients: 'a@example.com' }, /recipients must be an array$/],
    [
      'bad recipient',
      { default_preview_recipients: ['a@example.com', 'b'] },
      /^default_preview_recipients\.1 must be/,
    ],
    [
      'many recipients',
      { default_preview_recipients: Array.from({ length: 101 }, (_, i) => `${i}@example.com`) },
      /at most 100 entries$/,
    ],
    [
      'terms as text',
      { terms_and_conditions_version: '1' },
      /^terms_and_conditions_version must be an integer/,
    ],
    ['negative terms', { terms_and_conditions_version: -1 }, /at least 0$/],
    ['terms that are off', { terms_and_conditions_version: 0 }, /no terms and conditions to agree to$/],
    [
      'unknown permission',
      { permissions: { nothing: [] } },
      /^permissions has the unknown key nothing: allowed are mailing_list, .*, seed_list$/,
    ],
    [
      'unknown value',
      { permissions: { mailing_list: ['create', 'read'] } },
      /^permissions\.mailing_list\.1 must be one of/,
    ],
    [
      'permission as text',
      { permissions: { mailing_list: 'create' } },
      /^permissions\.mailing_list must be an array$/,
    ],
    ['permissions as list', { permissions: ['mailing_list'] }, /^permissions must be a hash$/],
  ])
})

t.test('a creation whose body has another shape is refused, prototype keys included', async (t) => {
  const before = await collections.users.countDocuments()
  const polluted = `{"user": ${JSON.stringify(someone({ email: 'p@example.com' })).slice(0, -1)}, "permissions": {"__proto__": ["x"]}}}`
  t.match((await call('POST', '/users', polluted, asAdmin)).body, {
    error_code: 'validation_failed',
    error_message: /has the unknown key __proto__: allowed/,
  })
  for (const bad of [undefined, [], { full_name: 'x' }, { user: [] }, '{'])
    t.match((await call('POST', '/users', bad, asAdmin)).body, { error_code: 'invalid_request' })
  t.equal(await collections.users.countDocuments(), before)
})

t.test('operators are values like others, and refused', async (t) => {
  for (const user of [
    { email: { $ne: null }, password: 'x' },
    { email: 'jane@example.com', password: { $ne: '' } },
  ])
    t.match((await call('POST', '/users/authenticate', { user })).body, { error_code: 'validation_failed' })
})

t.test('unknown and read-only keys are ignored', async (t) => {
  const { body } = await create(
    {
      email: 'readonly@example.com',
      id: 77,
      organization_id: 1,
      password_failure_lockout: { is_locked_out: true },
      password_hash: 'x',
      nonsense: { $set: 1 },
    },
    asAdmin,
  )
  t.match(body.data, { organization_id: organization.id, password_failure_lockout: { is_locked_out: false } })
  t.not(body.data.id, 77)
  const changed = await change(
    body.data.id,
    { id: 78, organization_id: 1, email_key: 'x', locked_until: 'x' },
    asAdmin,
  )
  t.same(changed.data, body.data)
  await call('DELETE', `/users/${body.data.id}`, undefined, asAdmin)
})

t.test('emails are unique without case over the system', async (t) => {
  t.match((await create({ email: 'JANE@example.com' })).body, {
    error_code: 'validation_failed',
    error_message: /^email is taken/,
  })
  const other = (await create({ email: 'unique@example.com' })).body.data
  t.match(await change(other.id, { email: 'Jane@example.com' }), { error_message: /^email is taken/ })
  t.match(await change(other.id, { email: 'UNIQUE@example.com' }), { data: { email: 'UNIQUE@example.com' } })
  const many = await Promise.all(Array.from({ length: 8 }, () => create({ email: 'race@example.com' })))
  t.equal(many.filter((answer) => answer.body.success === true).length, 1, 'also when they come at once')
  await call('DELETE', `/users/${other.id}`)
  t.match(
    (await create({ email: 'unique@example.com' })).body,
    { success: true },
    'a deleted one is free again',
  )
})

t.test('an update changes what it names', async (t) => {
  const { id } = (await create({ email: 'update@example.com' }, asAdmin)).body.data
  const update = (fields: Json) => change(id, fields, asAdmin)
  t.match(await update({ full_name: 'New Name' }), {
    data: { full_name: 'New Name', email: 'update@example.com' },
  })
  t.match(await update({ active: false, show_quick_tips: false }), {
    data: { active: false, show_quick_tips: false },
  })
  t.match(await update({ default_preview_recipients: [' a@example.com '] }), {
    data: { default_preview_recipients: ['a@example.com'] },
  })
  t.match(await update({ default_preview_recipients: null }), { data: { default_preview_recipients: [] } })
  t.match(await update({ role: 'organization_admin' }), { data: { role: 'organization_admin' } })
  t.match(await update({}), { data: { role: 'organization_admin', full_name: 'New Name' } })
  for (const field of ['full_name', 'email', 'active', 'role', 'show_quick_tips', 'password1'])
    t.match(await update({ [field]: null }), { error_code: 'validation_failed' }, `${field} can't be null`)
  t.match(await update({ permissions: null }), { success: true }, 'null is no hash given')
  for (const one of ['password1', 'password2'])
    t.match(
      await update({ [one]: 'another password' }),
      { error_message: /^password2 must be the same/ },
      one,
    )
  const before = await collections.users.findOne({ _id: id })
  t.match(await update({ password1: 'another password', password2: 'another password' }), { success: true })
  const after = await collections.users.findOne({ _id: id })
  t.not(after!.password_hash, before!.password_hash)
  await Promise.all([
    update({ full_name: 'One' }),
    update({ active: true }),
    update({ show_quick_tips: true }),
  ])
  t.match(
    (await call('GET', `/users/${id}`, undefined, asAdmin)).body.data,
    {
      full_name: 'One',
      active: true,
      show_quick_tips: true,
    },
    'updates of several fields at once are all kept',
  )
})

t.test('permissions replace the keys that are named; admin roles show all', async (t) => {
  const { id, permissions } = (
    await create(
      {
        email: 'may@example.com',
        permissions: { subscriber: ['import', 'read', 'read'], 'campaign/template': ['update'] },
      },
      asAdmin,
    )
  ).body.data
  t.same(permissions, { ...none, subscriber: ['read', 'import'], 'campaign/template': ['update'] })
  const updated = await change(
    id,
    { permissions: { subscriber: ['export'], seed_list: ['create'] } },
    asAdmin,
  )
  t.same(updated.data.permissions, {
    ...none,
    subscriber: ['export'],
    seed_list: ['create'],
    'campaign/template': ['update'],
  })
  t.match(await change(id, { permissions: { subscriber: null } }, asAdmin), {
    error_code: 'validation_failed',
  })
  const asAnAdmin = await change(id, { role: 'organization_admin' }, asAdmin)
  t.same(asAnAdmin.data.permissions, permissionValues)
  const demoted = await change(id, { role: 'standard' }, asAdmin)
  t.same(demoted.data.permissions, updated.data.permissions)
})

t.test('a version of the terms needs the setting, but may stay without it', async (t) => {
  const { id } = (await create({ email: 'terms@example.com' })).body.data
  t.match(await change(id, { terms_and_conditions_version: 1 }), { error_code: 'validation_failed' })
  await collections.users.updateOne({ _id: id }, { $set: { terms_and_conditions_version: 3 } })
  t.match(await change(id, { terms_and_conditions_version: 3, active: false }), {
    data: { terms_and_conditions_version: 3 },
  })
  t.match(await change(id, { terms_and_conditions_version: 4 }), { error_code: 'validation_failed' })
  t.match(await change(id, { terms_and_conditions_version: null }), {
    data: { terms_and_conditions_version: null },
  })
})

/** The first letters of the emails of all users, by pages of one that each name the next one's token. */
async function firstLettersByToken(order: string): Promise<string[]> {
  const found: string[] = []
  let token = ''
  for (let pages = 0; pages < 9; pages += 1) {
    const { body } = await call('GET', `/users?order_by=${order}&per_page=1${token}`)
    found.push(...body.data.map((user: Json) => user.email[0]))
    if (body.next_page_token === null) break
    token = `&page_token=${encodeURIComponent(body.next_page_token)}`
  }
  return found
}

t.test('a list is filtered without case, ordered and paged', async (t) => {
  await collections.users.deleteMany({})
  const names: [string, string, Json][] = [
    ['Émile Zola', 'b_emile@example.com', {}],
    ['anna (x)', 'C.anna@example.com', {}],
    ['Bob', 'a%bob@example.org', {}],
    ['bob', 'd@example.org', asAdmin],
  ]
  for (const [full_name, email, options] of names) await create({ full_name, email }, options)
  const emails = async (query: string, options = {}) =>
    (await call('GET', `/users${query}`, undefined, options)).body.data.map((user: Json) => user.email[0])
  t.same(await emails(''), ['b', 'C', 'a', 'd'], 'a system admin sees all, by id')
  t.same(await emails('', asAdmin), ['d'], 'others their own')
  t.same(await emails('?full_name=BOB'), ['a', 'd'])
  t.same(await emails('?full_name=bo'), [])
  t.same(await emails('?full_name_contains=bO'), ['a', 'd'])
  t.same(await emails(`?full_name_contains=${encodeURIComponent('éM')}`), ['b'])
  t.same(await emails('?full_name_contains=(X)'), ['C'], 'no pattern')
  t.same(await emails('?full_name_contains=.*'), [])
  t.same(await emails('?full_name_contains=%00'), [])
  t.same(await emails('?full_name_contains=$where'), [])
  t.same(await emails('?email=c.ANNA@example.com'), ['C'])
  t.same(await emails('?email_contains=EXAMPLE.org&full_name=bob'), ['a', 'd'])
  t.same(await emails('?email_contains=%25'), ['a'])
  t.same(await emails('?order_by=email'), ['a', 'b', 'C', 'd'])
  t.same(await emails('?order_by=full_name'), ['C', 'a', 'd', 'b'])
  t.same(await firstLettersByToken('email'), ['a', 'b', 'C', 'd'], 'page by page')
  t.same(await firstLettersByToken('full_name'), ['C', 'a', 'd', 'b'])
  t.match((await call('GET', '/users?per_page=3&page=1')).body, {
    page: 1,
    per_page: 3,
    num_records: 4,
    num_pages: 2,
    data: [{ full_name: 'bob' }],
  })
  t.match((await call('GET', '/users?per_page=9999')).body, { per_page: 2000 })
  for (const query of ['per_page=0', 'page=-1', 'order_by=role', 'email=a&email=b', 'page=x'])
    t.match((await call('GET', `/users?${query}`)).body, { error_code: 'invalid_request' }, query)
  t.match((await call('GET', `/organizations/${organization.id}/users`)).body, { num_records: 1 })
  t.match((await call('GET', `/organizations/${organization.id}/users`, undefined, asAdmin)).body, {
    num_records: 1,
  })
  for (const id of ['1', '999', 'x', 'all'])
    t.match(
      (await call('GET', `/organizations/${id}/users`, undefined, asAdmin)).body,
      { success: false },
      id,
    )
  t.match((await call('GET', '/organizations/all/users')).body, { error_code: 'not_found' })
})

t.test('a system admin may create users of any organization', async (t) => {
  const { body } = await create({ email: 'given@example.com', organization_id: organization.id })
  t.equal(body.data.organization_id, organization.id)
  t.match((await create({ email: 'nowhere@example.com', organization_id: 999 })).body, {
    error_code: 'validation_failed',
    error_message: /^organization_id/,
  })
  t.match(
    (await create({ email: 'boss@example.com', organization_id: organization.id, role: 'system_admin' }))
      .body,
    {
      error_code: 'validation_failed',
      error_message: /^role can be system_admin only in organization 1$/,
    },
  )
})
