import t from 'tap'
import { createList, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

const { call, collections, get, post } = service

const pathOf = (list: Json): string => `/mailing_lists/${list.id}/autoresponders`

let made = 0
const create = (list: Json, fields: object = {}): Promise<Json> =>
  post(pathOf(list), { autoresponder: { name: `A${(made += 1)}`, trigger: 'api', ...fields } })

/** Resolves to the envelope. */
const update = async ({ id, mailing_list_id }: Json, autoresponder: object): Promise<Json> =>
  (await call('PUT', `/mailing_lists/${mailing_list_id}/autoresponders/${id}`, { autoresponder })).body

const revisionOf = async ({ id }: Json): Promise<number> =>
  (await collections.mailingLists.findOne({ _id: id }))!.revision

const defaults = {
  paused: false,
  paused_at: null,
  delay: 'immediately',
  delay_amount: 0,
  delay_time: 0,
  delay_unit: null,
  from_email: null,
  from_name: null,
  reply_to: null,
  bounce_email_domain_id: null,
  bounce_email_user_id: null,
  url_domain_id: null,
  virtual_mta_id: null,
  use_external_delivery_setting: true,
  special_sending_rule_id: null,
  special_sending_rule_name: null,
  segmentation_criteria_id: null,
  segmentation_criteria_name: null,
  track_links: true,
  track_opens: true,
  trigger_autoresponder_to_click_id: null,
  trigger_autoresponder_to_click_on_any_url: null,
  trigger_autoresponder_to_click_urls: null,
  trigger_autoresponder_to_open_id: null,
  trigger_autoresponder_to_send_id: null,
  trigger_campaign_to_click_id: null,
  trigger_campaign_to_click_on_any_url: null,
  trigger_campaign_to_click_urls: null,
  trigger_campaign_to_open_id: null,
  trigger_include_subscribers_from_import: false,
  trigger_run_on_api: true,
  triggered_on: null,
  content_subject: null,
  content_format: 'both',
  content_html: null,
  content_text: null,
}

t.test('a name and a trigger are enough', async (t) => {
  const list = await createList(service)
  const before = await revisionOf(list)
  const created = await post(pathOf(list), { autoresponder: { name: ' Welcome ', trigger: 'subscription' } })
  t.same(created, {
    id: created.id,
    mailing_list_id: list.id,
    name: 'Welcome',
    trigger: 'subscription',
    ...defaults,
  })
  t.same(await get(pathOf(list)), [created])
  t.equal(await revisionOf(list), before + 1, 'a request that has read the list before reads it again')
  for (const autoresponder of [{ name: 'x' }, { trigger: 'api' }, { name: ' ', trigger: 'api' }])
    t.match((await call('POST', pathOf(list), { autoresponder })).body, { error_code: 'validation_failed' })
})

t.test('every field, set and cleared', async (t) => {
  const list = await createList(service)
  const target = (await create(list)).id
  // Each has a field, a value, whether null clears it, and how a reply shows it where that differs.
  const fields: [field: string, sent: unknown, isNullable?: boolean, shown?: unknown][] = [
    ['name', ' Other ', false, 'Other'],
    ['paused', true],
    ['from_email', ' Sender@Example.com ', true, 'Sender@Example.com'],
    ['from_name', ' Sender ', true, 'Sender'],
    ['reply_to', 'replies@example.com', true],
    ['bounce_email_domain_id', 3, true],
    ['bounce_email_user_id', 4, true],
    ['url_domain_id', 5, true],
    ['virtual_mta_id', 0, true],
    ['use_external_delivery_setting', true],
    ['special_sending_rule_id', 6, true],
    ['special_sending_rule_name', 'Rule', true],
    ['segmentation_criteria_id', 7, true],
    ['segmentation_criteria_name', 'Segment', true],
    ['track_links', false],
    ['track_opens', false],
    ['trigger', 'subscription'],
    ['trigger_autoresponder_to_click_id', target, true],
    ['trigger_autoresponder_to_click_on_any_url', true, true],
    ['trigger_autoresponder_to_click_urls', ['https://example.com/%%id%%', 'mailto:x'], true],
    ['trigger_autoresponder_to_open_id', target, true],
    ['trigger_autoresponder_to_send_id', target, true],
    ['trigger_campaign_to_click_id', 8, true],
    ['trigger_campaign_to_click_on_any_url', false, true],
    ['trigger_campaign_to_click_urls', ['HTTPS://EXAMPLE.com'], true],
    ['trigger_campaign_to_open_id', 9, true],
    ['trigger_include_subscribers_from_import', true],
    ['trigger_run_on_api', false],
    ['content_subject', ' Hello ', true, 'Hello'],
    ['content_format', 'text'],
    ['content_html', '<p> x </p>', true],
    ['content_text', ' x\n', true],
  ]
  const sent = Object.fromEntries(fields.map(([name, value]) => [name, value]))
  const shown = Object.fromEntries(fields.map(([name, value, , as]) => [name, as ?? value]))
  const created = await create(list, sent)
  t.type(created.paused_at, 'string')
  const { id, mailing_list_id, paused_at } = created
  t.same(created, { ...defaults, ...shown, id, mailing_list_id, paused_at })

  const later = await create(list)
  t.match((await update(later, { ...sent, name: 'Third' })).data, { ...shown, name: 'Third' })
  t.match((await update(later, {})).data, { ...shown, name: 'Third' }, 'what is absent stays')
  for (const [name, , isNullable] of [...fields].reverse()) {
    const answer = await update(later, { [name]: null })
    if (isNullable === true) t.equal(answer.data?.[name], null, name)
    else t.match(answer, { error_code: 'validation_failed', error_message: new RegExp(`^${name} `) }, name)
  }
  t.match(
    (await update(later, { from_email: ' ', reply_to: '', from_name: '' })).data,
    { from_email: null, reply_to: null, from_name: null },
    'blank is none',
  )
  const readOnly = {
    id: 1,
    mailing_list_id: 1,
    paused_at: '2020-01-01T00:00:00Z',
    triggered_on: '2020-01-01',
  }
  t.same((await update(created, readOnly)).data, created, 'what is read-only is ignored')
})

t.test('a blank virtual MTA or bounce address is none', async (t) => {
  const list = await createList(service)
  const names = ['virtual_mta_id', 'bounce_email_domain_id', 'bounce_email_user_id']
  const all = (value: unknown) => Object.fromEntries(names.map((name) => [name, value]))
  const created = await create(list, all(5))
  t.match(created, all(5))
  t.match((await update(created, all(''))).data, all(null))
  t.match(await create(list, all('')), all(null))
})

t.test('another thing outside has another name', async (t) => {
  const list = await createList(service)
  const created = await create(list, { special_sending_rule_id: 1, special_sending_rule_name: 'One' })
  t.match((await update(created, { special_sending_rule_id: 1 })).data, { special_sending_rule_name: 'One' })
  t.match((await update(created, { special_sending_rule_id: 2 })).data, { special_sending_rule_name: null })
  const both = { special_sending_rule_id: 3, special_sending_rule_name: 'Three' }
  t.match((await update(created, both)).data, both)
})

t.test('values that are wrong, or wrong beside each other', async (t) => {
  const list = await createList(service)
  const created = await create(list)
  const later = { delay: 'with_delay', delay_unit: 'days', delay_amount: 1 }
  const wrong: [fields: object, field: string][] = [
    [{ from_email: 'nobody' }, 'from_email'],
    [{ reply_to: 'a@b' }, 'reply_to'],
    [{ from_name: 'a\r\nBcc: b@example.com' }, 'from_name'],
    [{ content_subject: 'a\nb', content_text: 'x' }, 'content_subject'],
    [{ content_html: 'x' }, 'content_subject'],
    [{ content_subject: ' ', content_text: 'x' }, 'content_subject'],
    [{ use_external_delivery_setting: false }, 'from_email'],
    [{ virtual_mta_id: -1 }, 'virtual_mta_id'],
    [{ url_domain_id: 0 }, 'url_domain_id'],
    [{ trigger: 'open' }, 'trigger'],
    [{ trigger_campaign_to_click_urls: 'https://example.com' }, 'trigger_campaign_to_click_urls'],
    [{ trigger_autoresponder_to_open_id: 999_999 }, 'trigger_autoresponder_to_open_id'],
    [{ delay_amount: 1 }, 'delay_amount'],
    [{ delay_time: 1 }, 'delay_time'],
    [{ delay_unit: 'days' }, 'delay_unit'],
    [{ delay: 'with_delay' }, 'delay_unit'],
    [{ delay: 'with_delay', delay_unit: 'days' }, 'delay_amount'],
    [{ ...later, delay_time: 24 }, 'delay_time'],
    [{ ...later, delay_unit: 'hours', delay_time: 5 }, 'delay_time'],
    [{ ...later, delay_unit: 'months', delay_amount: 1_201 }, 'delay_amount'],
    [{ ...later, delay_unit: 'years' }, 'delay_unit'],
    [{ ...later, delay_amount: 1.5 }, 'delay_amount'],
    [{ ...later, delay_amount: '1' }, 'delay_amount'],
  ]
  for (const [fields, field] of wrong) {
    const what = JSON.stringify(fields)
    const autoresponder = { name: 'Wrong', trigger: 'api', ...fields }
    const refusal = { error_code: 'validation_failed', error_message: new RegExp(`^${field} ?`) }
    t.match((await call('POST', pathOf(list), { autoresponder })).body, refusal, what)
    t.match(await update(created, fields), refusal, what)
  }
  t.same(await get(pathOf(list)), [created], 'nothing came of it')
})

t.test('a delay goes with its unit and its hour', async (t) => {
  const list = await createList(service)
  const days = { delay: 'with_delay', delay_unit: 'days', delay_amount: 2, delay_time: 9 }
  const created = await create(list, days)
  t.match(created, days)
  t.match(
    (await update(created, { delay_unit: 'minutes' })).data,
    { delay_unit: 'minutes', delay_amount: 2, delay_time: 0 },
    'minutes have no hour of the day',
  )
  t.match((await update(created, { delay_unit: 'months', delay_time: 23 })).data, { delay_time: 23 })
  t.match(
    (await update(created, { delay: 'immediately' })).data,
    { delay: 'immediately', delay_amount: 0, delay_time: 0, delay_unit: null },
    'at once has none of them',
  )
  t.match(await update(created, { delay_amount: 3 }), { error_code: 'validation_failed' })
})

t.test('nine triggers, each with what it is about', async (t) => {
  const list = await createList(service)
  const id = (await create(list)).id
  const later = { delay: 'with_delay', delay_unit: 'hours', delay_amount: 1 }
  const anyUrl = { trigger_autoresponder_to_click_on_any_url: true }
  const urls = { trigger_autoresponder_to_click_urls: ['https://example.com/'] }
  const triggers: [trigger: string, fields: object, needed: string[]][] = [
    ['subscription', {}, []],
    ['api', {}, []],
    ['campaign_open', { trigger_campaign_to_open_id: 5 }, ['trigger_campaign_to_open_id']],
    [
      'campaign_click',
      { trigger_campaign_to_click_id: 5, trigger_campaign_to_click_on_any_url: true },
      ['trigger_campaign_to_click_id', 'trigger_campaign_to_click_on_any_url'],
    ],
    ['autoresponder_open', { trigger_autoresponder_to_open_id: id }, ['trigger_autoresponder_to_open_id']],
    [
      'autoresponder_nonopen',
      { trigger_autoresponder_to_open_id: id, ...later },
      ['trigger_autoresponder_to_open_id', 'delay'],
    ],
    [
      'autoresponder_click',
      { trigger_autoresponder_to_click_id: id, ...anyUrl },
      ['trigger_autoresponder_to_click_id', 'trigger_autoresponder_to_click_on_any_url'],
    ],
    [
      'autoresponder_nonclick',
      { trigger_autoresponder_to_click_id: id, ...urls, ...later },
      ['trigger_autoresponder_to_click_id', 'trigger_autoresponder_to_click_urls', 'delay'],
    ],
    ['autoresponder_send', { trigger_autoresponder_to_send_id: id }, ['trigger_autoresponder_to_send_id']],
  ]
  for (const [trigger, fields, needed] of triggers) {
    t.match(await create(list, { trigger, ...fields }), { trigger, ...fields }, trigger)
    for (const name of needed) {
      const left = Object.entries(fields).filter(([field]) => !field.startsWith(name))
      // Without a delay there is neither unit nor amount.
      const rest = name === 'delay' ? left.filter(([field]) => !field.startsWith('delay')) : left
      const autoresponder = { name: 'Less', trigger, ...Object.fromEntries(rest) }
      const { body } = await call('POST', pathOf(list), { autoresponder })
      t.match(body, { error_code: 'validation_failed' }, `${trigger} without ${name}`)
      t.ok(body.error_message.includes(name), `${trigger} without ${name}`)
    }
  }
  const notReally = {
    trigger_autoresponder_to_click_on_any_url: false,
    trigger_autoresponder_to_click_urls: [],
  }
  const autoresponder = {
    name: 'None',
    trigger: 'autoresponder_click',
    trigger_autoresponder_to_click_id: id,
    ...notReally,
  }
  t.match((await call('POST', pathOf(list), { autoresponder })).body, { error_code: 'validation_failed' })
})

t.test('a pause keeps its beginning', async (t) => {
  const { id: organizationId } = await post('/organizations', {
    organization: { name: 'Far', time_zone_name: 'Asia/Kolkata' },
  })
  const list = await post('/mailing_lists', {
    mailing_list: { name: 'Far', organization_id: organizationId },
  })
  const created = await create(list)
  const paused = (await update(created, { paused: true })).data
  t.match(paused.paused_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30$/)
  const begun = new Date('2026-01-01T20:00:00Z')
  await collections.autoresponders.updateOne(
    { _id: created.id },
    { $set: { paused_at: begun, triggered_at: begun } },
  )
  t.match((await update(created, { paused: true, track_opens: false })).data, {
    paused: true,
    paused_at: '2026-01-02T01:30:00+05:30',
    triggered_on: '2026-01-02',
  })
  t.match((await update(created, { paused: false })).data, { paused: false, paused_at: null })
})

t.test('filters select autoresponders', async (t) => {
  const list = await createList(service)
  for (const name of ['Welcome', 'welcome again', 'Bye', 'a*b']) await create(list, { name })
  const names = async (query: string): Promise<string[]> =>
    (await get<Json[]>(`${pathOf(list)}${query}`)).map(({ name }) => name)
  t.same(await names(''), ['Welcome', 'welcome again', 'Bye', 'a*b'])
  t.same(await names('?name=WELCOME'), ['Welcome'])
  t.same(await names('?name=WEL*'), ['Welcome', 'welcome again'])
  t.same(await names(`?name=${'*a'.repeat(300)}`), [])
  t.same(await names('?name=.*'), [])
  const [first] = await get<Json[]>(`${pathOf(list)}?minimal=1`)
  t.same(first, { id: first.id, name: 'Welcome' })
  t.same(Object.keys((await get<Json[]>(`${pathOf(list)}?minimal=true&name=b*`))[0]), ['id', 'name'])
  t.ok(Object.keys((await get<Json[]>(`${pathOf(list)}?minimal=false`))[0]).length > 2)
  t.match((await call('GET', `${pathOf(list)}?minimal=yes`)).body, { error_code: 'invalid_request' })
})

t.test('names of autoresponders are unique on a list, compared without case', async (t) => {
  const [list, other] = [await createList(service), await createList(service)]
  await create(list, { name: 'News' })
  const second = await create(list, { name: 'Second' })
  await create(other, { name: 'NEWS' })
  t.match(await update(second, { name: 'nEWS' }), {
    error_code: 'validation_failed',
    error_message: /^name "nEWS" is taken/,
  })
  t.match((await update(second, { name: 'SECOND' })).data, { name: 'SECOND' }, 'its own is free')
})

const sends = (id: number) => ({ trigger: 'autoresponder_send', trigger_autoresponder_to_send_id: id })
const opens = (id: number) => ({ trigger: 'autoresponder_open', trigger_autoresponder_to_open_id: id })
const cycleRefusal = { error_code: 'validation_failed', error_message: /can't trigger each other in a cycle/ }

t.test('no autoresponder triggers itself, not even by others', async (t) => {
  const [list, other] = [await createList(service), await createList(service)]
  const a = await create(list)
  const b = await create(other, opens(a.id))
  const c = await create(list, {
    trigger: 'autoresponder_nonclick',
    trigger_autoresponder_to_click_id: b.id,
    trigger_autoresponder_to_click_on_any_url: true,
    delay: 'with_delay',
    delay_unit: 'days',
    delay_amount: 1,
  })
  t.match(await update(a, sends(a.id)), cycleRefusal)
  t.match(await update(a, opens(b.id)), cycleRefusal)
  t.match(await update(a, sends(c.id)), cycleRefusal)
  t.match(await update(a, { trigger_autoresponder_to_open_id: c.id }), { success: true }, 'a target at rest')
  t.match(await update(a, { trigger: 'autoresponder_open' }), cycleRefusal, 'until the trigger wakes it')
  t.match(await update(b, { trigger: 'api' }), { success: true })
  t.match(await update(a, { trigger: 'autoresponder_open' }), { success: true }, 'a chain that ends')
})

t.test('concurrent updates make no cycle together', async (t) => {
  const lists = [await createList(service), await createList(service), await createList(service)]
  for (let round = 0; round < 6; round += 1) {
    const all: Json[] = []
    for (const list of lists) all.push(await create(list))
    const answers = await Promise.all(
      all.map((autoresponder, i) => update(autoresponder, sends(all[(i + 1) % all.length].id))),
    )
    t.equal(answers.filter(({ success }) => success).length, 2, JSON.stringify(answers))
    t.match(
      answers.find(({ success }) => !success),
      cycleRefusal,
    )
  }
})

t.test('a user who may only change the state may pause', async (t) => {
  const list = await createList(service)
  const created = await create(list)
  const { id: userId } = await post('/users', {
    user: {
      full_name: 'Ann',
      email: 'ann@example.com',
      active: true,
      role: 'standard',
      permissions: { autoresponder: ['update_state'] },
      password1: 'long enough',
      password2: 'long enough',
    },
  })
  const { key } = await post('/api_keys', { api_key: { name: 'Ann', role: 'standard', user_id: userId } })
  const asAnn = (autoresponder: object) =>
    call('PUT', `${pathOf(list)}/${created.id}`, { autoresponder }, { key })
  t.match((await asAnn({ paused: true })).body, { success: true, data: { paused: true } })
  t.match(
    (await asAnn({ paused: false, id: 5 })).body,
    { data: { paused: false } },
    'what is ignored is no change',
  )
  const refused = await asAnn({ paused: true, name: 'Hers' })
  t.equal(refused.status, 403)
  t.match(refused.body, { error_code: 'not_authorized' })
  t.same(await get(pathOf(list)), [created])
})

t.test('contents of more than 1 MiB may only shrink', async (t) => {
  const list = await createList(service)
  const stored = await create(list, { content_subject: 'Hello', content_text: 'x'.repeat(10) })
  const large = 'x'.repeat(1_048_576)
  await collections.autoresponders.updateOne({ _id: stored.id }, { $set: { content_html: large } })
  const refusal = { error_code: 'validation_failed', error_message: /at most 1048576 bytes in all/ }
  t.match(await update(stored, { content_text: 'x'.repeat(11) }), refusal, 'a byte more')
  t.match(await update(stored, { content_text: 'y'.repeat(10) }), { success: true }, 'as much')
  t.match(await update(stored, { paused: true }), { success: true }, 'something else')
  t.match(await update(stored, { content_text: 'y'.repeat(9) }), { success: true }, 'a byte less')
  t.match(await update(stored, { content_text: 'y'.repeat(10) }), refusal, 'and no way back')
  t.match(await update(stored, { content_text: null }), { success: true })
  t.match(await update(stored, { content_text: 'y' }), refusal, 'over the limit again')
})
