import t from 'tap'
import { autoresponder } from '../../helpers/autoresponder.ts'
import { createList, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

/** Mails that a request asks for, and what it makes of their subscriber. */

const { call, post, collections } = service

const add = (listId: number, email: string, more: object = {}): Promise<Json> =>
  post(`/mailing_lists/${listId}/subscribers`, {
    subscriber: { email, skip_autoresponders: true, ...more },
  })
const trigger = async (
  listId: number,
  subscriber: number | string,
  body: unknown,
  key?: string,
): Promise<Json> => {
  const path = `/mailing_lists/${listId}/subscribers/${encodeURIComponent(subscriber)}/trigger_autoresponders`
  return (await call('POST', path, body, key === undefined ? {} : { key })).body
}

let nextAutoresponder = 1_000_000
async function addAutoresponder(listId: number, name: string, more: object = {}): Promise<number> {
  const _id = nextAutoresponder++
  await collections.autoresponders.insertOne(
    autoresponder({ _id, mailing_list_id: listId, name, trigger: 'api', ...more }),
  )
  return _id
}

const reactionsOn = (listId: number) =>
  collections.reactions.find({ mailing_list_id: listId }).sort({ id: 1 }).toArray()
async function answered(listId: number): Promise<number[]> {
  const ids = (await reactionsOn(listId)).map((reaction) => reaction.autoresponder_id)
  await collections.reactions.deleteMany({ mailing_list_id: listId })
  return ids
}

async function countsOfList(listId: number): Promise<Record<string, number>> {
  const stripes = await collections.subscriberCounts.find({ mailing_list_id: listId }).toArray()
  const sum = (status: 'active' | 'unsubscribed') => stripes.reduce((total, one) => total + one[status], 0)
  return { active: sum('active'), unsubscribed: sum('unsubscribed') }
}

t.test('autoresponders are named by patterns or ids, each of them answers once', async (t) => {
  const list = await createList(service)
  const other = await createList(service)
  const order = await addAutoresponder(list.id, 'Order placed')
  const sent = await addAutoresponder(list.id, 'Order sent', { paused: true, paused_at: new Date() })
  const welcome = await addAutoresponder(list.id, 'Welcome', { trigger: 'subscription' })
  const foreign = await addAutoresponder(other.id, 'Order elsewhere')
  const { id } = await add(list.id, 'a@example.com')

  const reply = await trigger(list.id, id, { autoresponder_names: ['order *', 'ORDER SENT', '*placed'] })
  t.match(reply, {
    success: true,
    data: { subscriber: { id, status: 'active' }, subscription_result: 'remained_active' },
  })
  t.same(reply.data.triggered_autoresponders, [
    { id: order, name: 'Order placed' },
    { id: sent, name: 'Order sent' },
  ])
  t.match(await reactionsOn(list.id), [
    { autoresponder_id: order, subscriber_id: id, import_id: null, state: 'queued' },
    { autoresponder_id: sent, subscriber_id: id, import_id: null, state: 'queued' },
  ])
  t.same(await answered(list.id), [order, sent])
  await trigger(list.id, 'A@example.com', { autoresponder_ids: [welcome, order, welcome] })
  t.same(await answered(list.id), [order, welcome], 'whatever triggers them otherwise')
  await trigger(list.id, id, { autoresponder_names: ['*'], autoresponder_ids: null })
  await trigger(list.id, id, { autoresponder_names: [], autoresponder_ids: [order] })
  t.same(await answered(list.id), [order, sent, welcome, order])

  const cases = [
    [{}, 'invalid_request', /^exactly one of/],
    [{ autoresponder_names: [] }, 'invalid_request', /^exactly one of/],
    [{ autoresponder_names: ['*'], autoresponder_ids: [order] }, 'invalid_request', /^exactly one of/],
    [{ autoresponder_names: ['*', 'nothing*'] }, 'not_found', /no autoresponder "nothing\*"$/],
    [{ autoresponder_names: ['*', ''] }, 'not_found', /no autoresponder ""$/],
    [
      { autoresponder_ids: [order, foreign, 99] },
      'not_found',
      new RegExp(`no autoresponder ${foreign}, 99$`),
    ],
    [{ autoresponder_ids: [0] }, 'validation_failed', /^autoresponder_ids.0 must be at least 1$/],
    [{ autoresponder_ids: ['1'] }, 'validation_failed', /^autoresponder_ids.0 must be an integer$/],
    [{ autoresponder_names: 'x' }, 'validation_failed', /^autoresponder_names must be an array$/],
    [{ autoresponder_names: Array(101).fill('*') }, 'requested_too_many', /^101 autoresponders/],
    [{ autoresponder_ids: Array(101).fill(order) }, 'requested_too_many', /^101 autoresponders/],
    [{ autoresponder_names: ['x'.repeat(1_001)] }, 'validation_failed', /at most 1000 characters/],
  ] as const
  const answers: unknown[] = []
  for (const [body] of cases) answers.push([body, await trigger(list.id, id, body)])
  t.match(
    answers,
    cases.map(([body, error_code, error_message]) => [body, { success: false, error_code, error_message }]),
  )
  t.same(await answered(list.id), [])
})

/** A list with an autoresponder for triggers, one that welcomes new subscribers, and one that ignores the API. */
async function listThatWelcomes() {
  const list = await createList(service)
  const named = await addAutoresponder(list.id, 'Named', {
    delay: 'with_delay',
    delay_amount: 2,
    delay_unit: 'hours',
  })
  const welcome = await addAutoresponder(list.id, 'Welcome', { trigger: 'subscription' })
  await addAutoresponder(list.id, 'Not from API', { trigger: 'subscription', trigger_run_on_api: false })
  const body = { autoresponder_ids: [named] }
  return { list, named, welcome, body, creating: { ...body, create_missing_subscriber: true } }
}

t.test('a missing subscriber is not found, unless the call creates it with a usable address', async (t) => {
  const { list, body, creating } = await listThatWelcomes()
  for (const missing of ['new@example.com', '999999999', 'no email', 'a@b', '1,2'])
    t.match(await trigger(list.id, missing, body), { error_code: 'not_found' }, missing)
  for (const missing of ['999999999', 'no email', 'a@b'])
    t.match(
      await trigger(list.id, missing, creating),
      { error_code: 'not_found' },
      `${missing}, to be created`,
    )
  t.match(await trigger(list.id, 'new@example.com', { ...creating, autoresponder_ids: [99] }), {
    error_code: 'not_found',
  })
  t.equal(await collections.subscribers.countDocuments({ mailing_list_id: list.id }), 0)
})

t.test('a call that creates its subscriber sends its fields with all mails, also the welcome', async (t) => {
  const { list, named, welcome, creating } = await listThatWelcomes()
  const fields = { 'Order no': 'a&b', __proto__x: '1' }
  const raw = { 'Order no': '<b>' }
  const created = await trigger(list.id, 'New@example.com', {
    ...creating,
    content_replacement_fields: fields,
    content_replacement_fields_raw: raw,
  })
  t.match(created.data, {
    subscription_result: 'created',
    subscriber: { email: 'New@example.com', status: 'active' },
    triggered_autoresponders: [
      { id: named, name: 'Named' },
      { id: welcome, name: 'Welcome' },
    ],
  })
  const [first, second] = await reactionsOn(list.id)
  t.same([first!.fields, first!.raw_fields], [fields, raw])
  t.equal(Math.round((first!.due_at.getTime() - first!.created_at.getTime()) / 60_000), 120)
  t.same([second!.fields, second!.raw_fields], [fields, raw], 'they are for all mails of the call')
  t.same(await answered(list.id), [named, welcome])
  t.same(
    (await call('GET', `/mailing_lists/${list.id}/subscribers/new@example.com`)).body.data[0],
    created.data.subscriber,
  )
})

t.test('a created subscriber is welcomed once, unless the call skips the welcome', async (t) => {
  const { list, named, welcome, creating } = await listThatWelcomes()
  const more = async (email: string, options: object) => {
    const { data } = await trigger(list.id, email, { ...creating, ...options })
    return data.triggered_autoresponders.map(({ id }: Json) => id)
  }
  t.same(await more('first@example.com', {}), [named, welcome])
  t.same(await more('second@example.com', { skip_subscription_autoresponders: true }), [named])
  t.same(
    await more('third@example.com', {
      skip_subscription_autoresponders: true,
      autoresponder_ids: [named, welcome],
    }),
    [named, welcome],
    'the skip leaves out no autoresponder that is named',
  )
  t.same(await more('fourth@example.com', { autoresponder_ids: [welcome] }), [welcome], 'once')
  t.same(await more('FOURTH@example.com', {}), [named], 'an existing subscriber isn’t welcomed again')
  t.same(await answered(list.id), [named, welcome, named, named, welcome, welcome, named])
  t.same(await countsOfList(list.id), { active: 4, unsubscribed: 0 })
})

t.test('an inactive subscriber is reactivated where the call says so, and refused otherwise', async (t) => {
  const { list, named, body, creating } = await listThatWelcomes()
  const { id } = await add(list.id, 'ann@example.com')
  await call('PUT', `/mailing_lists/${list.id}/subscribers/${id}`, {
    subscriber: { status: 'unsubscribed', remove_ip: '192.0.2.1' },
  })
  t.match(await trigger(list.id, id, creating), {
    error_code: 'invalid_request',
    error_message: new RegExp(`^subscriber ${id} is unsubscribed`),
  })
  t.same(await countsOfList(list.id), { active: 0, unsubscribed: 1 })
  t.match(await trigger(list.id, id, { ...body, reactivate_subscriber: true }), {
    data: {
      subscription_result: 'reactivated',
      subscriber: { id, status: 'active', remove_time: null, remove_ip: null },
      triggered_autoresponders: [{ id: named }],
    },
  })
  t.same(await countsOfList(list.id), { active: 1, unsubscribed: 0 })
  t.same(await answered(list.id), [named])
  t.match((await trigger(list.id, id, { ...body, reactivate_subscriber: true })).data, {
    subscription_result: 'remained_active',
  })
})

t.test('fields go to whom they are for, and a fault in any of them triggers nothing', async (t) => {
  const list = await createList(service, [
    { name: 'Name', field_type: 'text', required: true },
    { name: 'Plan', field_type: 'text' },
    { name: 'Visits', field_type: 'number' },
  ])
  const id = await addAutoresponder(list.id, 'A')
  const body = { autoresponder_ids: [id], create_missing_subscriber: true, reactivate_subscriber: true }
  const values = async (email: string, custom_fields: object) => {
    const { data } = await trigger(list.id, email, { ...body, custom_fields })
    return Object.values<Json>(data.subscriber.custom_fields).map(({ value }) => value)
  }
  const custom_fields = {
    for_all: { Name: 'All', Plan: 'all', Visits: 1 },
    for_new: { Name: 'New', plan: null },
    for_active: { name: 'Active', Visits: null },
    for_reactivated: { Visits: { value: 7 } },
  }
  t.same(await values('a@example.com', custom_fields), ['New', null, 1])
  t.same(await values('a@example.com', custom_fields), ['Active', 'all', null])
  await call('PUT', `/mailing_lists/${list.id}/subscribers/a@example.com`, {
    subscriber: { status: 'bounced' },
  })
  t.same(await values('a@example.com', custom_fields), ['All', 'all', 7])
  t.same(await values('a@example.com', { for_new: { Name: 'x' } }), ['All', 'all', 7])
  t.same(await values('a@example.com', { for_all: null }), ['All', 'all', 7])
  await answered(list.id)

  for (const [fault, message] of [
    [{ for_all: { Nobody: 'x' } }, /^custom_fields.for_all.Nobody is no custom field/],
    [{ for_new: { Visits: 'many' } }, /^custom_fields.for_new.Visits must be/],
    [{ for_reactivated: { Name: 'a', name: 'b' } }, /^custom_fields.for_reactivated.name is given twice$/],
    [{ for_active: { Name: null } }, /^custom_fields.Name is required and can't be unset$/],
    [{ for_active: 'x' }, /^custom_fields.for_active must be a hash$/],
    ['x', /^custom_fields must be a hash$/],
  ] as const)
    t.match(await trigger(list.id, 'a@example.com', { ...body, custom_fields: fault }), {
      error_code: 'validation_failed',
      error_message: message,
    })
  t.match(await trigger(list.id, 'b@example.com', body), {
    error_code: 'validation_failed',
    error_message: 'custom_fields.Name is required',
  })
  t.same(await answered(list.id), [])
  t.same(await countsOfList(list.id), { active: 1, unsubscribed: 0 })
})

t.test('replacement keys are such as can stand in a mail', async (t) => {
  const list = await createList(service)
  const id = await addAutoresponder(list.id, 'A')
  const { id: subscriber } = await add(list.id, 'a@example.com')
  for (const name of ['content_replacement_fields', 'content_replacement_fields_raw']) {
    const send = (hash: unknown) => trigger(list.id, subscriber, { autoresponder_ids: [id], [name]: hash })
    for (const [hash, message] of [
      [{ '': 'x' }, /must have 1 to 50 characters$/],
      [{ ['k'.repeat(51)]: 'x' }, /must have 1 to 50 characters$/],
      [{ ' _-': 'x' }, /must hold a letter or a digit$/],
      [{ 'First name': 'x', FIRST_NAME: 'y' }, /"FIRST_NAME" of .* is the same as "First name"$/],
      [{ 'a\tb': 'x', 'a b': 'y' }, /is the same as/],
      [{ 'a\0b': 'x' }, /must not hold NUL/],
    ] as const)
      t.match(await send(hash), { error_code: 'invalid_request', error_message: message })
    for (const [hash, message] of [
      [{ a: 1 }, `${name}.a must be a string`],
      [{ a: null }, `${name}.a must be a string`],
      [{ a: 'x\0' }, `${name}.a must not hold NUL characters`],
      ['x', `${name} must be a hash`],
      [{ a: 'x'.repeat(100_001) }, /must have at most 100000 characters together, and have 100002$/],
    ] as const)
      t.match(await send(hash), { error_code: 'validation_failed', error_message: message })
    const odd = '{"$set":"a","a.b":"b","__proto__":"c","Ä":"","k":"💥"}'
    t.match(await send(JSON.parse(odd)), { success: true })
    t.match(
      await send({ a: '💥'.repeat(100_000) }),
      { error_message: /and have 100001$/ },
      'characters are counted',
    )
    const [reaction] = await reactionsOn(list.id)
    t.equal(JSON.stringify(name.endsWith('raw') ? reaction!.raw_fields : reaction!.fields), odd)
    t.equal(name.endsWith('raw') ? reaction!.fields : reaction!.raw_fields, undefined)
    t.same(await answered(list.id), [id])
  }
})

t.test('where emails are no identity, a call is for one subscriber all the same', async (t) => {
  const list = await createList(service, [{ name: 'No', field_type: 'number', required: true }])
  const [field] = (await call('GET', `/mailing_lists/${list.id}/custom_fields`)).body.data
  await call('PUT', `/mailing_lists/${list.id}`, { mailing_list: { primary_key_custom_field_id: field.id } })
  const id = await addAutoresponder(list.id, 'A')
  const body = { autoresponder_ids: [id], create_missing_subscriber: true }
  t.match(await trigger(list.id, 'a@example.com', body), { error_message: 'custom_fields.No is required' })
  const withNo = (No: number) => ({ ...body, custom_fields: { for_new: { No } } })
  t.match(await trigger(list.id, 'a@example.com', withNo(1)), { data: { subscription_result: 'created' } })
  t.match(await trigger(list.id, 'a@example.com', withNo(2)), {
    data: { subscription_result: 'remained_active' },
  })
  t.match(await trigger(list.id, 'b@example.com', withNo(1)), {
    error_code: 'validation_failed',
    error_message: /already/,
  })
  const twin = await add(list.id, 'a@example.com', { custom_fields: { No: 2 } })
  t.match(await trigger(list.id, 'a@example.com', body), { error_code: 'multiple_records_found' })
  t.same(await answered(list.id), [id, id])
  t.match(await trigger(list.id, twin.id, body), { success: true })
  t.match(await trigger(list.id, twin.id, { ...body, custom_fields: { for_active: { No: 1 } } }), {
    error_code: 'validation_failed',
    error_message: /already/,
  })
  t.same(await answered(list.id), [id])
})

t.test('a call creates no subscriber without the permission for it, nor without quota', async (t) => {
  const organization = await post('/organizations', { organization: { name: 'Full', subscriber_limit: 1 } })
  const list = await createList(service, [], { organization_id: organization.id })
  const id = await addAutoresponder(list.id, 'A', { organization_id: organization.id })
  const body = { autoresponder_ids: [id], create_missing_subscriber: true }
  const keyWith = async (subscriber: string[]): Promise<string> => {
    const user = await post('/users', {
      user: {
        organization_id: organization.id,
        full_name: 'Ann',
        email: `${subscriber.join('.')}@example.com`,
        active: true,
        role: 'standard',
        permissions: { subscriber },
        password1: 'long enough',
        password2: 'long enough',
      },
    })
    const api_key = { name: 'k', role: 'standard', user_id: user.id }
    return (await post(`/organizations/${organization.id}/api_keys`, { api_key })).key
  }
  const updater = await keyWith(['update'])
  const both = await keyWith(['update', 'create'])
  t.match(await trigger(list.id, 'a@example.com', body, updater), {
    error_code: 'not_authorized',
    error_message: 'this needs the permission subscriber/create',
  })
  t.match(await trigger(list.id, 'a@example.com', body, both), { data: { subscription_result: 'created' } })
  t.match(await trigger(list.id, 'a@example.com', { autoresponder_ids: [id] }, updater), { success: true })
  t.match(await trigger(list.id, 'b@example.com', body, both), {
    error_code: 'validation_failed',
    error_message: /subscriber limit/,
  })
  const gone = await add(list.id, 'gone@example.com', { status: 'unsubscribed' })
  t.match(await trigger(list.id, gone.id, { ...body, reactivate_subscriber: true }), {
    error_code: 'validation_failed',
    error_message: /subscriber limit/,
  })
  t.same(await answered(list.id), [id, id])
  t.same(await countsOfList(list.id), { active: 1, unsubscribed: 1 })
})

t.test('concurrent calls create one subscriber, and one who is deleted meanwhile gets no mail', async (t) => {
  const list = await createList(service)
  const id = await addAutoresponder(list.id, 'A')
  const welcome = await addAutoresponder(list.id, 'Welcome', { trigger: 'subscription' })
  const body = { autoresponder_ids: [id], create_missing_subscriber: true }
  for (let round = 0; round < 5; round += 1) {
    const replies = await Promise.all(
      Array.from({ length: 6 }, () => trigger(list.id, `r${round}@example.com`, body)),
    )
    t.same(replies.map(({ data }) => data.subscription_result).sort(), [
      'created',
      ...Array<string>(5).fill('remained_active'),
    ])
    t.equal(new Set(replies.map(({ data }) => data.subscriber.id)).size, 1)
    t.same((await answered(list.id)).sort(), [...Array<number>(6).fill(id), welcome].sort())
  }
  t.same(await countsOfList(list.id), { active: 5, unsubscribed: 0 })

  for (let round = 0; round < 20; round += 1) {
    const { id: subscriber } = await add(list.id, 'gone@example.com')
    const [deleted, ...replies] = await Promise.all([
      call('DELETE', `/mailing_lists/${list.id}/subscribers/${subscriber}`),
      ...Array.from({ length: 3 }, () => trigger(list.id, subscriber, { autoresponder_ids: [id] })),
    ])
    t.match(deleted.body, { success: true })
    for (const reply of replies) if (reply.success !== true) t.match(reply, { error_code: 'not_found' })
    t.same(await answered(list.id), [])
  }
})
