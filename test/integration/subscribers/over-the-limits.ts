import t from 'tap'
import { createList } from '../../helpers/service.ts'
import { service } from './service.ts'

/** What is over a limit stays, and may only shrink. */

const { call, collections, get, post } = service

t.test('a subscriber with more than 4 MiB of values keeps them, and may only get smaller', async (t) => {
  const text = (length: number) => 'x'.repeat(length)
  const list = await createList(service, [
    { name: 'Large', field_type: 'text' },
    { name: 'Small', field_type: 'text' },
  ])
  const [large] = await get(`/mailing_lists/${list.id}/custom_fields`)
  const { id } = await post(`/mailing_lists/${list.id}/subscribers`, {
    subscriber: { email: 'a@example.com', custom_fields: { Small: text(1_000) } },
  })
  await collections.subscribers.updateOne(
    { id },
    { $set: { [`custom_fields.${large.id}`]: text(5_000_000) } },
  )
  const put = async (subscriber: object) =>
    (await call('PUT', `/mailing_lists/${list.id}/subscribers/${id}`, { subscriber })).body
  const refusal = { error_code: 'validation_failed', error_message: /would hold more than 4194304 bytes/ }
  t.match(await put({ custom_fields: { Small: text(1_001) } }), refusal, 'a byte more')
  t.match(await put({ custom_fields: { Small: 'y'.repeat(1_000) } }), { success: true }, 'as much')
  t.match(await put({ status: 'deactivated' }), { success: true }, 'something else')
  t.match(await put({ custom_fields: { Small: text(999) } }), { success: true }, 'a byte less')
  t.match(await put({ custom_fields: { Small: text(1_000) } }), refusal, 'and no way back')
  t.match(await put({ custom_fields: { Large: null } }), { success: true })
  t.match(await put({ custom_fields: { Small: text(1_001) } }), { success: true }, 'below the limit')
})

t.test('a list with more than 500 fields keeps them, and gets no other', async (t) => {
  const list = await createList(service, [{ name: 'First', field_type: 'text' }])
  const fields = `/mailing_lists/${list.id}/custom_fields`
  const [first] = await get(fields)
  const stored = (await collections.customFields.findOne({ _id: first.id }))!
  await collections.customFields.insertMany(
    Array.from({ length: 501 }, (_, i) => ({
      ...{ ...stored, _id: 900_000 + i, name: `F${i}`, name_key: `f${i}` },
    })),
  )
  const create = async () =>
    (await call('POST', fields, { custom_field: { name: 'Another', field_type: 'text' } })).body
  const refusedWith = (count: number) => ({
    error_code: 'validation_failed',
    error_message: new RegExp(`has ${count} custom fields, and at most 500`),
  })
  t.match(await create(), refusedWith(502))
  const renamed = await call('PUT', `${fields}/${first.id}`, { custom_field: { name: 'Renamed' } })
  t.match(renamed.body, { success: true })
  for (const id of [900_000, 900_001]) {
    t.match((await call('DELETE', `${fields}/${id}`)).body, { success: true })
    t.match(await create(), refusedWith(900_001 - id + 500))
  }
  t.match((await call('DELETE', `${fields}/900002`)).body, { success: true })
  t.match(await create(), { success: true }, 'the 500th')
})

t.test(
  'an organization over a lowered subscriber limit keeps its subscribers, and gets no other',
  async (t) => {
    const organization = await post('/organizations', { organization: { name: 'Over', subscriber_limit: 4 } })
    const list = await createList(service, [], { organization_id: organization.id })
    const subscribers = `/mailing_lists/${list.id}/subscribers`
    const create = async (email: string, more: object = {}) =>
      (await call('POST', subscribers, { subscriber: { email, ...more } })).body
    const put = async (id: number, subscriber: object) =>
      (await call('PUT', `${subscribers}/${id}`, { subscriber })).body
    const ids: number[] = []
    for (const name of 'abcd') ids.push((await create(`${name}@example.com`)).data.id)
    await call('PUT', `/organizations/${organization.id}`, { organization: { subscriber_limit: 2 } })
    const refusal = { error_code: 'validation_failed', error_message: /subscriber limit/ }
    t.match(await create('e@example.com'), refusal)
    t.match(await create('e@example.com', { status: 'unsubscribed' }), { success: true })
    t.match(await put(ids[0]!, { email: 'aa@example.com' }), { success: true }, 'an active one stays active')
    for (const id of ids.slice(0, 2)) {
      t.match(await put(id, { status: 'deactivated' }), { success: true })
      t.match(await put(id, { status: 'active' }), refusal, 'and no way back')
    }
    t.match(await put(ids[2]!, { status: 'deactivated' }), { success: true })
    t.match(await create('f@example.com'), { success: true }, 'below the limit')
  },
)
