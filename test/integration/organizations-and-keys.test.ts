import t from 'tap'
import { startService, type Json } from '../helpers/service.ts'

const service = await startService(t, ['control-plane'])
const { call, get, post } = service

const organization = await post('/organizations', {
  organization: { name: ' Example Ltd ', time_zone_name: 'Europe/Berlin', subscriber_limit: 10 },
})
const keyOf = async (api_key: unknown): Promise<Json> =>
  post(`/organizations/${organization.id}/api_keys`, { api_key })
const admin = await keyOf({ name: 'admin' })
const withoutPermissions = await keyOf({ name: 'nobody', role: 'standard' })

t.test('an organization has a name, a zone and a limit', async (t) => {
  t.same(organization, { id: 2, name: 'Example Ltd', time_zone_name: 'Europe/Berlin', subscriber_limit: 10 })
  t.same((await get('/organizations/1')).name, 'System')
  const changed = await call('PUT', `/organizations/${organization.id}`, {
    organization: { subscriber_limit: null },
  })
  t.match(changed.body.data, { subscriber_limit: null, name: 'Example Ltd' })
  for (const bad of [
    { name: ' ' },
    { name: 'x', time_zone_name: 'Mars' },
    { name: 'x', subscriber_limit: -1 },
    { name: 'x', subscriber_limit: 1.5 },
    { name: 'x', subscriber_limit: '5' },
  ]) {
    t.match(
      (await call('POST', '/organizations', { organization: bad })).body,
      { error_code: 'validation_failed' },
      JSON.stringify(bad),
    )
  }
})

t.test('callers other than system admins see and change only their own organization', async (t) => {
  const own = await call('GET', '/organizations', undefined, { key: admin.key })
  t.match(own.body, { data: [{ id: 2 }], num_records: 1 })
  t.equal(
    (await call('GET', '/organizations/2', undefined, { key: withoutPermissions.key })).body.success,
    true,
    'reading one’s own is for everybody',
  )
  t.match((await call('GET', '/organizations/1', undefined, { key: admin.key })).body, {
    error_code: 'not_found',
  })
  t.equal(
    (await call('PUT', '/organizations/2', { organization: { name: 'Mine' } }, { key: admin.key })).status,
    403,
  )
  t.equal(
    (await call('POST', '/organizations', { organization: { name: 'x' } }, { key: admin.key })).status,
    403,
  )
  t.match((await call('GET', '/organizations/1/api_keys', undefined, { key: admin.key })).body, {
    error_code: 'not_found',
  })
  t.match((await call('GET', '/organizations/2/api_keys', undefined, { key: admin.key })).body, {
    success: true,
  })
  t.match((await call('GET', '/organizations/999/api_keys')).body, { error_code: 'not_found' })
})

t.test('another organization’s records are not there', async (t) => {
  const list = await post('/mailing_lists', { mailing_list: { name: 'Of the system' } })
  for (const path of [
    `/mailing_lists/${list.id}`,
    `/mailing_lists/${list.id}/custom_fields`,
    `/mailing_lists/${list.id}/subscriber_imports`,
  ]) {
    t.match((await call('GET', path, undefined, { key: admin.key })).body, { error_code: 'not_found' }, path)
  }
  const foreign = await call(
    'POST',
    '/mailing_lists',
    { mailing_list: { name: 'x', organization_id: 1 } },
    { key: admin.key },
  )
  t.equal(foreign.body.data.organization_id, 2, 'organization_id is ignored from others than system admins')
  t.equal(
    (
      await post('/mailing_lists', { mailing_list: { name: 'x', organization_id: 2_000 } }).catch(
        (error: unknown) => String(error),
      )
    ).includes('validation_failed'),
    true,
  )
  t.equal(
    (await get(`/mailing_lists/${foreign.body.data.id}`)).id,
    foreign.body.data.id,
    'a system admin reaches every record by its id',
  )
})

t.test('a standard key without a user may do nothing that needs a permission', async (t) => {
  t.equal((await call('GET', '/mailing_lists', undefined, { key: withoutPermissions.key })).status, 200)
  t.equal((await call('GET', '/subscriber_imports', undefined, { key: withoutPermissions.key })).status, 403)
  t.equal(
    (await call('POST', '/mailing_lists', { mailing_list: { name: 'x' } }, { key: withoutPermissions.key }))
      .status,
    403,
  )
  t.equal((await call('GET', '/api_keys', undefined, { key: withoutPermissions.key })).status, 403)
})

t.test('a caller can not create, change or delete a key with more permissions than its own', async (t) => {
  const more = await call(
    'POST',
    '/api_keys',
    { api_key: { name: 'more', role: 'system_admin' } },
    { key: admin.key },
  )
  t.equal(more.status, 403, 'before any other rule about it')
  t.match(
    (await call('POST', '/organizations/2/api_keys', { api_key: { name: 'x', role: 'system_admin' } })).body,
    { error_code: 'validation_failed', error_message: /organization 1/ },
  )
  const mate = await post('/api_keys', { api_key: { name: 'admin of organization 1' } })
  t.equal((await call('DELETE', '/api_keys/1', undefined, { key: mate.key })).status, 403)
  t.equal((await call('PUT', '/api_keys/1', { api_key: { name: 'mine' } }, { key: mate.key })).status, 403)
  t.equal((await call('PUT', '/api_keys/1', { api_key: { name: 5 } }, { key: mate.key })).status, 403)
  t.match((await call('DELETE', `/api_keys/${mate.id}`, undefined, { key: admin.key })).body, {
    error_code: 'not_found',
  })
})

t.test('a usable system-admin key always remains, also when two are removed at once', async (t) => {
  t.match((await call('DELETE', '/api_keys/1')).body, {
    error_code: 'validation_failed',
    error_message: /no usable system-admin key/,
  })
  t.match((await call('PUT', '/api_keys/1', { api_key: { active: false } })).body, {
    error_code: 'validation_failed',
  })
  t.match((await call('PUT', '/api_keys/1', { api_key: { role: 'standard' } })).body, {
    error_code: 'validation_failed',
  })
  const second = await post('/api_keys', { api_key: { name: 'second', role: 'system_admin' } })
  const both = await Promise.all([
    call('DELETE', '/api_keys/1', undefined, { key: second.key }),
    call('DELETE', `/api_keys/${second.id}`),
  ])
  t.equal(both.filter((answer) => answer.body?.success === true).length, 1, 'one of the two goes')
  const left = both[0].body.success === true ? second.key : undefined
  t.equal(
    (await call('GET', '/organizations', undefined, left === undefined ? {} : { key: left })).status,
    200,
  )
})
