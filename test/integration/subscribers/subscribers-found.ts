import type { Document } from 'mongodb'
import t from 'tap'
import { createList, type Json, type Service } from '../../helpers/service.ts'
import { service } from './service.ts'

/** Finding subscribers: pages, emails over many lists, lists on which several share an email; and what it costs. */

const { call, get, post } = service

interface Page {
  data: Json[]
  next_page_token: string | null
  num_records: number | null
  num_pages: number | null
  page?: number
  per_page: number
}
const page = async (path: string): Promise<Page> => {
  const { body } = await call('GET', path)
  if (body.success !== true) throw new Error(`${path}: ${JSON.stringify(body)}`)
  return body
}

async function add(listId: number, email: string, more: object = {}): Promise<Json> {
  return post(`/mailing_lists/${listId}/subscribers`, { subscriber: { email, ...more } })
}

/** A list on which a number tells subscribers apart. */
async function keyedList(service: Service, list: object = {}): Promise<Json> {
  const made = await createList(service, [{ name: 'Number', field_type: 'number', required: true }], {
    ...list,
  })
  const [field] = await get<Json[]>(`/mailing_lists/${made.id}/custom_fields`)
  await call('PUT', `/mailing_lists/${made.id}`, {
    mailing_list: { primary_key_custom_field_id: field.id },
  })
  return made
}

/** Every page by tokens; what happens between two of them is the caller's. */
async function pages(
  path: string,
  between: (n: number) => Promise<unknown> = async () => {},
  /** The path of the later pages. */
  later = path,
): Promise<Page[]> {
  const found: Page[] = []
  let token: string | null = ''
  while (token !== null) {
    const glue = later.includes('?') ? '&' : '?'
    const next = await page(token === '' ? path : `${later}${glue}page_token=${encodeURIComponent(token)}`)
    found.push(next)
    token = next.next_page_token
    await between(found.length)
  }
  return found
}

t.test('a list is read in pages, by number and by token', async (t) => {
  const list = await createList(service)
  const path = `/mailing_lists/${list.id}/subscribers`
  t.match(await page(path), {
    data: [],
    page: 0,
    per_page: 100,
    num_records: 0,
    num_pages: 0,
    next_page_token: null,
  })
  const ids: number[] = []
  for (let i = 0; i < 7; i += 1) ids.push((await add(list.id, `s${6 - i}@example.com`)).id)
  t.match(await page(`${path}?page=1&per_page=3`), {
    data: ids.slice(3, 6).map((id) => ({ id })),
    page: 1,
    per_page: 3,
    num_records: 7,
    num_pages: 3,
    next_page_token: /./,
  })
  t.match(await page(`${path}?page=3&per_page=3`), { data: [], next_page_token: null })
  for (const large of ['501', '9999', '9'.repeat(16), '9'.repeat(400)])
    t.equal((await page(`${path}?per_page=${large}`)).per_page, 500, large)
  const byToken = await pages(`${path}?per_page=3`)
  t.same(
    byToken.map(({ data }) => data.map(({ id }) => id)),
    [ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)],
  )
  t.match(byToken[0], { page: 0, num_records: 7, num_pages: 3 })
  t.notOk('page' in byToken[1]!)
  t.match(byToken[2], { num_records: 7, num_pages: 3 }, 'a page by token says how many there are too')
  const fromNumber = await pages(`${path}?page=0&per_page=3`, undefined, `${path}?per_page=3`)
  t.same(
    fromNumber.flatMap(({ data }) => data.map(({ id }) => id)),
    ids,
    'a client that begins with page 0 and follows tokens meets all',
  )
  t.equal((await page(`${path}?per_page=7`)).next_page_token, null, 'nothing follows a full last page')

  for (const query of ['page=-1', 'page=x', 'per_page=0', 'per_page=x', 'page=0&page_token=x'])
    t.match((await call('GET', `${path}?${query}`)).body, { error_code: 'invalid_request' }, query)
})

t.test('a request for subscribers of whom the list has none finds nothing', async (t) => {
  const list = await createList(service)
  const path = `/mailing_lists/${list.id}/subscribers`
  const there = await add(list.id, 'there@example.com')
  for (const [names, message] of [
    ['nobody@example.com', 'there is no subscriber nobody@example.com'],
    ['exprot', 'there is no subscriber exprot'],
    [',', 'there is no subscriber ,'],
    ['nobody@example.com,999999999,x', 'the list has none of the 3 subscribers that are asked for'],
  ])
    t.match((await call('GET', `${path}/${names}`)).body, {
      success: false,
      data: null,
      error_code: 'not_found',
      error_message: message,
    })
  t.match((await call('GET', `${path}/nobody@example.com,there@example.com`)).body, {
    success: true,
    data: [{ id: there.id }],
  })
})

