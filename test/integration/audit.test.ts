import t from 'tap'
import { createList, importEnd, startService, type Json } from '../helpers/service.ts'

/** The audit trail: who changed what, in the transaction of the change. */

const service = await startService(t, ['control-plane', 'engine'], { FTP_PORT: '0' })
const { call, get, post, collections } = service
const eventsOf = (query: string): Promise<Json[]> => get(`/audit_events?${query}`)

const first = await eventsOf('')
const organization = await post('/organizations', { organization: { name: 'Acme' } })
const admin = await post(`/organizations/${organization.id}/api_keys`, { api_key: { name: 'Ann at Acme' } })
const asAdmin = { key: admin.key as string }
const acme = async (method: string, path: string, body?: unknown, headers = {}) => {
  const { body: reply } = await call(method, path, body, { ...asAdmin, headers })
  return reply.data
}
const byAnn = {
  ...{ organization_id: organization.id, by: 'api', address: '127.0.0.1' },
  ...{ api_key_id: admin.id, api_key_name: 'Ann at Acme', user_id: null, user_name: null },
}
const byFirstKey = { by: 'api', api_key_id: 1, api_key_name: 'First key', address: '127.0.0.1' }

t.test('the first key was made by the service', async (t) => {
  t.same(first, [
    {
      ...{ id: 1, organization_id: 1, occurred_at: first[0].occurred_at, action: 'created' },
      ...{ record_type: 'api_key', record_id: 1, record_name: 'First key', by: 'service', changes: [] },
      ...{ api_key_id: null, api_key_name: null, user_id: null, user_name: null, address: null },
    },
  ])
})

t.test('an event belongs to the organization of its record', async (t) => {
  const events = await eventsOf(`organization_id=${organization.id}`)
  t.match(events.toReversed(), [
    { ...byFirstKey, action: 'created', record_type: 'organization', record_id: organization.id },
    {
      ...byFirstKey,
      action: 'created',
      record_type: 'api_key',
      record_id: admin.id,
      record_name: 'Ann at Acme',
    },
  ])
  t.same(await acme('GET', '/audit_events'), events, 'and its own admin sees it')
  t.same(await acme('GET', `/audit_events?organization_id=${organization.id}`), events)
  t.match(await call('GET', '/audit_events?organization_id=1', undefined, asAdmin), {
    body: { error_code: 'not_found' },
  })
  await post('/mailing_lists', { mailing_list: { name: 'By the system', organization_id: organization.id } })
  t.match((await acme('GET', '/audit_events'))[0], { ...byFirstKey, record_name: 'By the system' })
})

t.test('changes are told with the names of their fields, never with values', async (t) => {
  const list = await acme('POST', '/mailing_lists', { mailing_list: { name: 'News' } })
  await acme('PUT', `/mailing_lists/${list.id}`, { mailing_list: { name: 'Old news', has_format: false } })
  await acme('PUT', `/mailing_lists/${list.id}`, { mailing_list: { name: 'Old news' } })
  t.match(await ofAcme('mailing_list', list.id), [
    { ...byAnn, action: 'created', record_name: 'News', changes: [] },
    { ...byAnn, action: 'updated', record_name: 'Old news', changes: ['name'] },
  ])
  t.equal((await ofAcme('mailing_list', list.id)).length, 2, 'a change without effect is none')

  const fields = `/mailing_lists/${list.id}/custom_fields`
  const field = await acme('POST', fields, { custom_field: { name: 'Plan', field_type: 'text' } })
  await acme('PUT', `${fields}/${field.id}`, {
    custom_field: { required: true, maximum_length: 20, name: 'Plan' },
  })
  await acme('DELETE', `${fields}/${field.id}`)
  t.match(await ofAcme('custom_field', field.id), [
    { ...byAnn, action: 'created', record_name: 'Plan' },
    { ...byAnn, action: 'updated', changes: ['maximum_length', 'required'] },
    { ...byAnn, action: 'deleted', record_name: 'Plan', changes: [] },
  ])

  const key = await acme('POST', '/api_keys', { api_key: { name: 'Job' } })
  await acme('PUT', `/api_keys/${key.id}`, { api_key: { name: 'Night job', active: false } })
  await acme('DELETE', `/api_keys/${key.id}`)
  t.match(await ofAcme('api_key', key.id), [
    { ...byAnn, action: 'created', record_name: 'Job' },
    { ...byAnn, action: 'updated', record_name: 'Night job', changes: ['active', 'name'] },
    { ...byAnn, action: 'deleted', record_name: 'Night job' },
  ])

  await call('PUT', `/organizations/${organization.id}`, {
    organization: { subscriber_limit: 100, time_zone_name: 'UTC' },
  })
  t.match((await ofAcme('organization', organization.id)).at(-1), {
    ...{ ...byFirstKey, action: 'updated', record_name: 'Acme', changes: ['subscriber_limit'] },
  })
})

