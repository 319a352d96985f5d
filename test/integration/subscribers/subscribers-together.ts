import t from 'tap'
import { createList, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

const { call, get } = service

const create = (listId: number, subscriber: unknown) =>
  call('POST', `/mailing_lists/${listId}/subscribers`, { subscriber })
const update = (listId: number, id: number | string, subscriber: unknown) =>
  call('PUT', `/mailing_lists/${listId}/subscribers/${id}`, { subscriber })
const done = (answers: { body: Json }[]) => answers.filter(({ body }) => body.success === true)

/** The sum of the counters' stripes. */
async function countsOf(listId: number): Promise<{ active: number; unsubscribed: number }> {
  const stripes = await service.collections.subscriberCounts.find({ mailing_list_id: listId }).toArray()
  const sum = (status: 'active' | 'unsubscribed') => stripes.reduce((all, stripe) => all + stripe[status], 0)
  return { active: sum('active'), unsubscribed: sum('unsubscribed') }
}

t.test('creations at the same moment are each added once, or refused by themselves', async (t) => {
  const list = await createList(service, [{ name: 'Points', field_type: 'number' }])
  const other = await createList(service)
  const answers = await Promise.all(
    Array.from({ length: 80 }, (_, i) =>
      create(i % 4 === 3 ? other.id : list.id, {
        email: `p${i % 10 === 0 ? 'twin' : i}@example.com`,
        status: i % 5 === 0 ? 'unsubscribed' : 'active',
        ...(i % 8 === 1 ? { custom_fields: { Nothing: 1 } } : {}),
      }),
    ),
  )
  const refused = answers.flatMap(({ body }, i) => (body.success === true ? [] : [{ i, body }]))
  // Eight twins on the first list of which one is added; ten with an unknown field.
  t.strictSame(
    refused.map(({ i }) => i % 10 === 0 || i % 8 === 1),
    refused.map(() => true),
  )
  t.equal(refused.filter(({ i }) => i % 8 === 1).length, 10)
  const twins = answers.filter((_, i) => i % 10 === 0)
  t.equal(done(twins).length, 1)
  t.ok(refused.every(({ body }) => body.error_code === 'validation_failed'))
  const ids = done(answers).map(({ body }) => body.data.id)
  t.equal(new Set(ids).size, ids.length)
  for (const { id } of [list, other]) {
    const shown = await countsOf(id)
    for (const status of ['active', 'unsubscribed'] as const)
      t.equal(
        shown[status],
        await service.collections.subscribers.countDocuments({ mailing_list_id: id, status }),
      )
  }
})

t.test('concurrent creations fill the limit exactly', async (t) => {
  const { id: organizationId } = await service.post('/organizations', {
    organization: { name: 'Limited', subscriber_limit: 25 },
  })
  const list = await createList(service, [], { organization_id: organizationId })
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => create(list.id, { email: `q${i}@example.com` })),
  )
  t.equal(done(answers).length, 25)
  t.equal(await service.collections.subscribers.countDocuments({ mailing_list_id: list.id }), 25)
})

t.test('updates at the same moment, of one subscriber too, lose nothing', async (t) => {
  const names = Array.from({ length: 12 }, (_, i) => `Field ${i}`)
  const list = await createList(
    service,
    names.map((name) => ({ name, field_type: 'number' })),
  )
  const one = (await create(list.id, { email: 'one@example.com' })).body.data
  const others = await Promise.all(
    Array.from(
      { length: 20 },
      async (_, i) => (await create(list.id, { email: `o${i}@example.com` })).body.data,
    ),
  )
  const answers = await Promise.all([
    ...names.map((name, i) =>
      update(list.id, i % 2 === 0 ? one.id : one.email, { custom_fields: { [name]: i } }),
    ),
    ...others.map(({ id }: Json, i) =>
      update(list.id, id, {
        status: i % 2 === 0 ? 'unsubscribed' : 'active',
        custom_fields: { 'Field 1': i },
      }),
    ),
    update(list.id, others[0].id, { custom_fields: { 'Field 1': 'x' } }),
    update(list.id, 999_999_999, { status: 'active' }),
    update(list.id, others[1].id, { email: 'moved@example.com' }),
  ])
  t.equal(done(answers).length, answers.length - 2)
  t.strictSame(
    answers.slice(-3).map(({ body }) => body.error_code),
    ['validation_failed', 'not_found', null],
  )
  const [after] = await get(`/mailing_lists/${list.id}/subscribers/${one.id}`)
  t.strictSame(
    names.map((name) => after.custom_fields[name].value),
    names.map((_, i) => i),
  )
  t.equal((await get(`/mailing_lists/${list.id}/subscribers/moved@example.com`))[0].id, others[1].id)
  t.match(await countsOf(list.id), { active: 11, unsubscribed: 10 })
})
