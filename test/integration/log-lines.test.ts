import t from 'tap'
import { FtpSession } from '../helpers/ftp-session.ts'
import { standardUser } from '../helpers/standard-user.ts'
import { HttpUpload, partOf } from '../helpers/http-upload.ts'
import {
  basic,
  controlPlaneOrigin,
  createList,
  importEnd,
  startService,
  until,
  type Json,
  type ProcessName,
} from '../helpers/service.ts'

/**
 * What an operator reads from the lines of the log alone: whether a partner's file arrived, when, and whole; and who
 * cancelled an import.
 */

const service = await startService(t, ['control-plane', 'engine', 'ftp'])
const { call, post, processes } = service
const partner = await post('/api_keys', { api_key: { name: 'Partner X' } })
const ftpUrl = processes.ftp!.ready.ftp!
const origin = controlPlaneOrigin(service)

type Line = Record<string, unknown>
const linesOf = (name: ProcessName): Line[] =>
  processes[name]!.log()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))

/** Waits for lines: they are buffered for 100 ms. */
const found = (name: ProcessName, wanted: Line, count = 1): Promise<Line[]> =>
  until(
    `${count} lines ${JSON.stringify(wanted)}`,
    async () =>
      linesOf(name).filter((line) => Object.entries(wanted).every(([key, value]) => line[key] === value)),
    (lines) => lines.length >= count,
    10_000,
  )

const who = { organization_id: 1, api_key_id: partner.id, address: '127.0.0.1' }

t.test('each upload by FTP is one line, with whether the file is whole', async (t) => {
  const session = await FtpSession.open(ftpUrl, partner.key)
  await session.upload('STOR whole.csv', 'email\nann@example.com\n')
  const [whole] = await found('ftp', { event: 'upload', filename: 'whole.csv' })
  t.match(whole, {
    ...{ ...who, level: 'info', protocol: 'ftp', bytes: 22, size: 22, resumed: false, result: 'complete' },
    ...{ seconds: Number, time: /^\d{4}-\d\d-\d\dT/ },
  })
  t.notHas(whole, 'reason')

  const data = await session.beginUpload('STOR cut.csv')
  data.write('email\n')
  await until(
    'its bytes',
    () => session.command('STAT'),
    (reply) => reply.includes('6 bytes'),
  )
  session.close()
  const [cut] = await found('ftp', { event: 'upload', filename: 'cut.csv' })
  t.match(cut, { ...who, bytes: 6, resumed: false, result: 'unfinished', reason: /the session ended/ })
  data.destroy()

  const again = await FtpSession.open(ftpUrl, partner.key)
  await again.upload('APPE cut.csv', 'ann@example.com\n')
  const [, resumed] = await found('ftp', { event: 'upload', filename: 'cut.csv' }, 2)
  t.match(resumed, { ...who, bytes: 16, size: 22, resumed: true, result: 'complete' })

  const aborted = await again.beginUpload('STOR aborted.csv')
  aborted.write('email\n')
  await again.command('ABOR')
  t.match(await found('ftp', { event: 'upload', filename: 'aborted.csv' }), [
    { ...who, result: 'unfinished', reason: 'the client aborted the transfer' },
  ])
  again.close()
  const bad = await FtpSession.open(ftpUrl, partner.key)
  await bad.data()
  await bad.command('STOR a\\b.csv')
  t.match(await found('ftp', { event: 'upload', filename: 'a\\b.csv' }), [
    { ...who, bytes: 0, result: 'refused', reason: /plain file name/ },
  ])
  bad.close()
})

t.test('downloads, renames and deletions by FTP are lines too', async (t) => {
  const session = await FtpSession.open(ftpUrl, partner.key)
  await session.upload('STOR old.csv', 'email\n')
  await session.download('RETR old.csv')
  await session.command('RNFR old.csv')
  await session.command('RNTO new.csv')
  await session.command('DELE new.csv')
  await session.command('DELE new.csv')
  await session.command('RNFR new.csv')
  t.match(await found('ftp', { event: 'rename', filename: 'new.csv' }), [
    { ...who, result: 'refused', reason: 'no such file' },
  ])
  t.match(await found('ftp', { event: 'download', filename: 'old.csv' }), [
    { ...who, protocol: 'ftp', bytes: 6, size: 6, result: 'complete' },
  ])
  t.match(await found('ftp', { event: 'rename', filename: 'old.csv' }), [
    { ...who, to: 'new.csv', result: 'complete' },
  ])
  t.match(await found('ftp', { event: 'delete', filename: 'new.csv' }, 2), [
    { ...who, result: 'complete' },
    { ...who, result: 'refused', reason: 'no such file' },
  ])
  session.close()
})