t.test('of a user the full name is told, and a password by its name alone', async (t) => {
  const password = 'correct horse battery'
  const user = await acme('POST', '/users', {
    user: {
      ...{ full_name: 'Bob Roe', email: 'bob@example.com', active: true, role: 'standard' },
      ...{ password1: password, password2: password, permissions: { subscriber: ['import'] } },
    },
  })
  const changed = {
    ...{ password1: `${password}!`, password2: `${password}!` },
    permissions: { subscriber: ['import', 'read'] },
  }
  await acme('PUT', `/users/${user.id}`, { user: changed })
  // Nothing of it is new.
  const same = { ...changed, permissions: { subscriber: ['read', 'import', 'read'], campaign: [] } }
  await acme('PUT', `/users/${user.id}`, { user: same })
  await collections.users.updateOne(
    { _id: user.id },
    { $set: { locked_until: new Date(Date.now() + 600_000) } },
  )
  for (const _ of [1, 2]) await acme('PUT', `/users/${user.id}/reset_password_failure_lockout`)

  const key = await acme('POST', '/api_keys', { api_key: { name: "Bob's", user_id: user.id } })
  const list = await acme('POST', '/mailing_lists', { mailing_list: { name: 'Of Bob' } })
  const created = await call('POST', `/mailing_lists/${list.id}/subscriber_imports`, inYears, {
    key: key.key,
  })
  t.match(await ofAcme('subscriber_import', created.body.data.id), [
    { api_key_id: key.id, api_key_name: "Bob's", user_id: user.id, user_name: 'Bob Roe' },
  ])
  await acme('DELETE', `/users/${user.id}`)
  t.match(await ofAcme('user', user.id), [
    { ...byAnn, action: 'created', record_name: 'Bob Roe' },
    { ...byAnn, action: 'updated', changes: ['password', 'permissions'] },
    { ...byAnn, action: 'updated', changes: [] },
    { ...byAnn, action: 'deleted' },
  ])
  const text = JSON.stringify(await acme('GET', '/audit_events'))
  for (const secret of [password, 'bob@example.com', key.key, admin.key])
    t.notOk(text.includes(secret), secret)
})

const inYears = {
  subscriber_import: {
    ...{ begins_at: '2999-01-31T08:00:00Z', column_mapping: ['email'] },
    file_source: { type: 'json', content: 'ann@example.com\n' },
  },
}

t.test('of an import its creation and what callers do to it, not what becomes of it', async (t) => {
  const list = await acme('POST', '/mailing_lists', { mailing_list: { name: 'Imports' } })
  const path = `/mailing_lists/${list.id}/subscriber_imports`
  const again = { 'idempotency-key': 'once' }
  const created = await acme('POST', path, inYears, again)
  t.equal((await acme('POST', path, inYears, again)).id, created.id)
  for (const move of ['pause', 'pause', 'unpause', 'cancel', 'cancel'])
    await acme('POST', `/subscriber_imports/${created.id}/${move}`)
  t.match(await ofAcme('subscriber_import', created.id), [
    { ...byAnn, action: 'created', record_name: 'data' },
    { ...byAnn, action: 'paused' },
    { ...byAnn, action: 'unpaused' },
    { ...byAnn, action: 'cancelled' },
  ])
  t.equal(
    (await ofAcme('subscriber_import', created.id)).length,
    4,
    'what is refused or a replay is no event',
  )
  const { id } = await acme('POST', path, {
    subscriber_import: { ...inYears.subscriber_import, begins_at: 'now' },
  })
  await importEnd(service, id)
  t.match(await ofAcme('subscriber_import', id), [{ action: 'created' }])
  t.equal((await ofAcme('subscriber_import', id)).length, 1)
})