t.test('page tokens resume where they stopped, whatever comes and goes', async (t) => {
  const list = await createList(service)
  const path = `/mailing_lists/${list.id}/subscribers`
  const ids: number[] = []
  for (let i = 0; i < 9; i += 1) ids.push((await add(list.id, `s${i}@example.com`)).id)
  const seen = await pages(`${path}?per_page=3`, async (n) => {
    // The one that the token stands at, one behind it, and one ahead of it.
    if (n !== 1) return
    for (const i of [2, 0, 4]) await call('DELETE', `${path}/${ids[i]}`)
    ids.push((await add(list.id, 'new@example.com')).id)
  })
  t.same(
    seen.map(({ data }) => data.map(({ id }) => id)),
    [ids.slice(0, 3), [ids[3], ids[5], ids[6]], ids.slice(7)],
  )
})

t.test('a token is worth nothing elsewhere, or when it was changed', async (t) => {
  const list = await createList(service)
  const other = await createList(service)
  for (const { id } of [list, other]) for (let i = 0; i < 3; i += 1) await add(id, `s${i}@example.com`)
  const path = `/mailing_lists/${list.id}/subscribers`
  const token = (await page(`${path}?per_page=1`)).next_page_token!
  const [payload, mac] = token.split('.') as [string, string]
  const forged = [
    'x',
    payload,
    `${payload}.`,
    `${Buffer.from('1').toString('base64url')}.${mac}`,
    `${payload}.${mac.slice(0, -1)}`,
    `${payload}.${'A'.repeat(mac.length)}`,
    `${payload}=.${mac}`,
    ` ${token}`,
    `${token}x`,
    'x'.repeat(10_000),
    '%00',
  ]
  const answers: unknown[] = []
  for (const bad of forged)
    answers.push([
      bad.slice(0, 60),
      (await call('GET', `${path}?page_token=${encodeURIComponent(bad)}`)).body,
    ])
  t.match(
    answers,
    forged.map((bad) => [bad.slice(0, 60), { error_code: 'invalid_request', error_message: /^page_token / }]),
  )
  for (const foreign of [
    `/mailing_lists/${other.id}/subscribers`,
    '/subscribers_by_email/s0@example.com',
    `/mailing_lists/${list.id}/subscribers_by_email/s0@example.com`,
  ])
    t.match((await call('GET', `${foreign}?page_token=${encodeURIComponent(token)}`)).body, {
      error_code: 'invalid_request',
    })
  t.equal((await page(`${path}?page_token=${encodeURIComponent(token)}&per_page=2`)).data.length, 2)
})

/** An email on lists of both kinds in one organization, and on a list of organization 1. Other subscribers are beside it. */
async function emailOnManyLists(email: string) {
  const organization = await post('/organizations', { organization: { name: 'Finders' } })
  const own = { organization_id: organization.id }
  const plain = await createList(service, [], own)
  const keyed = await keyedList(service, own)
  const last = await createList(service, [], own)
  await createList(service, [], { ...own, is_remote_list: true })
  const foreign = await createList(service)
  const onPlain = await add(plain.id, email)
  const twins: Json[] = []
  for (let i = 0; i < 5; i += 1)
    twins.push(
      await add(keyed.id, i % 2 === 0 ? email : email.toLowerCase(), { custom_fields: { Number: i } }),
    )
  const onLast = await add(last.id, email, { status: 'bounced' })
  const onForeign = await add(foreign.id, email)
  await add(plain.id, 'other@example.com')
  return {
    ...{ organization, plain, keyed, last, onPlain, twins, onLast, onForeign },
    /** Ids of the organization's subscribers, in the order of replies. */
    ownIds: [onPlain, ...twins, onLast].map(({ id }) => id),
    at: (path: string) => `${path}/subscribers_by_email/${encodeURIComponent(email.toUpperCase())}`,
  }
}

