import t from 'tap'
import { openDatabase } from '../../../shared/runtime/database.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { removeSubscribers } from '../../../control-plane/store/subscribers.ts'
import { writeAlone } from '../../../control-plane/store/write-subscriber.ts'
import { createList, importText, until, type Json } from '../../helpers/service.ts'
import { additionOf, subscriberDocument } from '../../helpers/subscriber-document.ts'
import { service } from './service.ts'

const { call, get, post } = service
const database = await openDatabase({
  uri: service.settings['MONGODB_URI']!,
  name: service.settings['MONGODB_DATABASE']!,
})
t.teardown(() => database.close())

const createKey = async (id: number): Promise<string> =>
  (await post(`/organizations/${id}/api_keys`, { api_key: { name: 'admin' } })).key

let lastId = 1_000_000
const subscriber = (listId: number, email: string): SubscriberDocument =>
  subscriberDocument(listId, email, (lastId += 1))

t.test('counts are by status, for the organization and each of its lists', async (t) => {
  const organization = await post('/organizations', { organization: { name: 'Counted' } })
  const key = await createKey(organization.id)
  const as = (path: string) => call('GET', path, undefined, { key })
  const zeroes = { active: 0, bounced: 0, unsubscribed: 0, scomp: 0, deactivated: 0 }
  t.same((await as('/subscriber_counts')).body.data, {
    organization: { id: organization.id, name: 'Counted' },
    counts: zeroes,
    mailing_lists: [],
  })
  const lists: Json[] = []
  for (const name of ['Zebra', 'Empty', 'Ant'])
    lists.push((await call('POST', '/mailing_lists', { mailing_list: { name } }, { key })).body.data)
  const statuses = ['active', 'active', 'bounced', 'unsubscribed', 'scomp', 'deactivated']
  const file = statuses.map((status, i) => `p${i}@example.com,${status}`).join('\n')
  const options = { column_mapping: ['email', 'status'], file_format: { csv_has_headers: false } }
  await importText(service, lists[0].id, file, options)
  await importText(service, lists[2].id, 'ann@example.com', { file_format: { csv_has_headers: false } })
  const expected = {
    organization: { id: organization.id, name: 'Counted' },
    counts: { active: 3, bounced: 1, unsubscribed: 1, scomp: 1, deactivated: 1 },
    mailing_lists: [
      {
        mailing_list: { id: lists[0].id, name: 'Zebra' },
        counts: { active: 2, bounced: 1, unsubscribed: 1, scomp: 1, deactivated: 1 },
      },
      { mailing_list: { id: lists[1].id, name: 'Empty' }, counts: zeroes },
      { mailing_list: { id: lists[2].id, name: 'Ant' }, counts: { ...zeroes, active: 1 } },
    ],
  }
  for (const path of [
    '/subscriber_counts',
    `/organization/${organization.id}/subscriber_counts`,
    `/organizations/${organization.id}/subscriber_counts`,
  ])
    t.same((await as(path)).body.data, expected, path)
  t.same(await get(`/organizations/${organization.id}/subscriber_counts`), expected, 'for a system admin')
  t.not(
    (await get('/subscriber_counts')).organization.id,
    organization.id,
    "a system admin's own without one",
  )
  t.match((await as('/organizations/1/subscriber_counts')).body, { error_code: 'not_found' })
  t.match((await as('/organization/1/subscriber_counts')).body, { error_code: 'not_found' })
})

t.test('counts are stored: a request for them reads no subscribers', async (t) => {
  await service.db.command({ profile: 2 })
  await get('/subscriber_counts')
  await service.db.command({ profile: 0 })
  const profiled = await service.db.collection('system.profile').find().toArray()
  const collections = [...new Set(profiled.map((entry) => String(entry['ns']).split('.')[1]))]
  t.ok(collections.includes('subscriber_counts'), collections.join())
  t.notOk(collections.includes('subscribers'), collections.join())
})

