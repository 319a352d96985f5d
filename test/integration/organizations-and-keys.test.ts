import t from 'tap'
import { startService } from '../helpers/service.ts'

const service = await startService(t, ['control-plane'])
const { call, get, post } = service

const organization = await post('/organizations', {
  organization: { name: ' Example Ltd ', time_zone_name: 'Europe/Berlin', subscriber_limit: 10 },
})

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