t.test('an email on lists of both kinds, in one, an organization and everywhere', async (t) => {
  const email = 'Ann.Finder@example.com'
  const { organization, plain, keyed, last, ...found } = await emailOnManyLists(email)
  const { onPlain, twins, onLast, onForeign, ownIds, at } = found
  const { key } = await post(`/organizations/${organization.id}/api_keys`, { api_key: { name: 'k' } })
  const asOwner = (await call('GET', at(''), undefined, { key })).body
  t.same(
    asOwner.data.map(({ id }: Json) => id),
    ownIds,
  )
  t.same(asOwner.data[0], {
    id: onPlain.id,
    status: 'active',
    email,
    mailing_list: { id: plain.id, name: plain.name },
  })
  t.match(asOwner, { page: 0, per_page: 100, num_records: 7, num_pages: 1, next_page_token: null })
  const inOrganization = await page(at(`/organizations/${organization.id}`))
  t.same(inOrganization.data.at(-1), {
    id: onLast.id,
    status: 'bounced',
    email,
    mailing_list: { id: last.id, name: last.name },
    organization: { id: organization.id, name: 'Finders' },
  })
  t.same(
    (await page(at(`/mailing_lists/${keyed.id}`))).data.map(({ id }) => id),
    twins.map(({ id }) => id),
  )
  t.same(
    (await page(at('/organizations/all'))).data.map(({ id, organization: { id: where } }) => [id, where]),
    [...ownIds.map((id) => [id, organization.id]), [onForeign.id, 1]],
  )
  for (const nobody of ['nobody@example.com', 'x', '*', '$gt', '%25'])
    t.match(await page(`/organizations/all/subscribers_by_email/${encodeURIComponent(nobody)}`), {
      data: [],
      num_records: 0,
    })
  t.equal(
    (await call('GET', at('/organizations/all'), undefined, { key })).status,
    403,
    'everywhere is for system admins',
  )
})

t.test('an email on lists of both kinds is found page by page', async (t) => {
  const { organization, onForeign, ownIds, at } = await emailOnManyLists('Bob.Finder@example.com')
  for (const perPage of [1, 2, 3, 6, 7]) {
    for (const path of [`/organizations/${organization.id}`, '/organizations/all']) {
      const byToken = await pages(`${at(path)}?per_page=${perPage}`)
      t.same(
        byToken.flatMap(({ data }) => data.map(({ id }) => id)),
        path.endsWith('all') ? [...ownIds, onForeign.id] : ownIds,
        `${path} by ${perPage}`,
      )
      const total = path.endsWith('all') ? 8 : 7
      for (const counted of byToken)
        t.match(
          counted,
          { num_records: total, num_pages: Math.ceil(total / perPage) },
          `${path} by ${perPage}`,
        )
    }
    const byNumber = await page(`${at(`/organizations/${organization.id}`)}?page=1&per_page=${perPage}`)
    t.same(
      byNumber.data.map(({ id }) => id),
      ownIds.slice(perPage, perPage * 2),
    )
    t.match(byNumber, { num_records: 7, num_pages: Math.ceil(7 / perPage) })
  }
})

t.test('several subscribers may have one email where it is no identity', async (t) => {
  const list = await keyedList(service)
  const path = `/mailing_lists/${list.id}/subscribers`
  const email = 'shared@example.com'
  const made: Json[] = []
  for (let i = 0; i < 23; i += 1) made.push(await add(list.id, email, { custom_fields: { Number: 100 - i } }))
  const ids = made.map(({ id }) => id)
  t.match((await call('POST', path, { subscriber: { email } })).body, {
    error_message: 'custom_fields.Number is required',
  })
  t.match(
    (await call('POST', path, { subscriber: { email: 'x@example.com', custom_fields: { Number: '0100' } } }))
      .body,
    {
      error_code: 'validation_failed',
      error_message: /already/,
    },
  )
  t.same(
    (await get<Json[]>(`${path}/${ids[3]},${email},${ids[5]}`)).map(({ id }) => id),
    [ids[3], ...ids.filter((id) => id !== ids[3])],
    'an email stands for all of its subscribers, by id',
  )
  t.match((await call('PUT', `${path}/${email}`, { subscriber: { status: 5 } })).body, {
    error_code: 'multiple_records_found',
    error_message: /several subscribers/,
  })
  const changed = (
    await call('PUT', `${path}/${ids[0]}`, {
      subscriber: { email: 'Alone@example.com', custom_fields: { Number: 5 } },
    })
  ).body.data
  t.match(changed, { id: ids[0], email: 'Alone@example.com', custom_fields: { Number: { value: 5 } } })
  t.match((await call('PUT', `${path}/alone@example.com`, { subscriber: { status: 'bounced' } })).body, {
    success: true,
    data: { id: ids[0], status: 'bounced' },
  })
  t.match((await call('PUT', `${path}/${ids[0]}`, { subscriber: { custom_fields: { Number: 99 } } })).body, {
    error_code: 'validation_failed',
    error_message: /already/,
  })
  t.match(
    (await call('PUT', `${path}/${ids[0]}`, { subscriber: { custom_fields: { Number: null } } })).body,
    {
      error_code: 'validation_failed',
      error_message: /^custom_fields.Number is required/,
    },
  )
  const rest = ids.slice(1)
  const remove = async () => (await call('DELETE', `${path}/SHARED@example.com`)).body
  t.same((await remove()).data, { subscriber_ids_removed: rest.slice(0, 10), more_remaining: true })
  t.same((await remove()).data, { subscriber_ids_removed: rest.slice(10, 20), more_remaining: true })
  t.same((await remove()).data, { subscriber_ids_removed: rest.slice(20), more_remaining: false })
  t.match(await remove(), { error_code: 'not_found' })
  t.equal((await page(path)).num_records, 1)
})