t.test('a sum that never was is never shown', async (t) => {
  const list = await createList(service)
  const organizationId = list.organization_id as number
  const base = (await get('/subscriber_counts')).counts.active as number
  let ended = false
  const writer = async (name: string) => {
    for (let i = 0; i < 60; i += 1) {
      const document = subscriber(list.id, `${name}@example.com`)
      await writeAlone(database, additionOf(organizationId, document))
      await removeSubscribers(database, organizationId, document._id, 1)
    }
  }
  const seen = new Set<number>()
  const reader = async () => {
    while (!ended) seen.add((await get('/subscriber_counts')).counts.active - base)
  }
  const reading = [reader(), reader()]
  await writer('ann')
  ended = true
  await Promise.all(reading)
  t.ok(
    [...seen].every((count) => count === 0 || count === 1),
    `seen: ${[...seen].join()}`,
  )
  t.equal((await get('/subscriber_counts')).counts.active, base)
})

/** An organization in the time zone of Kolkata, its key, and what creates imports of two rows on its only list. */
async function busyOrganization() {
  const organization = await post('/organizations', {
    organization: { name: 'Busy', time_zone_name: 'Asia/Kolkata' },
  })
  const key = await createKey(organization.id)
  const list = (await call('POST', '/mailing_lists', { mailing_list: { name: 'Jobs' } }, { key })).body.data
  const create = async (begins_at: string): Promise<number> => {
    const subscriber_import = {
      begins_at,
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'email\nann@example.com\nbob@example.com\n' },
    }
    const path = `/mailing_lists/${list.id}/subscriber_imports`
    return (await call('POST', path, { subscriber_import }, { key })).body.data.id
  }
  return { organization, key, list, create }
}

const finishedJob = (key: string): Promise<Json> =>
  until(
    'the end of the job',
    async () => (await call('GET', '/jobs/all', undefined, { key })).body.data[0],
    ({ state }: Json) => state === 'finished',
  )

/** Such an organization with four jobs: one finished, one scheduled, one paused and one cancelled. */
async function organizationWithJobs() {
  const { organization, key, create } = await busyOrganization()
  const done = await create('now')
  await finishedJob(key)
  const [scheduled, paused, cancelled] = [
    await create('2031-01-01T00:00:00Z'),
    await create('2031-01-02T00:00:00Z'),
    await create('2031-01-03T00:00:00Z'),
  ]
  await post(`/subscriber_imports/${paused}/pause`)
  await post(`/subscriber_imports/${cancelled}/cancel`)
  return { organization, key, done, scheduled, paused, cancelled }
}

t.test('a finished import is shown as a job, in the time zone of its organization', async (t) => {
  const { organization, key, list, create } = await busyOrganization()
  const done = await create('now')
  const job = await finishedJob(key)
  const view = await get(`/subscriber_imports/${done}`)
  t.match(job.finished_at, /\+05:30$/)
  t.same(job, {
    id: done,
    mailing_list_id: list.id,
    organization_id: organization.id,
    suppression_list_id: null,
    state: 'finished',
    state2: null,
    paused: false,
    name: 'data',
    progress_value: 2,
    progress_total: 2,
    job_type: 'SubscriberImport',
    begins_at: view.begins_at,
    started_at: job.started_at,
    finished_at: view.finished_at,
    created_at: view.created_at,
    updated_at: view.finished_at,
    retry_at: null,
  })
})

