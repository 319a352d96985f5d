import t from 'tap'
import { FtpSession } from '../helpers/ftp-session.ts'
import {
  controlPlaneOrigin,
  createList,
  descriptionOf,
  importEnd,
  importText,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'

/** What views tell people who look: who made an import and when, what a file is called, what keeps imports waiting. */

const service = await startService(t, ['control-plane', 'ftp'])
const { call, get, post, collections } = service
const upload = async (name: string, content = 'E-Mail\nann@example.com\n') => {
  const answer = await call('PUT', `/uploads/${name}`, content)
  if (answer.status !== 200) throw new Error(answer.text)
}
const uploads = async (): Promise<string[]> => (await get('/uploads')).map(({ filename }: Json) => filename)
const create = (listId: number, source: object, more: object = {}): Promise<Json> =>
  post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email'], file_source: source, ...more },
  })
const inYears = { begins_at: '2999-01-31T08:00:00Z' }

t.test('the state of the service says that no engine is alive, and how long imports wait', async (t) => {
  t.same(await get('/service_state'), {
    ...{ engines_alive: 0, oldest_waiting_seconds: null, last_progress_at: null },
    problems: ['no engine is alive'],
  })
  const list = await createList(service)
  const { id } = await create(list.id, { type: 'json', content: 'E-Mail\nann@example.com\n' })
  await collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date(Date.now() - 90_000) } })
  const waiting = await get('/service_state')
  t.ok(waiting.oldest_waiting_seconds >= 90 && waiting.oldest_waiting_seconds < 120)
  const other = await post('/organizations', { organization: { name: 'Other' } })
  const { key } = await post(`/organizations/${other.id}/api_keys`, {
    api_key: { name: 'x', role: 'standard' },
  })
  const { body } = await call('GET', '/service_state', undefined, { key })
  t.match(body.data, { engines_alive: 0, oldest_waiting_seconds: null, last_progress_at: null })

  await service.start('engine')
  const end = await importEnd(service, id)
  t.match(await get('/service_state'), {
    ...{ engines_alive: 1, oldest_waiting_seconds: null, last_progress_at: end.finished_at, problems: [] },
  })
})

t.test('an import says who created and cancelled it, when it began, and its headers', async (t) => {
  const list = await createList(service)
  const by = { by: 'api', api_key_id: 1, api_key_name: 'First key', user_id: null, user_name: null }
  const waiting = await create(list.id, { type: 'json', content: 'E-Mail\n' }, inYears)
  t.match(waiting, { created_by: by, cancelled_by: null, started_at: null, headers: null })
  const { id: keyId, key } = await post('/api_keys', { api_key: { name: 'Another' } })
  const { body } = await call('POST', `/subscriber_imports/${waiting.id}/cancel`, undefined, { key })
  const another = { ...by, api_key_id: keyId, api_key_name: 'Another' }
  t.match(body.data, { created_by: by, cancelled_by: another, started_at: null })
  t.match(await get(`/subscriber_imports/${waiting.id}`), { cancelled_by: another })

  const done = await importText(service, list.id, ' E-Mail ,"First, name"\nann@example.com,Ann\n', {
    column_mapping: ['email', null],
  })
  t.match(done, { created_by: by, cancelled_by: null, headers: [' E-Mail ', 'First, name'] })
  t.ok(done.created_at <= done.started_at && done.started_at <= done.finished_at)
  await collections.imports.updateOne({ _id: done.id }, { $unset: { created_by: '' } })
  t.equal((await get(`/subscriber_imports/${done.id}`)).created_by, null, 'nothing is known of earlier ones')
})