t.test('the same over HTTP, beside the line of the request', async (t) => {
  const file = await fetch(`${origin}/svc/api/v2/uploads/http.csv`, {
    method: 'PUT',
    body: 'email\nann@example.com\n',
    headers: { authorization: `Basic ${btoa(`api:${partner.key}`)}`, 'x-request-id': 'put-1' },
  })
  t.equal(file.status, 200)
  const [put] = await found('control-plane', { event: 'upload', filename: 'http.csv' })
  t.match(put, { ...who, request_id: 'put-1', protocol: 'http', bytes: 22, size: 22, resumed: false })
  t.match(put, { result: 'complete', seconds: Number })
  t.match(await found('control-plane', { request_id: 'put-1', route: '/uploads/:filename' }), [who])

  const first = new HttpUpload(origin, 'parts.csv', { key: partner.key, headers: partOf(0, 6, 22) })
  await first.end('email\n')
  const second = new HttpUpload(origin, 'parts.csv', { key: partner.key, headers: partOf(6, 16, 22) })
  await second.end('ann@example.com\n')
  t.match(await found('control-plane', { event: 'upload', filename: 'parts.csv' }, 2), [
    { ...who, bytes: 6, resumed: false, result: 'unfinished', reason: 'further ranges are to come' },
    { ...who, bytes: 16, size: 22, resumed: true, result: 'complete' },
  ])

  const cut = new HttpUpload(origin, 'left.csv', { key: partner.key, headers: { 'content-length': 100 } })
  cut.write('email\n')
  await until(
    'the unfinished upload',
    () => call('GET', '/uploads'),
    ({ body }) => body.data.some((upload: Json) => upload.filename === 'left.csv'),
  )
  cut.cut()
  t.match(await found('control-plane', { event: 'upload', filename: 'left.csv' }), [
    { ...who, result: 'unfinished', reason: /ended early/ },
  ])

  await call('PUT', '/uploads/bad.csv', 'x', { headers: { 'content-range': 'bytes 5-5/6' } })
  t.match(await found('control-plane', { event: 'upload', filename: 'bad.csv' }), [
    { bytes: 0, result: 'refused', reason: /begins at byte 0/ },
  ])
  const form = { 'content-type': 'multipart/form-data; boundary=x' }
  t.equal((await call('PUT', '/uploads/form.csv', 'x', { headers: form, key: partner.key })).status, 415)
  t.match(await found('control-plane', { event: 'upload', filename: 'form.csv' }), [
    { ...who, protocol: 'http', bytes: 0, result: 'refused', reason: /multipart/ },
  ])
  const { id: userId } = await post('/users', { user: { ...standardUser, permissions: { subscriber: [] } } })
  const reader = await post('/api_keys', { api_key: { name: 'Reader', role: 'standard', user_id: userId } })
  t.equal((await call('PUT', '/uploads/acme%2Fmine.csv', 'x', { key: reader.key })).status, 403)
  t.match(await found('control-plane', { event: 'upload', filename: 'acme/mine.csv' }), [
    { api_key_id: reader.id, user_id: userId, bytes: 0, result: 'refused', reason: /subscriber\/import/ },
  ])
  await call('GET', '/uploads/http.csv')
  await call('GET', '/uploads/none.csv')
  await call('DELETE', '/uploads/http.csv')
  t.match(await found('control-plane', { event: 'download', filename: 'http.csv' }), [
    { bytes: 22, size: 22, result: 'complete' },
  ])
  t.match(await found('control-plane', { event: 'download', filename: 'none.csv' }), [{ result: 'refused' }])
  t.match(await found('control-plane', { event: 'delete', filename: 'http.csv' }), [{ result: 'complete' }])
  const mayNot = {
    ...who,
    api_key_id: reader.id,
    protocol: 'http',
    result: 'refused',
    reason: /subscriber\/import/,
  }
  for (const [method, event] of [
    ['GET', 'download'],
    ['DELETE', 'delete'],
  ] as const) {
    t.equal((await call(method, '/uploads/denied.csv', undefined, { key: reader.key })).status, 403)
    t.match(await found('control-plane', { event, filename: 'denied.csv' }), [mayNot])
  }
})

