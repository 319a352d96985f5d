import t from 'tap'
import { createList, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

/** Single subscribers through the API: create, read, update, delete. */

const { call, get, post } = service

const create = (listId: number, subscriber: unknown, beside: object = {}) =>
  call('POST', `/mailing_lists/${listId}/subscribers`, { ...beside, subscriber })
const update = (listId: number, who: string | number, subscriber: unknown, beside: object = {}) =>
  call('PUT', `/mailing_lists/${listId}/subscribers/${encodeURIComponent(who)}`, { ...beside, subscriber })
const read = async (listId: number, who: string | number): Promise<Json> =>
  (await call('GET', `/mailing_lists/${listId}/subscribers/${encodeURIComponent(who)}`)).body.data?.[0]
const remove = (listId: number, who: string | number) =>
  call('DELETE', `/mailing_lists/${listId}/subscribers/${encodeURIComponent(who)}`)

const nineFields = [
  { name: 'Text', field_type: 'text', minimum_length: 2, maximum_length: 5, default: 'abc' },
  { name: 'Multi', field_type: 'text_multiline' },
  { name: 'Number', field_type: 'number', minimum_value: -5, maximum_value: 500, default: 3 },
  { name: 'Date', field_type: 'date' },
  { name: 'Day', field_type: 'day_of_year' },
  { name: 'Dropdown', field_type: 'select_single_dropdown', options: ['a', 'B'], default: 'a' },
  { name: 'Radio', field_type: 'select_single_radio', options: ['x', 'y'] },
  { name: 'Boxes', field_type: 'select_multiple_checkboxes', options: ['1', '2', '3'] },
  { name: 'Flag', field_type: 'boolean' },
]

const valuesOf = (view: Json): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(view.custom_fields as Record<string, { value: unknown }>).map(([name, { value }]) => [
      name,
      value,
    ]),
  )

const seconds = () => Math.floor(Date.now() / 1000)