t.test('a display name is shown in place of the file name', async (t) => {
  const list = await createList(service)
  await upload('.tmp-4711')
  const { id, file_source } = await create(list.id, {
    ...{ type: 'upload_directory', filename: '.tmp-4711', display_name: ' Kunden März.csv ' },
  })
  t.same(file_source, { type: 'upload_directory', filename: 'Kunden März.csv', url: null })
  t.match(await importEnd(service, id), { state: 'finished', file_source })
  const jobs = await get('/jobs/all')
  t.equal(jobs.find((job: Json) => job.id === id).name, 'Kunden März.csv')
  t.match(await get(`/audit_events?record_type=subscriber_import&record_id=${id}`), [
    { record_name: 'Kunden März.csv' },
  ])
  for (const display_name of ['', ' ', 'x'.repeat(256), 5]) {
    const source = { type: 'json', content: 'x', display_name }
    const { body } = await call('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: { column_mapping: ['email'], file_source: source },
    })
    t.match(body, { error_code: 'validation_failed', error_message: /display_name/ }, String(display_name))
  }
})

t.test('an upload is deleted with the end of its import, unless a newer one has its name', async (t) => {
  const list = await createList(service)
  const from = (filename: string, more: object = {}) =>
    create(list.id, { type: 'upload_directory', filename, delete_after: true }, more)
  const gone = (name: string) => until(`the removal of ${name}`, uploads, (names) => !names.includes(name))
  await upload('once.csv')
  await importEnd(service, (await from('once.csv')).id)
  await gone('once.csv')

  await upload('cancelled.csv')
  const { id } = await from('cancelled.csv', inYears)
  t.ok((await uploads()).includes('cancelled.csv'))
  await post(`/subscriber_imports/${id}/cancel`)
  await gone('cancelled.csv')

  await upload('newer.csv')
  const older = await from('newer.csv', inYears)
  await upload('newer.csv', 'E-Mail\nbob@example.com\n')
  await post(`/subscriber_imports/${older.id}/cancel`)
  await until(
    'its end',
    () => collections.imports.findOne({ _id: older.id }),
    (document) => document!.finalized,
  )
  t.ok((await uploads()).includes('newer.csv'))

  // Nothing has read what another name has by then.
  for (const name of ['never-begun.csv', 'not-there.csv']) {
    await upload(name)
    const { id } = await from(name, inYears)
    const session = await FtpSession.open(service.processes.ftp!.ready.ftp!)
    t.match(await session.command(`RNFR ${name}`), /^350 /)
    t.match(await session.command(`RNTO kept-${name}`), /^250 /)
    session.close()
    if (name === 'never-begun.csv') await post(`/subscriber_imports/${id}/cancel`)
    else {
      await collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date() } })
      t.match(await importEnd(service, id), { state: 'failed', error_message: /there is no file/ })
    }
    await until(
      'its end',
      () => collections.imports.findOne({ _id: id }),
      (document) => document!.finalized,
    )
    t.ok((await uploads()).includes(`kept-${name}`), name)
  }

  const inline = { type: 'json', content: 'E-Mail\n', delete_after: true }
  t.match((await create(list.id, inline)).warnings, [
    'file_source.delete_after has no effect, as the source is no upload',
  ])

  await upload('kept.csv')
  await importEnd(service, (await create(list.id, { type: 'upload_directory', filename: 'kept.csv' })).id)
  t.ok((await uploads()).includes('kept.csv'))
})

t.test('imports in order of their creation, of the organization and of a list', async (t) => {
  const list = await createList(service)
  const late = await create(list.id, { type: 'json', content: 'x' }, inYears)
  const ended = await importText(service, list.id, 'E-Mail\n')
  const later = await create(list.id, { type: 'json', content: 'x' }, inYears)
  const ids = async (query: string): Promise<number[]> =>
    (await get(`/mailing_lists/${list.id}/subscriber_imports${query}`)).map(({ id }: Json) => id)
  t.same(await ids(''), [late.id, later.id, ended.id])
  t.same(await ids('?order=created'), [later.id, ended.id, late.id])
  t.same(await ids('?order=created&scope=active'), [later.id, late.id])
  t.same(await ids('?order=created&scope=finished'), [ended.id])
  t.same(await ids('?order=created&per_page=1&page=1'), [ended.id])
  const all = await get('/subscriber_imports?order=created&per_page=3')
  t.same(
    all.map(({ id }: Json) => id),
    [later.id, ended.id, late.id],
  )
})