t.test('logins are lines; a refused one says whose key it was where that is known', async (t) => {
  t.match((await found('ftp', { event: 'login', protocol: 'ftp' }))[0], who)
  t.equal((await found('control-plane', { event: 'login', api_key_id: partner.id })).length, 1)
  t.equal((await found('control-plane', { event: 'login', api_key_id: 1 })).length, 1, 'of many requests')

  const inactive = await post('/api_keys', { api_key: { name: 'Former', active: false } })
  const standard = await post('/api_keys', { api_key: { name: 'May nothing', role: 'standard' } })
  for (const key of [inactive.key, 'wrong_key_0123456789', standard.key])
    await FtpSession.open(ftpUrl, key).catch(() => undefined)
  const refused = await found('ftp', { event: 'login_refused' }, 3)
  t.match(refused, [
    { organization_id: 1, api_key_id: inactive.id, address: '127.0.0.1', reason: /wrong user or API key/ },
    { address: '127.0.0.1', reason: /wrong user or API key/ },
    { organization_id: 1, api_key_id: standard.id, reason: /lacks the permission/ },
  ])
  t.notHas(refused[1], 'api_key_id')
  await call('GET', '/mailing_lists', undefined, { key: inactive.key })
  await call('GET', '/mailing_lists', undefined, { key: 'wrong_key_0123456789' })
  t.match(await found('control-plane', { event: 'login_refused', protocol: 'http' }, 2), [
    { organization_id: 1, api_key_id: inactive.id, address: '127.0.0.1' },
    { address: '127.0.0.1' },
  ])
  for (const [user, sent] of [
    ['acme', partner],
    ['Müller GmbH', partner],
    ['', partner],
    ['bob', inactive],
  ] as const) {
    const before = linesOf('control-plane').filter(({ event }) => event === 'login_refused').length
    const headers = { authorization: basic(`${user}:${sent.key}`) }
    const { status, body } = await call('GET', '/whoami', undefined, { key: null, headers })
    t.match(
      { status, body },
      { status: 401, body: { error_message: /the user "api" and the API key as password/ } },
    )
    const lines = await found('control-plane', { event: 'login_refused' }, before + 1)
    t.match(lines.at(-1), { ...who, api_key_id: sent.id, protocol: 'http', reason: 'the user is not "api"' })
  }
  for (const name of ['control-plane', 'ftp'] as const)
    for (const secret of [inactive.key, standard.key, partner.key, 'wrong_key_0123456789'])
      t.notOk(processes[name]!.log().includes(secret), `${name} logs no key`)
})

t.test('while an address is blocked only the refusal that began the block is logged', async (t) => {
  await service.collections.authFailures.deleteMany({})
  const strict = await service.start('ftp', { AUTH_FAILURES_PER_MINUTE: '2' })
  for (let attempt = 0; attempt < 5; attempt += 1)
    await FtpSession.open(strict.ready.ftp!, 'wrong_key_0123456789').catch(() => undefined)
  const session = await FtpSession.open(strict.ready.ftp!, partner.key)
  session.close()
  await found('ftp', { event: 'login' })
  const reasons = linesOf('ftp').filter(({ event }) => event === 'login_refused')
  t.ok(reasons.length >= 1 && reasons.length <= 3, `${reasons.length} refusals are logged`)
})

t.test('who cancelled an import, and what had become of it', async (t) => {
  const list = await createList(service)
  const created = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      begins_at: '2999-01-01T00:00:00Z',
      file_source: { type: 'json', content: 'ann@example.com\n' },
    },
  })
  const id = { import_id: created.id, event: 'import_state' }
  for (const move of ['pause', 'unpause', 'cancel'])
    await call('POST', `/subscriber_imports/${created.id}/${move}`, undefined, {
      key: partner.key,
      headers: { 'x-request-id': `${move}-1` },
    })
  const byPartner = { ...who, mailing_list_id: list.id, filename: 'data', by: 'api' }
  t.match(await found('control-plane', id, 4), [
    { from: null, to: 'scheduled', by: 'api', organization_id: 1, api_key_id: 1 },
    { ...byPartner, from: 'scheduled', to: 'paused', request_id: 'pause-1' },
    { ...byPartner, from: 'paused', to: 'scheduled', request_id: 'unpause-1' },
    { ...byPartner, from: 'scheduled', to: 'cancelled', request_id: 'cancel-1', seconds: 0, added: 0 },
  ])
  t.match(await found('control-plane', { request_id: 'cancel-1', method: 'POST' }), [
    { ...who, id: created.id, route: '/subscriber_imports/:id/cancel', status: 200 },
  ])
})