t.test('a subscriber needs nothing but an email', async (t) => {
  const list = await createList(service, [{ name: 'Text', field_type: 'text', default: 'abc' }])
  const before = seconds()
  const { body, status } = await create(list.id, { email: ' Ann@Example.com ' })
  t.equal(status, 200)
  const { data } = body
  t.same(data, {
    id: data.id,
    mailing_list_id: list.id,
    email: 'Ann@Example.com',
    created_at: data.created_at,
    created_at_epoch: data.created_at_epoch,
    status: 'active',
    subscribe_time: data.created_at,
    subscribe_time_epoch: data.created_at_epoch,
    subscribe_ip: null,
    custom_fields: { Text: { name: 'Text', type: 'text', value: null } },
    remove_time: null,
    remove_time_epoch: null,
    remove_ip: null,
  })
  t.same(Object.keys(data).slice(0, 5), ['id', 'mailing_list_id', 'email', 'created_at', 'created_at_epoch'])
  t.ok(data.created_at_epoch >= before && data.created_at_epoch <= seconds())
  t.match(data.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  t.same(await read(list.id, data.id), data)
  t.same(await read(list.id, 'ANN@example.COM'), data, 'emails are compared without case')
  t.match((await create(list.id, { email: 'ann@example.com' })).body, {
    success: false,
    error_code: 'validation_failed',
    error_message: /already/,
  })
})

t.test('every built-in value on a list that uses them all, in the zone of the organization', async (t) => {
  const organization = await post('/organizations', {
    organization: { name: 'Berlin', time_zone_name: 'Europe/Berlin' },
  })
  const list = await createList(service, [], {
    organization_id: organization.id,
    has_format: true,
    has_confirmed: true,
  })
  const { data } = (
    await create(list.id, {
      email: 'ann@example.com',
      email_format: 'html',
      status: 'unsubscribed',
      subscribe_time: '2026-07-01T12:00',
      subscribe_ip: '2001:DB8::0:1',
      remove_time: '2026-07-02T00:00:00Z',
      remove_ip: '192.0.2.7',
      confirmed: true,
      confirm_time: '2026-01-01T00:00:00+00:00',
    })
  ).body
  t.match(data, {
    email_format: 'html',
    status: 'unsubscribed',
    subscribe_time: '2026-07-01T12:00:00+02:00',
    subscribe_time_epoch: Date.UTC(2026, 6, 1, 10) / 1000,
    subscribe_ip: '2001:db8::1',
    remove_time: '2026-07-02T02:00:00+02:00',
    remove_time_epoch: Date.UTC(2026, 6, 2) / 1000,
    remove_ip: '192.0.2.7',
    confirmed: true,
    confirm_time: '2026-01-01T01:00:00+01:00',
    confirm_time_epoch: Date.UTC(2026, 0, 1) / 1000,
  })
  const plain = (await create(list.id, { email: 'bob@example.com' })).body.data
  t.match(plain, { email_format: 'both', confirmed: false, confirm_time: null, remove_time: null })
  const gone = (await create(list.id, { email: 'eve@example.com', status: 'bounced', confirmed: true })).body
    .data
  t.match(gone, { confirmed: true, status: 'bounced' })
  t.equal(gone.remove_time, gone.created_at, 'who is made non-active is removed now')
  t.equal(gone.confirm_time, gone.created_at)
})

/** A value for each of these fields, as a reply shows it. */
const nineValues = {
  Text: 'text',
  Multi: 'two\nlines',
  Number: 42,
  Date: '2024-02-29',
  Day: '12-24',
  Dropdown: 'B',
  Radio: 'x',
  Boxes: ['1', '3'],
  Flag: false,
}

t.test('custom fields of all nine types are stored and shown as they are sent', async (t) => {
  const list = await createList(service, nineFields)
  const made = (await create(list.id, { email: 'plain@example.com', custom_fields: nineValues })).body.data
  t.same(valuesOf(made), nineValues)
  t.same(made.custom_fields.Boxes, { name: 'Boxes', type: 'select_multiple_checkboxes', value: ['1', '3'] })
  t.same(await read(list.id, made.id), made)
  const copy = (await create(list.id, { email: 'copy@example.com', custom_fields: made.custom_fields })).body
  t.same(valuesOf(copy.data), nineValues, 'what a reply shows can be sent again')
})

t.test('texts in custom fields are read like cells, and names are compared without case', async (t) => {
  const list = await createList(service, nineFields)
  const asCells = {
    text: ' text ',
    MULTI: 'two\nlines',
    Number: '+042',
    Date: 'Feb 29, 2024',
    Day: '12/24',
    Dropdown: 'b',
    Radio: 'X',
    Boxes: '3|1',
    Flag: 'no',
  }
  t.same(
    valuesOf((await create(list.id, { email: 'cells@example.com', custom_fields: asCells })).body.data),
    nineValues,
  )
})

t.test('custom fields are null where they are absent or null, unless defaults are asked for', async (t) => {
  const list = await createList(service, nineFields)
  const clearedCopy = {
    Text: { name: 'Text', type: 'text', value: null },
    Flag: { name: 'Flag', type: 'boolean', value: null },
    Number: null,
  }
  t.match(
    valuesOf((await create(list.id, { email: 'nulls@example.com', custom_fields: clearedCopy })).body.data),
    { Text: null, Flag: null, Number: null },
  )
  const none = (await create(list.id, { email: 'none@example.com' })).body.data
  t.ok(Object.values(valuesOf(none)).every((value) => value === null))
  const defaults = { apply_custom_field_defaults: true }
  t.match(valuesOf((await create(list.id, { email: 'defaults@example.com' }, defaults)).body.data), {
    Text: 'abc',
    Number: 3,
    Dropdown: 'a',
    Radio: null,
  })
  t.match(
    valuesOf(
      (await create(list.id, { email: 'd2@example.com', custom_fields: { Number: 7 } }, defaults)).body.data,
    ),
    { Text: 'abc', Number: 7 },
  )
})

t.test('null, an empty text and an empty list clear a custom field', async (t) => {
  const list = await createList(service, nineFields)
  const { data: made } = (await create(list.id, { email: 'plain@example.com', custom_fields: nineValues }))
    .body
  const cleared = await update(list.id, made.id, {
    custom_fields: { Text: null, Multi: '', Boxes: [], Radio: { value: null }, Number: { value: 1 } },
  })
  t.same(valuesOf(cleared.body.data), {
    ...nineValues,
    Text: null,
    Multi: null,
    Boxes: null,
    Radio: null,
    Number: 1,
  })
  t.same(await read(list.id, made.id), cleared.body.data)
})

t.test('a value of the wrong type or out of bounds is refused, and changes nothing', async (t) => {
  const list = await createList(service, nineFields)
  const { data: made } = (await create(list.id, { email: 'plain@example.com', custom_fields: nineValues }))
    .body
  const bad: Record<string, unknown[]> = {
    Text: ['x', 'toolong', 5, true, ['ab'], 'a\0b', { value: 'x' }],
    Multi: [5, {}, false],
    Number: ['x', 1.5, 501, -6, '5.5', true, [1], 1e300],
    Date: ['2023-02-29', 20240101, 'soon'],
    Day: ['13-01', '02-30', 1],
    Dropdown: ['c', 1, ['a']],
    Radio: ['x,y', true],
    Boxes: ['4', ['1', '4'], [1], 1, [null]],
    Flag: ['perhaps', 1, 0, ['true']],
  }
  const cases = Object.entries(bad).flatMap(([name, values]) => values.map((value) => ({ name, value })))
  const answers: Json[] = []
  for (const { name, value } of cases) {
    const { body } = await update(list.id, made.id, { status: 'bounced', custom_fields: { [name]: value } })
    answers.push({ what: `${name}: ${JSON.stringify(value)}`, ...body })
  }
  t.match(
    answers,
    cases.map(({ name }) => ({
      ...{ success: false, error_code: 'validation_failed' },
      error_message: new RegExp(`^custom_fields.${name} must be `),
    })),
  )
  t.same(await read(list.id, made.id), made)
})

t.test('names that mean something elsewhere are names', async (t) => {
  const names = ['constructor', '$where', 'a.b', 'toString', 'hasOwnProperty', '7', 'value', '$set']
  const list = await createList(
    service,
    names.map((name) => ({ name, field_type: 'text' })),
  )
  const values = Object.fromEntries(names.map((name) => [name, `value of ${name}`]))
  const made = (await create(list.id, { email: 'a@example.com', custom_fields: values })).body.data
  t.same(valuesOf(made), values)
  const changed = await update(list.id, made.id, { custom_fields: { 'a.b': 'x', $set: null } })
  t.same(valuesOf(changed.body.data), { ...values, 'a.b': 'x', $set: null })
  for (const name of ['__proto__', 'prototype', '$gt', 'a', ''])
    for (const value of ['"x"', '{"value":"x"}', '{"admin":true}']) {
      const body = `{"subscriber": {"email": "b@example.com", "custom_fields": {${JSON.stringify(name)}: ${value}}}}`
      t.match((await call('POST', `/mailing_lists/${list.id}/subscribers`, body)).body, {
        error_code: 'validation_failed',
        error_message: `custom_fields.${name} is no custom field of the list`,
      })
      t.match((await call('PUT', `/mailing_lists/${list.id}/subscribers/${made.id}`, body)).body, {
        error_code: 'validation_failed',
      })
    }
  t.equal(await read(list.id, 'b@example.com'), undefined)
})

t.test('required fields are required in creations and updates', async (t) => {
  const list = await createList(service, [
    { name: 'Must', field_type: 'text', required: true },
    { name: 'Also', field_type: 'number', required: true, default: 5 },
  ])
  const missing = (await create(list.id, { email: 'a@example.com' })).body
  t.equal(missing.error_message, 'custom_fields.Must is required; custom_fields.Also is required')
  const withDefault = { apply_custom_field_defaults: true }
  t.equal(
    (await create(list.id, { email: 'a@example.com', custom_fields: { Must: ' ' } }, withDefault)).body
      .error_message,
    'custom_fields.Must is required',
  )
  const made = (await create(list.id, { email: 'a@example.com', custom_fields: { Must: 'x' } }, withDefault))
    .body.data
  t.same(valuesOf(made), { Must: 'x', Also: 5 })
  t.match((await update(list.id, made.id, { custom_fields: { Must: null } })).body, {
    error_code: 'validation_failed',
    error_message: /^custom_fields.Must is required/,
  })
  t.match((await update(list.id, made.id, { status: 'bounced' })).body, { success: true })
})

t.test('faulty bodies are refused and change nothing', async (t) => {
  const list = await createList(service, [], { has_format: true, has_confirmed: true })
  const kept = (await create(list.id, { email: 'kept@example.com' })).body.data
  const faults: [unknown, RegExp][] = [
    [{ email: 'no-address' }, /^email must be an email address$/],
    [{ email: '' }, /^email must be/],
    [{ email: 5 }, /^email must be a string$/],
    [{ email: { $gt: '' } }, /^email must be a string$/],
    [{ status: 'gone' }, /^status must be one of/],
    [{ status: 'Active' }, /^status must be one of/],
    [{ email_format: 'pdf' }, /^email_format must be one of/],
    [{ subscribe_time: '2026-01-01' }, /^subscribe_time must be a time/],
    [{ subscribe_time: 5 }, /^subscribe_time must be a string$/],
    [{ remove_time: '2026-02-30T00:00' }, /^remove_time must be a time/],
    [{ confirm_time: 'now' }, /^confirm_time must be a time/],
    [{ subscribe_ip: '1.2.3' }, /^subscribe_ip must be an IPv4/],
    [{ remove_ip: 'fe80::1%eth0' }, /^remove_ip must be an IPv4/],
    [{ confirmed: 'true' }, /^confirmed must be a boolean$/],
    [{ custom_fields: 'x' }, /^custom_fields must be a hash$/],
    [{ custom_fields: { Nope: 1 } }, /^custom_fields.Nope is no custom field of the list$/],
    [{ skip_autoresponders: 1 }, /^skip_autoresponders must be a boolean$/],
    [{ autoresponder_filter: ['*'] }, /^autoresponder_filter must be a string$/],
    [
      { subscribe_ip: 'x', status: 'active', email: 'y', subscribe_time: 'z' },
      /^email .*; subscribe_time .*; subscribe_ip /,
    ],
  ]
  for (const [fault, message] of faults) {
    const expected = { success: false, data: null, error_code: 'validation_failed', error_message: message }
    const creation = await create(list.id, { email: 'new@example.com', ...(fault as object) })
    t.match(creation.body, expected, `create ${JSON.stringify(fault)}`)
    t.equal(creation.status, 200)
    t.match((await update(list.id, kept.id, fault)).body, expected, `update ${JSON.stringify(fault)}`)
  }
  t.match((await create(list.id, {})).body, { error_message: 'email is required' })
  t.match((await create(list.id, { email: null })).body, { error_message: 'email is required' })
  for (const key of ['email', 'status', 'subscribe_time', 'email_format', 'confirmed'])
    t.match((await update(list.id, kept.id, { [key]: null })).body, {
      error_code: 'validation_failed',
      error_message: new RegExp(`^${key} must`),
    })
  for (const body of [{}, [], 'x', null, { subscriber: 5 }, { subscriber: null }, { subscriber: [] }]) {
    t.match((await call('POST', `/mailing_lists/${list.id}/subscribers`, JSON.stringify(body))).body, {
      error_code: 'invalid_request',
    })
    t.match(
      (await call('PUT', `/mailing_lists/${list.id}/subscribers/${kept.id}`, JSON.stringify(body))).body,
      { error_code: 'invalid_request' },
    )
  }
  t.match((await create(list.id, { email: 'n@example.com' }, { apply_custom_field_defaults: 1 })).body, {
    error_code: 'validation_failed',
    error_message: 'apply_custom_field_defaults must be a boolean',
  })
  t.match((await update(list.id, kept.id, {}, { run_autoresponders: 'yes' })).body, {
    error_code: 'validation_failed',
  })
  t.same(await read(list.id, kept.id), kept)
  t.equal((await get(`/mailing_lists/${list.id}/subscribers`)).length, 1)
})

t.test('what the list does not use is checked, and not used', async (t) => {
  const list = await createList(service)
  const { data } = (await create(list.id, { email: 'a@example.com', email_format: 'html', confirmed: true }))
    .body
  t.notOk('email_format' in data || 'confirmed' in data || 'confirm_time' in data)
  const { data: changed } = (await update(list.id, data.id, { email_format: 'text', confirmed: true })).body
  t.same(changed, data)
  t.match((await update(list.id, data.id, { email_format: 'pdf' })).body, { error_code: 'validation_failed' })
})

t.test('an update changes what it names, by id or email', async (t) => {
  const list = await createList(service, nineFields, { has_format: true, has_confirmed: true })
  const made = (
    await create(list.id, { email: 'a@example.com', subscribe_ip: '192.0.2.1', custom_fields: { Number: 1 } })
  ).body.data
  t.same((await update(list.id, made.id, {})).body.data, made, 'nothing')
  const one = (
    await update(list.id, 'A@EXAMPLE.com', { email_format: 'text', custom_fields: { Text: 'abc' } })
  ).body.data
  t.same(one, {
    ...made,
    email_format: 'text',
    custom_fields: { ...made.custom_fields, Text: { name: 'Text', type: 'text', value: 'abc' } },
  })
  t.same((await update(list.id, made.id, { subscribe_ip: null })).body.data.subscribe_ip, null)
  const confirmed = (await update(list.id, made.id, { confirmed: true })).body.data
  t.ok(confirmed.confirm_time_epoch >= made.created_at_epoch)
  const told = (await update(list.id, made.id, { confirmed: true, confirm_time: '2020-01-01T00:00:00Z' }))
    .body.data
  t.equal(told.confirm_time, '2020-01-01T00:00:00Z')
  t.equal(
    (await update(list.id, made.id, { confirmed: true })).body.data.confirm_time,
    '2020-01-01T00:00:00Z',
    'who is confirmed already keeps the time',
  )
  t.equal(
    (await update(list.id, made.id, { confirm_time: null })).body.data.confirm_time,
    '2020-01-01T00:00:00Z',
    'who is confirmed has a time of it',
  )
  for (const who of ['nobody@example.com', '999999999', 'x', '0', '-1', '1.5', '99999999999999999999'])
    t.match((await update(list.id, who, { status: 5 })).body, { error_code: 'not_found' }, who)
})

t.test('of two updates at one moment each has its whole effect', async (t) => {
  const list = await createList(service, [
    { name: 'a', field_type: 'number' },
    { name: 'b', field_type: 'number' },
  ])
  const made = await create(list.id, { email: 'x@example.com', custom_fields: { a: 0 } })
  const { id } = made.body.data
  const seen = new Set<string>()
  for (let round = 0; round < 40; round += 1) {
    await update(list.id, id, { custom_fields: { a: 0, b: null } })
    const [, second] = await Promise.all([
      update(list.id, id, { custom_fields: { a: 2, b: 5 } }),
      update(list.id, id, { custom_fields: { a: 1, b: null } }),
    ])
    t.equal(second.body.data.custom_fields.b.value, null)
    seen.add(Object.values(valuesOf(await read(list.id, id))).join())
  }
  t.same(
    [...seen].filter((values) => values !== '1,' && values !== '2,5'),
    [],
    'one after the other, in either order',
  )
})

t.test(
  'an active subscriber has no removal, and an unconfirmed one no confirm_time, whatever a body says',
  async (t) => {
    const list = await createList(service, [], { has_confirmed: true })
    const removal = { remove_time: '2026-01-01T00:00Z', remove_ip: '192.0.2.1' }
    const none = { remove_time: null, remove_ip: null, confirm_time: null }
    const body = { email: 'a@example.com', ...removal, confirm_time: '2026-01-01T00:00Z' }
    const made = (await create(list.id, body)).body.data
    t.match(made, { status: 'active', confirmed: false, ...none })
    const change = async (fields: object) => (await update(list.id, made.id, fields)).body.data
    t.match(await change({ ...removal, confirm_time: '2026-01-01T00:00Z' }), none)
    t.match(await change({ confirmed: true }), { confirm_time: String })
    t.match(await change({ confirmed: false, confirm_time: '2026-01-01T00:00Z' }), { confirm_time: null })
  },
)

t.test('a subscriber who leaves gets a time of removal, and loses it when coming back', async (t) => {
  const list = await createList(service)
  const { id } = (await create(list.id, { email: 'a@example.com' })).body.data
  const set = async (change: object) => (await update(list.id, id, change)).body.data
  const left = await set({ status: 'unsubscribed', remove_ip: '192.0.2.9' })
  t.ok(left.remove_time_epoch >= left.created_at_epoch)
  t.equal(left.remove_ip, '192.0.2.9')
  const other = await set({ status: 'scomp' })
  t.equal(other.remove_time, left.remove_time, 'who has left already keeps the time')
  t.match(await set({ status: 'active', remove_time: '2026-01-01T00:00Z' }), {
    status: 'active',
    remove_time: null,
    remove_time_epoch: null,
    remove_ip: null,
  })
  t.match(await set({ status: 'deactivated', remove_time: '2026-01-01T00:00Z' }), {
    status: 'deactivated',
    remove_time: '2026-01-01T00:00:00Z',
    remove_ip: null,
  })
  t.match(await set({ remove_time: null }), { remove_time: '2026-01-01T00:00:00Z' }, 'null is no time')
  await service.collections.subscribers.updateOne({ id }, { $unset: { remove_time: '' } })
  t.match(await set({ remove_time: null }), { remove_time: String }, 'null where there is none is now')
  t.match(await set({ status: 'active' }), { remove_time: null })
  t.ok(
    (await set({ status: 'bounced', remove_time: null })).remove_time_epoch >= left.remove_time_epoch,
    'null is no time',
  )
  for (const status of ['bounced', 'active', 'unsubscribed', 'bounced', 'scomp', 'deactivated', 'active'])
    t.equal((await set({ status })).status, status)
})

t.test('another email keeps the id', async (t) => {
  const list = await createList(service, [{ name: 'N', field_type: 'number' }])
  const made = (await create(list.id, { email: 'old@example.com', custom_fields: { N: 1 } })).body.data
  await create(list.id, { email: 'taken@example.com' })
  const spelled = (await update(list.id, made.id, { email: 'OLD@example.com' })).body.data
  t.same(spelled, { ...made, email: 'OLD@example.com' }, 'another spelling is no other email')
  t.match((await update(list.id, made.id, { email: 'Taken@example.com', status: 'bounced' })).body, {
    error_code: 'validation_failed',
    error_message: /already/,
  })
  t.same(await read(list.id, made.id), spelled)
  const moved = (
    await update(list.id, 'old@example.com', { email: 'new@example.com', custom_fields: { N: 2 } })
  ).body.data
  t.match(moved, { id: made.id, email: 'new@example.com', created_at: made.created_at, status: 'active' })
  t.same(valuesOf(moved), { N: 2 })
  t.same(await read(list.id, 'new@example.com'), moved)
  t.same(await read(list.id, made.id), moved)
  t.equal(await read(list.id, 'old@example.com'), undefined)
  t.match(
    (await create(list.id, { email: 'old@example.com' })).body,
    { success: true },
    'the old one is free',
  )
})

t.test('a deleted subscriber is gone', async (t) => {
  const list = await createList(service)
  const one = (await create(list.id, { email: 'one@example.com' })).body.data
  const two = (await create(list.id, { email: 'two@example.com' })).body.data
  t.same((await remove(list.id, one.id)).body, {
    success: true,
    data: { subscriber_ids_removed: [one.id], more_remaining: false },
    error_code: null,
    error_message: null,
  })
  t.same((await remove(list.id, 'TWO@example.com')).body.data, {
    subscriber_ids_removed: [two.id],
    more_remaining: false,
  })
  for (const who of [one.id, 'two@example.com', 'x', '0'])
    t.match((await remove(list.id, who)).body, { error_code: 'not_found' })
  const again = (await create(list.id, { email: 'one@example.com' })).body.data
  t.ok(again.id > two.id, 'ids are never used again')
})

t.test('an object that is no {value: x} is refused by every type of field', async (t) => {
  const types = nineFields.map(({ name }) => name)
  const list = await createList(service, nineFields)
  const { id } = (await create(list.id, { email: 'objects@example.com' })).body.data
  for (const type of types)
    for (const object of [{ $gt: '' }, {}, { name: 'x', type: 'text' }])
      for (const reply of [
        await create(list.id, { email: 'other@example.com', custom_fields: { [type]: object } }),
        await update(list.id, id, { custom_fields: { [type]: object } }),
      ])
        t.match(reply.body, {
          error_code: 'validation_failed',
          error_message: new RegExp(`^custom_fields\\.${type} must be`),
        })
  const nulls = Object.fromEntries(types.map((type) => [type, { value: null }]))
  t.match((await create(list.id, { email: 'nulls@example.com', custom_fields: nulls })).body, {
    success: true,
  })
  t.match((await update(list.id, id, { custom_fields: nulls })).body, { success: true })
})

t.test('many subscribers are returned in the order asked for', async (t) => {
  const list = await createList(service)
  const ids: number[] = []
  for (const name of ['a', 'b', 'c', "d+e'f/g"])
    ids.push((await create(list.id, { email: `${name}@example.com` })).body.data.id)
  const [a, b, c, d] = ids as [number, number, number, number]
  const many = async (segment: string) =>
    (await get<{ id: number }[]>(`/mailing_lists/${list.id}/subscribers/${segment}`)).map(({ id }) => id)
  t.same(await many(`${c},a@example.com,${b}`), [c, a, b])
  t.same(await many(`${a},A%40example.com,${a},${b}`), [a, b], 'each once')
  t.same(await many(`${a},999999999,nobody@example.com,x,,-1,0,${c}`), [a, c], 'unknown ones are left out')
  t.same(await many(encodeURIComponent("d+e'f/g@example.com")), [d])
  t.same(await many(`${a}%2C${c}`), [a, c], 'many clients encode the comma')
  t.same(await many(`x%2Ca@example.com,${b}`), [a, b])
  const hundred = Array.from({ length: 100 }, (_, i) => `n${i}@example.com`)
  t.same(await many([...hundred.slice(1), String(a)].join(',')), [a])
  t.match((await call('GET', `/mailing_lists/${list.id}/subscribers/${[...hundred, a].join(',')}`)).body, {
    error_code: 'requested_too_many',
  })
})

t.test('Remote Lists have no subscribers here', async (t) => {
  const list = await createList(service, [], { is_remote_list: true })
  const path = `/mailing_lists/${list.id}/subscribers`
  for (const [method, at] of [
    ['GET', path],
    ['POST', path],
    ['GET', `${path}/1`],
    ['PUT', `${path}/1`],
    ['DELETE', `${path}/1`],
    ['GET', `/mailing_lists/${list.id}/subscribers_by_email/a@example.com`],
  ] as const)
    t.match((await call(method, at, method === 'GET' ? undefined : { subscriber: {} })).body, {
      error_code: 'invalid_request',
      error_message: /Remote List/,
    })
})

t.test('records of other organizations are not there', async (t) => {
  const list = await createList(service)
  const { id } = (await create(list.id, { email: 'a@example.com' })).body.data
  const organization = await post('/organizations', { organization: { name: 'Other' } })
  const { key } = await post(`/organizations/${organization.id}/api_keys`, { api_key: { name: 'other' } })
  const path = `/mailing_lists/${list.id}/subscribers`
  for (const [method, at] of [
    ['GET', path],
    ['POST', path],
    ['GET', `${path}/${id}`],
    ['PUT', `${path}/${id}`],
    ['DELETE', `${path}/${id}`],
    ['GET', `/mailing_lists/${list.id}/subscribers_by_email/a@example.com`],
    ['GET', '/organizations/1/subscribers_by_email/a@example.com'],
  ] as const) {
    const answer = await call(method, at, method === 'GET' ? undefined : { subscriber: {} }, { key })
    t.match(answer.body, { error_code: 'not_found', data: null }, `${method} ${at}`)
  }
  const own = await post('/mailing_lists', {
    mailing_list: { name: 'Own', organization_id: organization.id },
  })
  const at = `/mailing_lists/${own.id}/subscribers/${id}`
  t.match((await call('PUT', at, { subscriber: {} }, { key })).body, { error_code: 'not_found' })
  t.match((await call('GET', at, undefined, { key })).body, { error_code: 'not_found', data: null })
  t.equal((await read(list.id, id)).id, id)
})

t.test('deletion can be switched off for the installation', async (t) => {
  const list = await createList(service)
  const { id } = (await create(list.id, { email: 'a@example.com' })).body.data
  const whole = service.processes['control-plane']!
  await service.start('control-plane', { DISABLE_SUBSCRIBER_DELETION: 'true' })
  t.teardown(() => (service.processes['control-plane'] = whole))
  for (const who of [id, 'a@example.com'])
    t.same((await remove(list.id, who)).body, {
      success: false,
      data: null,
      error_code: 'validation_failed',
      error_message: `subscriber ${id} can't be deleted: the directive disable_subscriber_deletion is enabled`,
    })
  t.match((await remove(list.id, 'nobody@example.com')).body, { error_code: 'not_found' })
  t.equal((await read(list.id, id)).id, id)
})