t.test('lists are found by a part of their name, with counts and their last import', async (t) => {
  const news = await createList(service, [], { name: 'Älteste News (a+b)' })
  await createList(service, [], { name: 'Customers' })
  const found = async (search: string): Promise<string[]> =>
    (await get(`/mailing_lists?search=${encodeURIComponent(search)}`)).map(({ name }: Json) => name)
  t.same(await found('älteste'), ['Älteste News (a+b)'])
  t.same(await found('(A+B)'), ['Älteste News (a+b)'])
  t.same(await found('.*'), [])
  const full = async (): Promise<Json> => (await get('/mailing_lists?view=full&search=news%20(a'))[0]
  t.match(await full(), { id: news.id, counts: { active: 0, bounced: 0 }, last_import: null })
  const done = await importText(service, news.id, 'E-Mail\nann@example.com\n')
  await importText(service, news.id, 'E-Mail\nbob@example.com\n', { dry_run: true })
  t.match(await full(), {
    counts: { active: 1, unsubscribed: 0 },
    last_import: {
      ...{ id: done.id, state: 'finished', created_at: done.created_at, finished_at: done.finished_at },
    },
  })
  t.notHas((await get('/mailing_lists'))[0], 'counts')
})

t.test('keys say when they were made and last used', async (t) => {
  const created = await post('/api_keys', { api_key: { name: 'New' } })
  t.match(created, { created_at: /^\d{4}-\d\d-\d\dT/, last_used_at: null })
  const lastUse = async (): Promise<string | null> => (await get(`/api_keys/${created.id}`)).last_used_at
  t.equal(await lastUse(), null)
  await call('GET', '/whoami', undefined, { key: created.key })
  const used = await until('the use', lastUse, (time) => time !== null)
  t.ok(Math.abs(Date.parse(used!) - Date.now()) < 60_000)

  const setUse = (minutesAgo: number) =>
    collections.apiKeys.updateOne(
      { _id: created.id },
      { $set: { last_used_at: new Date(Date.now() - minutesAgo * 60_000) } },
    )
  await setUse(9)
  const recent = await lastUse()
  // Another process looks the key up anew.
  const second = await service.start('control-plane')
  const useThere = () =>
    fetch(`${second.ready.http}/svc/api/v2/whoami`, {
      headers: { authorization: `Basic ${btoa(`api:${created.key}`)}` },
    })
  await useThere()
  t.equal(await lastUse(), recent, 'a write at most every 10 minutes')
  await setUse(11)
  const third = await service.start('control-plane')
  await fetch(`${third.ready.http}/svc/api/v2/whoami`, {
    headers: { authorization: `Basic ${btoa(`api:${created.key}`)}` },
  })
  await until('the later use', lastUse, (time) => Date.parse(time!) > Date.now() - 60_000)

  // One login, and a session that goes on.
  const session = await FtpSession.open(service.processes.ftp!.ready.ftp!, created.key)
  await setUse(11)
  await until('the use by the session', lastUse, (time) => Date.parse(time!) > Date.now() - 60_000)
  session.close()
})

t.test('the root names the FTP server where one is known; the description has one server', async (t) => {
  const root = async (origin: string): Promise<Json> => (await fetch(`${origin}/`)).json()
  t.match(await root(controlPlaneOrigin(service)), { name: 'Rollcall', api: '/svc/api/v2', ftp: null })
  const told = await service.start('control-plane', { PUBLIC_FTP_URL: 'ftps://files.example.com' })
  t.match(await root(told.ready.http!), { ftp: 'ftps://files.example.com' })
  t.same((await descriptionOf(told.ready.http!)).servers, [{ url: '/' }])
})
