import t, { type Test } from 'tap'
import { createList, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

const { call, get, post } = service

const pathOf = (list: Json): string => `/mailing_lists/${list.id}/templates`

let made = 0
const create = (list: Json, fields: object = {}): Promise<Json> =>
  post(pathOf(list), { campaign: { name: `T${(made += 1)}`, ...fields } })

/** Resolves to the envelope. */
const update = async ({ id }: Json, campaign: object): Promise<Json> =>
  (await call('PUT', `/templates/${id}`, { campaign })).body

async function refused(t: Test, template: Json, fields: object, message: RegExp): Promise<void> {
  const list = { id: template.mailing_list_id }
  const refusal = { success: false, error_code: 'validation_failed', error_message: message }
  const what = JSON.stringify(fields).slice(0, 100)
  t.match((await call('POST', pathOf(list), { campaign: { name: 'Bad', ...fields } })).body, refusal, what)
  t.match(await update(template, fields), refusal, what)
}

t.test('a name is enough', async (t) => {
  const list = await createList(service)
  const created = await post(pathOf(list), { campaign: { name: ' News ' } })
  const { created_at, updated_at } = created
  t.same(created, {
    id: created.id,
    name: 'News',
    mailing_list_id: list.id,
    mailing_list_name: list.name,
    organization_id: 1,
    organization_name: created.organization_name,
    segmentation_criteria_id: null,
    segmentation_criteria_name: null,
    segmentation_criteria_remote_sql: null,
    contents: [],
    content_subject: null,
    email_format: null,
    content_html: null,
    content_text: null,
    archived: false,
    content_determined: false,
    template: true,
    created_at,
    updated_at,
    custom_dynamic_template_id: null,
    stat_summary: null,
    content_stats: [],
    automatic_winner_selection: null,
    campaign_contents: [],
  })
  t.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  t.same(await get(`/templates/${created.id}`), created)
  const summary = {
    id: created.id,
    name: 'News',
    mailing_list_id: list.id,
    mailing_list_name: list.name,
    organization_id: 1,
    segmentation_criteria_id: null,
  }
  t.same(await get(pathOf(list)), [summary])
  t.same(
    (await get<Json[]>('/templates')).filter(({ id }) => id === created.id),
    [summary],
  )
  for (const campaign of [{}, { name: '' }, { name: null }, { name: 'NEWS' }])
    t.match((await call('POST', pathOf(list), { campaign })).body, { error_code: 'validation_failed' })
})

t.test('contents are changed by id, added and removed', async (t) => {
  const list = await createList(service)
  const created = await create(list, {
    contents: [
      { name: 'One', subject: ' First ', format: 'both', html: '<p>1</p>', text: '1' },
      { id: null, name: null, subject: 'Second', format: 'html', html: '<p>2</p>', text: 'hidden' },
      { format: null },
    ],
  })
  const [one, two, three] = created.contents
  t.same(created.contents, [
    { id: one.id, name: 'One', subject: 'First', format: 'both', html: '<p>1</p>', text: '1' },
    { id: two.id, name: null, subject: 'Second', format: 'html', html: '<p>2</p>' },
    { id: three.id, name: null, subject: null, format: 'both', html: null, text: null },
  ])
  t.same([one.id < two.id, two.id < three.id], [true, true])
  t.match(created, { content_subject: 'First', email_format: 'both', content_html: '<p>1</p>' })

  const changed = await update(created, {
    contents: [
      { id: three.id, _destroy: true },
      { id: two.id, format: 'text', subject: null },
      { name: 'New' },
    ],
  })
  t.same(changed.data.contents.slice(0, 2), [
    one,
    { id: two.id, name: null, subject: null, format: 'text', text: 'hidden' },
  ])
  t.match(changed.data.contents[2], { name: 'New', format: 'both' })
  t.ok(changed.data.contents[2].id > three.id)
  const gone = await update(created, { contents: [{ id: one.id, _destroy: true }] })
  t.match(gone.data, {
    email_format: 'text',
    content_subject: null,
    content_html: null,
    content_text: 'hidden',
  })
  t.equal((await update(created, { contents: [] })).data.contents.length, 2, 'what is absent is left alone')
  const back = (await get(`/templates/${created.id}`)).contents
  t.same((await update(created, { contents: back })).data.contents, back, 'what was read can be sent')

  const id = back[0].id
  await refused(
    t,
    created,
    { contents: [{ id: one.id, name: 'gone' }] },
    /^contents\.0\.id .* names no content/,
  )
  await refused(
    t,
    created,
    { contents: [{ name: 'x', _destroy: true }] },
    /^contents\.0\._destroy needs the id/,
  )
  await refused(t, created, { contents: [{ subject: 'a\nb' }] }, /^contents\.0\.subject/)
  await refused(t, created, { contents: [{ format: 'pdf' }] }, /^contents\.0\.format/)
  await refused(t, created, { contents: [{ name: ' ' }] }, /^contents\.0\.name/)
  await refused(
    t,
    created,
    { contents: Array.from({ length: 101 }, () => ({})) },
    /^contents must have at most 100/,
  )
  const refusal = { error_code: 'validation_failed' }
  t.match(await update(created, { contents: [{ id }, { id }] }), refusal, 'twice')
  t.match(await update(created, { contents: [{ id, format: null }] }), refusal, 'a format is never null')
  t.match(await update(created, { contents: null }), refusal)
  t.match(await update(created, { contents: Array.from({ length: 99 }, () => ({})) }), {
    error_message: /^contents must have at most 100 entries in all/,
  })
  t.same((await get(`/templates/${created.id}`)).contents, back, 'nothing came of it')
})

t.test('the deprecated fields stand for the first content', async (t) => {
  const list = await createList(service)
  const created = await create(list, {
    content_subject: 'Old',
    content_html: '<p>x</p>',
    email_format: 'html',
  })
  const [{ id }] = created.contents
  t.same(created.contents, [{ id, name: null, subject: 'Old', format: 'html', html: '<p>x</p>' }])
  t.equal(created.content_determined, true)
  await update(created, { contents: [{ name: 'Second' }] })
  const changed = (await update(created, { content_subject: null, content_text: 'x', email_format: 'both' }))
    .data
  t.same(changed.contents[0], { id, name: null, subject: null, format: 'both', html: '<p>x</p>', text: 'x' })
  t.match(changed, { content_determined: false, contents: [{ id }, { name: 'Second' }] })
  const empty = await create(list)
  t.match((await update(empty, { content_text: 'x' })).data.contents, [{ text: 'x' }], 'or make one')
  await refused(t, created, { contents: [], content_text: 'x' }, /^contents can't be given together/)
  t.match(await update(created, { email_format: null }), { error_code: 'validation_failed' })
})

/** Each delivery setting with a value, whether null clears it, and how a reply shows the value where it differs. */
const deliverySettings: [field: string, sent: unknown, isNullable?: boolean, shown?: unknown][] = [
  ['virtual_mta_id', 5, true],
  ['virtual_mta_name', 'Route', true],
  ['bounce_email_id', '3@7', true],
  ['bounce_email_name', 'Bounces', true],
  ['bounce_email_email', 'b@example.com', true],
  ['url_domain_id', 6, true],
  ['url_domain_name', 'Links', true],
  ['url_domain_domain', 'links.example.com', true],
  ['seed_list_id', 8, true],
  ['seed_list_name', 'Seeds', true],
  ['special_sending_rule_id', 9, true],
  ['speed', 100],
  ['track_opens', false],
  ['track_links', false],
  ['paused', true],
  ['from_name', ' Sender ', true, 'Sender'],
  ['from_email', ' s@example.com ', true, 's@example.com'],
  ['reply_to', 'r@example.com', true],
  ['sender_email', 't@example.com', true],
  ['begins_at', '2026-01-31T12:00', true, '2026-01-31T12:00:00+05:30'],
  ['autowinner_enabled', true],
  ['autowinner_percentage', 25, true, '25.0'],
  ['autowinner_delay_amount', 90, true],
  ['autowinner_delay_unit', 'minutes', true],
  ['autowinner_metric', 'click_to_open_rate', true],
]

const dispatch_attributes = Object.fromEntries(deliverySettings.map(([name, value]) => [name, value]))
/** How a reply shows them all, with what follows from them. */
const shownDispatch = {
  ...Object.fromEntries(deliverySettings.map(([name, value, , as]) => [name, as ?? value])),
  state: 'idle',
  state_description: 'Idle',
  virtual_mta_type: null,
  bounce_email_user_id: 3,
  bounce_email_domain_id: 7,
  seed_lists: [{ id: 8, name: 'Seeds' }],
  special_sending_rule_name: null,
  started_at: null,
  finished_at: null,
}

async function listFarEast(): Promise<Json> {
  const { id: organization_id } = await post('/organizations', {
    organization: { name: 'Far', time_zone_name: 'Asia/Kolkata' },
  })
  return post('/mailing_lists', { mailing_list: { name: 'Far', organization_id } })
}

t.test('every delivery setting is stored and shown, and stays where a change leaves it out', async (t) => {
  const list = await listFarEast()
  t.same((await create(list, { dispatch_attributes })).dispatch, shownDispatch)
  const later = await create(list, { dispatch_attributes: {} })
  t.notOk('dispatch' in later, 'no delivery is shown before a setting is given')
  t.same((await update(later, { dispatch_attributes })).data.dispatch, shownDispatch)
  t.same((await update(later, { name: 'Later' })).data.dispatch, shownDispatch)
})

t.test('a special sending rule has an id or a name, and one replaces the other', async (t) => {
  const template = await create(await createList(service), { dispatch_attributes: {} })
  const shown = async (attributes: Json) => {
    const { dispatch } = (await update(template, { dispatch_attributes: attributes })).data
    return [dispatch.special_sending_rule_id, dispatch.special_sending_rule_name]
  }
  t.same(await shown({ special_sending_rule_name: 'Slow' }), [null, 'Slow'])
  t.same(await shown({ special_sending_rule_id: 9 }), [9, null])
  t.same(await shown({ special_sending_rule_name: 'Slow' }), [null, 'Slow'])
  t.same(await shown({ special_sending_rule_id: null }), [null, 'Slow'], 'null replaces nothing')
  await refused(
    t,
    template,
    { dispatch_attributes: { special_sending_rule_id: 9, special_sending_rule_name: 'Slow' } },
    /^only one of dispatch_attributes.special_sending_rule_id and special_sending_rule_name may be given/,
  )
})

t.test('null clears a delivery setting that may be null, and is refused for the others', async (t) => {
  const template = await create(await listFarEast(), { dispatch_attributes })
  const answers: Json[] = []
  const settings = [...deliverySettings].reverse()
  for (const [name] of settings) {
    const { data, ...refusal } = await update(template, { dispatch_attributes: { [name]: null } })
    answers.push({ name, shown: data?.dispatch[name], ...refusal })
  }
  t.match(
    answers,
    settings.map(([name, , isNullable]) =>
      isNullable === true
        ? { name, shown: null }
        : {
            ...{ name, error_code: 'validation_failed' },
            error_message: new RegExp(`^dispatch_attributes\\.${name} `),
          },
    ),
  )
  t.match((await update(template, { dispatch_attributes: { bounce_email_id: '' } })).data.dispatch, {
    bounce_email_id: null,
    bounce_email_user_id: null,
    seed_lists: [],
  })
  const { dispatch } = (await update(template, { dispatch_attributes: null })).data
  t.match(dispatch, { bounce_email_id: null }, 'null is no hash given, so the delivery stays')
})

t.test('a route of 0 is the default route, and a name goes with the thing that it names', async (t) => {
  const list = await listFarEast()
  t.match(await create(list, { dispatch_attributes: { virtual_mta_id: 0 } }), {
    dispatch: {
      virtual_mta_id: 0,
      virtual_mta_name: 'System Default Route',
      virtual_mta_type: 'default_route',
      speed: 0,
      track_opens: true,
      track_links: true,
      paused: false,
      autowinner_enabled: false,
      from_email: null,
    },
  })
  const created = await create(list, { dispatch_attributes })
  t.match(
    (await update(created, { dispatch_attributes: { special_sending_rule_name: 'Rule', virtual_mta_id: 4 } }))
      .data.dispatch,
    {
      special_sending_rule_id: null,
      special_sending_rule_name: 'Rule',
      virtual_mta_name: null,
      bounce_email_name: 'Bounces',
    },
    'a name goes with its thing',
  )
})

t.test('percentages come in as numbers and strings, and go out as strings', async (t) => {
  const template = await create(await createList(service))
  const asShown: [sent: unknown, shown: string][] = [
    [0, '0.0'],
    [100, '100.0'],
    [12.5, '12.5'],
    [33.33, '33.33'],
    ['25', '25.0'],
    ['25.0', '25.0'],
    [' 7.50 ', '7.5'],
    ['0.01', '0.01'],
    ['100.00', '100.0'],
  ]
  for (const [autowinner_percentage, shown] of asShown) {
    const answer = await update(template, { dispatch_attributes: { autowinner_percentage } })
    t.equal(answer.data?.dispatch.autowinner_percentage, shown, JSON.stringify(autowinner_percentage))
  }
  for (const autowinner_percentage of [
    ...[12.345, '12.345', '12.340', 100.01, -1, '-1', '', 'x', '25%', '1e1'],
    true,
    0.1 + 0.2,
  ])
    await refused(
      t,
      template,
      { dispatch_attributes: { autowinner_percentage } },
      /^dispatch_attributes\.autowinner_percentage must be .*(at most 2 decimals|at least 0|at most 100)/,
    )
})

t.test('values that are wrong, or only for replies', async (t) => {
  const template = await create(await createList(service), { dispatch_attributes: { speed: 1 } })
  const wrong: Record<string, unknown> = {
    speed: -1,
    from_email: 'nobody',
    from_name: 'a\r\nb',
    reply_to: 'a@b',
    begins_at: 'tomorrow',
    bounce_email_id: '3@',
    virtual_mta_id: -1,
    url_domain_id: 0,
    seed_list_id: '5',
    autowinner_delay_unit: 'weeks',
    autowinner_metric: 'luck',
    autowinner_delay_amount: -1,
    track_opens: 'yes',
  }
  for (const [name, value] of Object.entries(wrong))
    await refused(
      t,
      template,
      { dispatch_attributes: { [name]: value } },
      new RegExp(`^dispatch_attributes\\.${name} must`),
    )
  await refused(t, template, { segmentation_criteria_id: 0 }, /^segmentation_criteria_id must/)
  await refused(t, template, { custom_dynamic_template_id: 'x' }, /^custom_dynamic_template_id must/)
  await refused(
    t,
    template,
    { dispatch_attributes: { special_sending_rule_id: 1, special_sending_rule_name: 'x' } },
    /^only one of dispatch_attributes.special_sending_rule_id/,
  )
  const readOnly = [
    ...['id', 'mailing_list_id', 'mailing_list_name', 'organization_id'],
    ...['organization_name', 'segmentation_criteria_name', 'dispatch', 'created_at'],
    ...['updated_at', 'archived', 'content_determined', 'template', 'stat_summary'],
    ...['content_stats', 'automatic_winner_selection', 'campaign_contents'],
  ]
  for (const name of readOnly)
    for (const value of ['x', null])
      await refused(t, template, { [name]: value }, new RegExp(`^${name} is read-only and must not be sent$`))
  const ofDispatch = [
    'state',
    'state_description',
    'virtual_mta_type',
    'seed_lists',
    'started_at',
    'finished_at',
  ]
  for (const name of ofDispatch)
    await refused(
      t,
      template,
      { dispatch_attributes: { [name]: 'idle' } },
      new RegExp(`^dispatch_attributes\\.${name} is read-only`),
    )
  t.same(await get(`/templates/${template.id}`), template, 'nothing came of it')
  t.match(await update(template, { custom_dynamic_template_id: 5, unknown: 1 }), {
    data: { custom_dynamic_template_id: 5 },
  })
})

t.test('a segment is one of the system or SQL of a Remote List', async (t) => {
  const here = await create(await createList(service), { segmentation_criteria_id: 3 })
  t.match(here, { segmentation_criteria_id: 3, segmentation_criteria_name: null })
  const sql = { segmentation_criteria_remote_sql: 'SELECT 1' }
  await refused(t, here, sql, /possible only on Remote Lists/)
  const remote = await create(await createList(service, [], { is_remote_list: true }), sql)
  t.match(remote, { ...sql, segmentation_criteria_id: null })
  await refused(
    t,
    remote,
    { ...sql, segmentation_criteria_id: 3 },
    /^only one of segmentation_criteria_id and/,
  )
  const other = { segmentation_criteria_id: 3, segmentation_criteria_remote_sql: null }
  t.match((await update(remote, { segmentation_criteria_id: 3 })).data, other)
  t.match((await update(remote, { ...sql, segmentation_criteria_id: null })).data, { ...sql })
  t.match((await update(remote, { segmentation_criteria_remote_sql: null })).data, {
    segmentation_criteria_id: null,
    segmentation_criteria_remote_sql: null,
  })
})

t.test('changes at once lose nothing', async (t) => {
  const template = await create(await createList(service), { contents: [{ name: 'a' }, { name: 'b' }] })
  const [a, b] = template.contents
  const added = Array.from({ length: 12 }, (_, i) => `new ${i}`)
  const answers = await Promise.all([
    ...added.map((name) => update(template, { contents: [{ name }] })),
    update(template, { contents: [{ id: a.id, subject: 'A' }] }),
    update(template, { contents: [{ id: b.id, _destroy: true }] }),
    update(template, { dispatch_attributes: { speed: 7 } }),
    update(template, { dispatch_attributes: { paused: true } }),
    update(template, { name: 'Together' }),
  ])
  t.same(
    answers.filter(({ success }) => !success),
    [],
  )
  const after = await get(`/templates/${template.id}`)
  t.same(after.contents.map(({ name }: Json) => name).sort(), ['a', ...added].sort())
  t.match(after, { name: 'Together', dispatch: { speed: 7, paused: true } })
  t.equal(after.contents[0].subject, 'A')
})

t.test('a template doesn’t grow beyond the size of a document', async (t) => {
  const template = await create(await createList(service))
  const text = 'x'.repeat(900_000)
  let answer: Json
  let added = 0
  do {
    answer = await update(template, { contents: [{ text }] })
    if (answer.success) added += 1
  } while (answer.success && added < 20)
  t.equal(added, 8)
  t.match(answer, {
    error_code: 'validation_failed',
    error_message: /^contents must have at most 8000000 bytes/,
  })
})