t.test('text keys are compared without case, and an update may change their spelling', async (t) => {
  const list = await createList(service, [{ name: 'Key', field_type: 'text', required: true }])
  const [field] = await get<Json[]>(`/mailing_lists/${list.id}/custom_fields`)
  await call('PUT', `/mailing_lists/${list.id}`, { mailing_list: { primary_key_custom_field_id: field.id } })
  const path = `/mailing_lists/${list.id}/subscribers`
  const made = await add(list.id, 'a@example.com', { custom_fields: { Key: ' ÄB:1 ' } })
  t.equal(made.custom_fields.Key.value, 'ÄB:1')
  t.match(
    (await call('POST', path, { subscriber: { email: 'b@example.com', custom_fields: { Key: 'äb:1' } } }))
      .body,
    { error_message: /already/ },
  )
  t.match(
    (await call('PUT', `${path}/${made.id}`, { subscriber: { custom_fields: { Key: 'äb:1' } } })).body.data,
    {
      id: made.id,
      custom_fields: { Key: { value: 'äb:1' } },
    },
  )
})

t.test('every query is a point read or a range of an index', async (t) => {
  const plain = await createList(service)
  const keyed = await keyedList(service)
  const email = 'profiled@example.com'
  const { id } = await add(plain.id, email)
  for (let i = 0; i < 20; i += 1) await add(keyed.id, email, { custom_fields: { Number: i } })
  const { next_page_token: token } = await page(`/mailing_lists/${keyed.id}/subscribers?per_page=2`)
  const found = await page(`/subscribers_by_email/${email}?per_page=5`)
  await service.db.command({ profile: 2 })
  const lists = [plain.id, keyed.id]
  for (const list of lists) {
    const path = `/mailing_lists/${list}/subscribers`
    await page(`${path}?page=1&per_page=3`)
    await call('GET', `${path}/${id},${email},nobody@example.com`)
    await call('PUT', `${path}/${email}`, { subscriber: { subscribe_ip: '192.0.2.1' } })
    await call('PUT', `${path}/${id}`, { subscriber: { status: 'bounced' } })
    await call('PUT', `${path}/${id}`, { subscriber: { status: 'active' } })
    await call('DELETE', `${path}/nobody@example.com`)
    await page(`/mailing_lists/${list}/subscribers_by_email/${email}?page=0&per_page=2`)
  }
  await call('PUT', `/mailing_lists/${plain.id}/subscribers/${id}`, {
    subscriber: { email: 'renamed@example.com' },
  })
  await page(`/mailing_lists/${keyed.id}/subscribers?per_page=2&page_token=${encodeURIComponent(token!)}`)
  await page(
    `/subscribers_by_email/${email}?per_page=5&page_token=${encodeURIComponent(found.next_page_token!)}`,
  )
  await page(`/organizations/all/subscribers_by_email/${email}?page=1&per_page=2`)
  await call('DELETE', `/mailing_lists/${keyed.id}/subscribers/${email}`)
  await add(plain.id, 'created@example.com')
  await service.db.command({ profile: 0 })

  const names = [
    'subscribers',
    'subscriber_counts',
    'reactions',
    'mailing_lists',
    'custom_fields',
    'autoresponders',
  ]
  const profile = await service.db
    .collection('system.profile')
    .find({
      ns: { $in: names.map((name) => `${service.db.databaseName}.${name}`) },
      planSummary: { $exists: true },
    })
    .toArray()
  const summaries = new Set(
    profile.map(({ ns, planSummary }: Document) => `${ns.split('.')[1]} ${planSummary}`),
  )
  t.comment([...summaries].join('\n'))
  t.ok(profile.length > 30, `${profile.length} operations`)
  for (const entry of profile) {
    const what = `${entry['op']} ${JSON.stringify(entry['command']).slice(0, 300)}`
    // Lists of all organizations are read whole by design.
    const isAllLists = /"filter":\{"is_remote_list":false\}/.test(JSON.stringify(entry['command']))
    if (!isAllLists) t.notMatch(entry['planSummary'], /COLLSCAN/, what)
    t.not(entry['hasSortStage'], true, `no sorting in memory: ${what}`)
    if (entry['ns'].endsWith('.subscribers')) t.ok((entry['docsExamined'] ?? 0) <= 25, what)
  }
})