t.test('jobs are filtered by state, type and times, and come in pages', async (t) => {
  const { organization, key, done, scheduled, paused, cancelled } = await organizationWithJobs()
  const jobs = async (path: string): Promise<Json> =>
    (await call('GET', path, undefined, { key })).body.data.map((job: Json) => job.id)
  const pausedJobs = (await call('GET', '/jobs/all?state=paused', undefined, { key })).body.data
  t.match(pausedJobs, [
    { id: paused, paused: true, state: 'paused', progress_value: 0, progress_total: null },
  ])

  const cases: [string, number[]][] = [
    ['', [cancelled, paused, scheduled, done]],
    ['?state=finished', [done]],
    ['?state=finished,cancelled', [cancelled, done]],
    ['?state=finished,%20cancelled,nothing', [cancelled, done]],
    ['?state=nothing', []],
    ['?job_type=SubscriberImport', [cancelled, paused, scheduled, done]],
    ['?job_type=Campaign,SubscriberImport', [cancelled, paused, scheduled, done]],
    ['?job_type=Campaign', []],
    ['?begins_at__after=2031-01-01T00:00:00Z', [cancelled, paused]],
    ['?begins_at__after=2030-12-31T23:59:59Z&begins_at__before=2031-01-02T00:00:00Z', [scheduled]],
    ['?begins_at__before=2031-01-02T05:30:01', [paused, scheduled, done]], // local time
    ['?begins_at__before=2031-01-02T05:30:00%2B05:30', [scheduled, done]],
    [`?begins_at__after=${Date.UTC(2031, 0, 2) / 1000}`, [cancelled]],
    [`?begins_at__after=${Date.UTC(2031, 0, 2) / 1000 - 1}`, [cancelled, paused]],
    ['?finished_at__after=0', [cancelled, done]], // null never matches
    ['?finished_at__before=2040-01-01T00:00:00Z', [cancelled, done]],
    ['?finished_at__after=2040-01-01T00:00:00Z', []],
    ['?state=cancelled&finished_at__after=0', [cancelled]],
    ['?per_page=2', [cancelled, paused]],
    ['?per_page=2&page=1', [scheduled, done]],
    ['?per_page=2&page=2', []],
  ]
  for (const [query, ids] of cases) {
    t.same(await jobs(`/jobs/all${query}`), ids, query)
    t.same(await jobs(`/organizations/${organization.id}/jobs/all${query}`), ids, query)
  }
  const shown = (await call('GET', '/jobs/all?state=finished', undefined, { key })).body.data[0].finished_at
  const within = async (side: 'after' | 'before', seconds: number) =>
    jobs(`/jobs/all?state=finished&finished_at__${side}=${Date.parse(shown) / 1_000 + seconds}`)
  t.same(await within('after', 0), [], 'a time is not after itself as it is shown, whatever its milliseconds')
  t.same(await within('after', -1), [done])
  t.same(await within('before', 0), [])
  t.same(await within('before', 1), [done])
  for (const path of ['/jobs/unfinished', `/organizations/${organization.id}/jobs/unfinished`]) {
    t.same(await jobs(path), [paused, scheduled])
    t.same(await jobs(`${path}?state=finished,paused`), [paused])
  }
  const page = await call('GET', '/jobs/all?per_page=3', undefined, { key })
  t.match(page.body, { page: 0, per_page: 3, num_records: 4, num_pages: 2 })
  t.equal((await call('GET', '/jobs/all?per_page=5000', undefined, { key })).body.per_page, 2000)
})

t.test('imports that begin, or ended, at the same moment come once each, page by page', async (t) => {
  const { key, create } = await busyOrganization()
  const begins = '2031-01-01T00:00:00Z'
  const active = [await create(begins), await create(begins), await create(begins)]
  const ended = [await create(begins), await create(begins), await create(begins)]
  for (const id of ended) await post(`/subscriber_imports/${id}/cancel`)
  await service.collections.imports.updateMany({ _id: { $in: ended } }, { $set: { finished_at: new Date() } })
  const expected = [...active, ...ended.toReversed()]
  let token = ''
  for (const [page, id] of expected.entries()) {
    const { body } = await call('GET', `/subscriber_imports?per_page=1${token}`, undefined, { key })
    t.match(body, { num_records: 6, num_pages: 6, data: [{ id }] })
    const numbered = await call('GET', `/subscriber_imports?per_page=1&page=${page}`, undefined, { key })
    t.match(numbered.body, { page, data: [{ id }] })
    token = `&page_token=${body.next_page_token}`
  }
  t.equal(token, '&page_token=null', 'the last page has no token')
})

t.test('jobs of all organizations are shown to system admins alone', async (t) => {
  const other = await busyOrganization()
  const elsewhere = await other.create('2031-01-01T00:00:00Z')
  const { organization, key, done, scheduled, paused } = await organizationWithJobs()
  const everywhere = (await get('/jobs/all_on_all_organizations')).map(({ id }: Json) => id)
  t.ok(everywhere.length > 4 && everywhere.includes(done) && everywhere.includes(elsewhere))
  t.same(
    everywhere,
    [...everywhere].sort((a: number, b: number) => b - a),
    'newest first',
  )
  t.same((await get('/jobs/unfinished_on_all_organizations')).map(({ id }: Json) => id).slice(0, 2), [
    paused,
    scheduled,
  ])
  t.same((await get(`/organizations/${organization.id}/jobs/unfinished`)).length, 2, 'for a system admin')
  t.match((await call('GET', '/organizations/1/jobs/all', undefined, { key })).body, {
    error_code: 'not_found',
  })
  t.equal((await call('GET', '/jobs/all_on_all_organizations', undefined, { key })).status, 403)
})