t.test('each change of state by an engine is a line, the last one with duration and counts', async (t) => {
  const list = await createList(service)
  const importOf = async (more: Record<string, unknown>, content: string) => {
    const created = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: { column_mapping: ['email'], ...more, file_source: { type: 'json', content } },
    })
    await importEnd(service, created.id)
    return { event: 'import_state', import_id: created.id }
  }
  const byEngine = { by: 'service', organization_id: 1, mailing_list_id: list.id }
  const small = await importOf({}, 'E-Mail\nann@example.com\nno address\n')
  t.match(await found('engine', small, 2), [
    { ...byEngine, from: 'scheduled', to: 'splitting', engine: String },
    { ...byEngine, from: 'splitting', to: 'finished', seconds: Number, added: 1, failed: 1, updated: 0 },
  ])
  const whole = await importOf({ deactivate_subscribers_not_in_import: true }, 'E-Mail\nbob@example.com\n')
  t.match(await found('engine', whole, 3), [
    { ...byEngine, from: 'scheduled', to: 'splitting' },
    { ...byEngine, from: 'splitting', to: 'importing' },
    { ...byEngine, from: 'importing', to: 'finished', added: 1, deactivated: 1 },
  ])
  const failed = await importOf({ deactivate_subscribers_not_in_import: true }, 'E-Mail\nno address\n')
  t.match(await found('engine', failed, 3), [
    { to: 'splitting' },
    { to: 'importing' },
    {
      ...byEngine,
      level: 'info',
      from: 'importing',
      to: 'failed',
      failed: 1,
      reason: /no record of the file is valid/,
    },
  ])
})

t.test('an upload that its import deletes has a line, by its name in the directory', async (t) => {
  const list = await createList(service)
  await call('PUT', '/uploads/once.csv', 'email\nann@example.com\n')
  const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: {
        ...{ type: 'upload_directory', filename: 'once.csv' },
        ...{ delete_after: true, display_name: 'People.csv' },
      },
    },
  })
  t.match(await found('engine', { event: 'delete', import_id: id }), [
    { organization_id: 1, filename: 'once.csv', result: 'complete', level: 'info' },
  ])
})

t.test('the line of a request names the record that it made or changed', async (t) => {
  const request = async (method: string, path: string, body?: Json): Promise<Line | undefined> => {
    const id = `record-${method}-${path.replaceAll(/\W/g, '-')}`
    await call(method, path, body, { key: partner.key, headers: { 'x-request-id': id } })
    return (await found('control-plane', { request_id: id, msg: 'request' }))[0]
  }
  const list = await request('POST', '/mailing_lists', { mailing_list: { name: 'Named' } })
  t.match(list, { ...who, id: Number })
  const subscribers = `/mailing_lists/${String(list!['id'])}/subscribers`
  const added = await request('POST', subscribers, { subscriber: { email: 'named@example.com' } })
  t.match(added, { mailing_list_id: list!['id'], id: Number })
  const email = `${subscribers}/named@example.com`
  t.match(await request('PUT', email, { subscriber: { subscribe_ip: '192.0.2.7' } }), {
    ...{ mailing_list_id: list!['id'], id: added!['id'], status: 200 },
  })
  const one = `${subscribers}/${String(added!['id'])}`
  t.match(await request('DELETE', one), { mailing_list_id: list!['id'], id: added!['id'], status: 200 })
  const [again] = (await call('GET', subscribers)).body.data
  t.equal(again, undefined)
  t.notOk(JSON.stringify(linesOf('control-plane')).includes('named@example.com'))
})

t.test('no line has a key twice', async (t) => {
  const lines = Object.values(processes).flatMap((running) => running.log().split('\n'))
  const flat = lines.filter((line) => /^\{[^{]*\}$/.test(line))
  t.ok(flat.length > 50)
  const keysIn = (line: string) => [...line.matchAll(/[{,]"(\w+)":/g)].length
  t.same(
    flat.filter((line) => keysIn(line) !== Object.keys(JSON.parse(line)).length),
    [],
  )
})

t.test('what clients did wrong has no stack', async (t) => {
  for (const name of ['control-plane', 'ftp', 'engine'] as const)
    t.notMatch(processes[name]!.log(), /"stack":/)
})