t.test('an email that very many have is read by pages, of any number', async (t) => {
  const list = await keyedList(service)
  const email = 'crowd@example.com'
  await add(list.id, email, { custom_fields: { Number: 0 } })
  const { subscribers } = service.collections
  const first = (await subscribers.findOne({ mailing_list_id: list.id }))!
  const others = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => {
      const number = from + i
      return { ...first, _id: `${list.id}:copy ${number}`, id: 50_000_000 + number }
    })
  await subscribers.insertMany(others(1, 500))
  const path = `/mailing_lists/${list.id}/subscribers`
  t.equal((await get<Json[]>(`${path}/${email},${first.id}`)).length, 500)
  await subscribers.insertMany(others(500, 1_001))
  for (const named of [email, `${first.id},${email}`])
    t.match((await call('GET', `${path}/${named}`)).body, {
      error_code: 'requested_too_many',
      error_message: /more than 500.*subscribers_by_email/,
    })
  for (const scope of ['', `/mailing_lists/${list.id}`, '/organizations/all']) {
    const at = `${scope}/subscribers_by_email/${email}`
    t.match(await page(`${at}?page=2&per_page=500`), {
      data: [{ id: 50_001_000 }],
      num_records: 1_001,
      num_pages: 3,
    })
    for (const beyond of [3, 999_999_999])
      t.match(await page(`${at}?page=${beyond}&per_page=500`), {
        data: [],
        num_records: 1_001,
      })
  }
})

t.test('pages by number continue over more lists than one query asks for', async (t) => {
  const organization = await post('/organizations', { organization: { name: 'Many lists' } })
  const plain = await createList(service, [], { organization_id: organization.id })
  const email = 'everywhere@example.com'
  await add(plain.id, email)
  const keyed = await keyedList(service, { organization_id: organization.id })
  for (const Number of [1, 2, 3]) await add(keyed.id, email, { custom_fields: { Number } })
  const { mailingLists, subscribers } = service.collections
  const list = (await mailingLists.findOne({ _id: plain.id }))!
  const subscriber = (await subscribers.findOne({ _id: `${plain.id}:${email}` }))!
  const copies = Array.from({ length: 1_020 }, (_, i) => 40_000_000 + i)
  await mailingLists.insertMany(
    copies.map((_id) => ({ ...list, _id, name: `List ${_id}`, name_key: `list ${_id}` })),
  )
  await subscribers.insertMany(
    copies.map((id) => ({ ...subscriber, _id: `${id}:${email}`, id, mailing_list_id: id })),
  )
  const at = `/organizations/${organization.id}/subscribers_by_email/${email}`
  const all = (await pages(`${at}?per_page=500`)).flatMap(({ data }) => data.map(({ id }) => id))
  t.equal(all.length, 1_024)
  for (const [number, size] of [
    [0, 3],
    [1, 3],
    [1, 499],
    [2, 499],
    [1, 500],
    [2, 500],
    [3, 500],
  ] as const)
    t.same(
      (await page(`${at}?page=${number}&per_page=${size}`)).data.map(({ id }) => id),
      all.slice(number * size, (number + 1) * size),
      `page ${number} of ${size}`,
    )
})