t.test('where an event can not be written, nothing is changed', async (t) => {
  const list = await createList(service)
  const waiting = await post(`/mailing_lists/${list.id}/subscriber_imports`, inYears)
  const validator = (schema: object) => service.db.command({ collMod: 'audit_events', validator: schema })
  const [{ options }] = (await service.db.listCollections({ name: 'audit_events' }).toArray()) as Json[]
  await validator({ _id: { $lt: 0 } })
  const refused = await Promise.all([
    call('POST', '/mailing_lists', { mailing_list: { name: 'Untold' } }),
    call('POST', '/organizations', { organization: { name: 'Untold' } }),
    call('POST', '/api_keys', { api_key: { name: 'Untold' } }),
    call('POST', `/mailing_lists/${list.id}/subscriber_imports`, inYears),
    call('POST', `/subscriber_imports/${waiting.id}/pause`),
    call('POST', `/subscriber_imports/${waiting.id}/cancel`),
    call('PUT', `/mailing_lists/${list.id}`, { mailing_list: { name: 'Untold' } }),
  ])
  await validator(options.validator)
  t.same(
    refused.map(({ status }) => status),
    refused.map(() => 500),
  )
  t.equal(await collections.mailingLists.countDocuments({ name: 'Untold' }), 0)
  t.equal(await collections.organizations.countDocuments({ name: 'Untold' }), 0)
  t.equal(await collections.apiKeys.countDocuments({ name: 'Untold' }), 0)
  t.equal(await collections.imports.countDocuments({ mailing_list_id: list.id }), 1)
  t.match(await collections.imports.findOne({ _id: waiting.id }), { state: 'scheduled', fence: 0 })
})

t.test('filters and pages', async (t) => {
  const all = await eventsOf(`organization_id=${organization.id}&per_page=500`)
  t.same(
    all.map(({ id }) => id),
    all.map(({ id }) => id).toSorted((a, b) => b - a),
    'newest first',
  )
  const filtered = (query: string) => eventsOf(`organization_id=${organization.id}&per_page=500&${query}`)
  t.same(
    await filtered('action=updated,deleted&record_type=custom_field,api_key'),
    all.filter(
      ({ action, record_type: type }) =>
        ['updated', 'deleted'].includes(action) && ['custom_field', 'api_key'].includes(type),
    ),
  )
  t.same(
    await filtered(`api_key_id=${admin.id}`),
    all.filter(({ api_key_id: id }) => id === admin.id),
  )
  const old = { _id: all.at(-1).id }
  await collections.auditEvents.updateOne(old, { $set: { occurred_at: new Date('2026-01-31T08:00:00Z') } })
  t.match(await filtered('until=2026-01-31T08:00:01Z'), [{ id: old._id }])
  t.same(await filtered('until=2026-01-31T08:00:00Z'), [])
  t.equal((await filtered('since=2026-01-31T08:00:00Z')).length, all.length)
  t.equal((await filtered('since=2026-01-31T08:00:01Z')).length, all.length - 1)

  const ids: number[] = []
  let token: string | null = ''
  let pages = 0
  do {
    const query: string = token === '' ? '' : `&page_token=${encodeURIComponent(token)}`
    const { body } = await call('GET', `/audit_events?organization_id=${organization.id}&per_page=7${query}`)
    ids.push(...body.data.map(({ id }: Json) => id))
    token = body.next_page_token
    pages += 1
  } while (token !== null)
  t.equal(pages, Math.ceil(all.length / 7))
  t.same(
    ids,
    all.map(({ id }) => id),
  )
})

t.test('whoami says whose key it is and what it may do', async (t) => {
  t.match(await acme('GET', '/whoami'), {
    ...{ api_key: { id: admin.id, name: 'Ann at Acme' }, user: null, role: 'organization_admin' },
    organization: { id: organization.id, name: 'Acme', time_zone_name: 'UTC' },
    permissions: { subscriber: ['create', 'update', 'delete', 'read', 'import', 'export'] },
  })
  const { key } = await acme('POST', '/api_keys', { api_key: { name: 'Nothing', role: 'standard' } })
  const { body } = await call('GET', '/whoami', undefined, { key })
  t.match(body.data, { role: 'standard', permissions: { subscriber: [] } })
})

const ofAcme = (type: string, id: number): Promise<Json[]> =>
  acme('GET', `/audit_events?record_type=${type}&record_id=${id}`).then((events: Json[]) =>
    events.toReversed(),
  )
