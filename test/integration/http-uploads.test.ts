import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { FtpSession } from '../helpers/ftp-session.ts'
import { HttpUpload, partOf } from '../helpers/http-upload.ts'
import { refusesConnections } from '../helpers/listening-port.ts'
import { growthSince } from '../helpers/metric-value.ts'
import { missing } from '../helpers/missing-programs.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import {
  basic,
  bootstrapKey,
  callerOf,
  controlPlaneOrigin,
  createList,
  importEnd,
  startProcess,
  startService,
  until,
  type Json,
  type RunningProcess,
} from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

/**
 * The upload directory over HTTP (the contract's part beyond the API, section 8), beside FTP on the same directory.
 * With files in the database: http-uploads-gridfs.test.ts.
 */

t.setTimeout(300_000)
const STAGING = process.env['ROLLCALL_TEST_STAGING'] ?? 'disk'
const service = await startService(t, ['control-plane', 'ftp', 'engine'], { STAGING })
const { call } = service
const stored = storedUploads(service)
const origin = controlPlaneOrigin(service)
const octets = { 'content-type': 'application/octet-stream' }
const authorization = basic(`api:${bootstrapKey}`)

const put = (filename: string, content: string | Uint8Array, headers: Record<string, string> = octets) =>
  call('PUT', `/uploads/${encodeURIComponent(filename)}`, content, { headers })
const begin = (filename: string, headers: Record<string, string | number> = {}, from = origin) =>
  new HttpUpload(from, filename, { headers })
const listed = async (filename: string): Promise<Json> =>
  (await service.get<Json[]>('/uploads')).find((each) => each.filename === filename)
const openFtp = () => FtpSession.open(service.processes.ftp!.ready.ftp!)

const hasUnfinished = (filename: string, size: number): Promise<Json> =>
  until(
    `${size} bytes of ${filename}`,
    () => listed(filename),
    (upload) => upload?.unfinished_size === size,
  )
const isUnlocked = (filename: string) =>
  until(
    `the end of the lock of ${filename}`,
    () => stored.isLocked(filename),
    (isLocked) => !isLocked,
  )

t.test('a file is there, whole, when the reply says so', async (t) => {
  const before = Date.now()
  const answer = await put('whole.csv', 'email\nann@example.com\n')
  t.match(answer.body, {
    success: true,
    data: { filename: 'whole.csv', size: 22, unfinished_size: null },
  })
  t.ok(Math.abs(Date.parse(answer.body.data.modified_at) - before) < 60_000)
  t.equal(await stored.content('whole.csv'), 'email\nann@example.com\n')
  t.same(answer.body.data, await listed('whole.csv'), 'the reply is the record as listed')
  t.match((await put('whole.csv', 'email\n', { 'content-type': 'text/csv' })).body.data, { size: 6 })
  t.match((await put('empty.csv', '')).body.data, { size: 0, unfinished_size: null })
  const decomposed = 'e\u0301.csv'
  t.match((await put(decomposed, 'é')).body.data, { filename: 'é.csv', size: 2 }, 'composed')
  for (const name of [decomposed, 'é.csv'])
    t.equal((await call('GET', `/uploads/${encodeURIComponent(name)}`)).text, 'é')
  const names = ['.in.dotted.csv', 'b "quoted".csv', 'ä?b#c%41.csv', 'a+b.csv', 'x'.repeat(200)]
  for (const name of names) {
    t.match((await put(name, name)).body?.data, { filename: name, size: Buffer.byteLength(name) }, name)
    const content = await call('GET', `/uploads/${encodeURIComponent(name)}`)
    t.equal(content.text, name)
  }
  const all: string[] = (await service.get<Json[]>('/uploads')).map(({ filename }) => filename)
  t.same(all, all.toSorted(), 'by name')
  const session = await openFtp()
  const overFtp = (await session.download('NLST')).text.split('\r\n').filter(Boolean)
  t.same(overFtp.toSorted(), all, 'FTP lists the same files')
  session.close()
})

t.test('an import reads what came over HTTP, without a wait', async (t) => {
  const list = await createList(service)
  await put('import.csv', 'email\nann@example.com\nbob@example.com\n')
  const created = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'upload_directory', filename: 'import.csv' },
    },
  })
  const view = await importEnd(service, created.id)
  t.match(view, { state: 'finished', stats: { number_of_records: 2 }, warnings: [] })
})

t.test('curl -T sends a file, and asks before it does', { skip: missing('curl') }, async (t) => {
  const file = path.join(service.dataFolder, 'curl.csv')
  const content = randomBytes(3_000_000)
  await writeFile(file, content)
  const run = promisify(execFile)
  const url = `${origin}/svc/api/v2/uploads/curl.csv`
  const curl = (...args: string[]) => run('curl', ['-sS', '-v', '--user', `api:${bootstrapKey}`, ...args])
  const { stdout, stderr } = await curl('-T', file, url)
  t.match(stderr, /HTTP\/1\.1 100 Continue/)
  t.match(JSON.parse(stdout), { success: true, data: { size: 3_000_000 } })
  const copy = `${file}.copy`
  await curl('-o', copy, '-r', '0-999999', url)
  await curl('-o', copy, '-C', '-', url)
  t.ok((await readFile(copy)).equals(content), 'a download can be resumed')
  const refused = await curl('-T', file, '-H', 'Content-Range: bytes 5-3000004/9000000', url).catch(
    (error: unknown) => error as Json,
  )
  t.match(JSON.parse(refused.stdout), { success: false, error_code: 'invalid_request' })
  t.notMatch(refused.stderr, /100 Continue/)
  const quiet = await curl('-f', url.replace('curl.csv', 'none.csv')).catch((error: unknown) => error as Json)
  t.equal(quiet.code, 22, 'curl -f fails where there is no such file')
  t.ok((await fetch(url, { headers: { authorization } })).ok, 'the file is still there')
})

t.test('ranges of a file', async (t) => {
  await put('range.txt', '0123456789')
  const get = async (range: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${origin}/svc/api/v2/uploads/range.txt`, {
      headers: { authorization, range, ...headers },
    })
    return { status: response.status, text: await response.text(), headers: response.headers }
  }
  const cases: [string, number, string, string?][] = [
    ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
    ['bytes=4-', 206, '456789', 'bytes 4-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=-30', 206, '0123456789', 'bytes 0-9/10'],
    ['bytes=8-100', 206, '89', 'bytes 8-9/10'],
    ['bytes=3-2', 200, '0123456789'],
    ['bytes=0-1,4-5', 200, '0123456789'],
    ['lines=0-1', 200, '0123456789'],
    ['bytes=-', 200, '0123456789'],
  ]
  for (const [range, status, text, shown = null] of cases) {
    const answer = await get(range)
    t.match(answer, { status, text }, range)
    t.equal(answer.headers.get('content-range'), shown, range)
    t.equal(answer.headers.get('content-length'), String(text.length), range)
  }
  for (const range of ['bytes=10-', 'bytes=-0', 'bytes=99-100']) {
    const beyond = await get(range)
    t.equal(beyond.status, 416, range)
    t.equal(beyond.headers.get('content-range'), 'bytes */10')
    t.match(JSON.parse(beyond.text), { success: false, error_code: 'invalid_request' })
  }
  const whole = await call('GET', '/uploads/range.txt')
  t.equal(whole.headers.get('content-type'), 'application/octet-stream')
  t.equal(whole.headers.get('accept-ranges'), 'bytes')
  const etag = whole.headers.get('etag')!
  t.equal((await get('bytes=0-3', { 'if-range': etag })).text, '0123')
  const date = whole.headers.get('last-modified')!
  t.equal((await get('bytes=0-3', { 'if-range': date })).text, '0123456789', 'a date names no version')
  await put('range.txt', 'abcdefghij')
  t.equal((await get('bytes=0-3', { 'if-range': etag })).text, 'abcdefghij', 'another version')
  const head = await fetch(`${origin}/svc/api/v2/uploads/range.txt`, {
    method: 'HEAD',
    headers: { authorization, range: 'bytes=0-3' },
  })
  t.match([head.status, head.headers.get('content-length'), await head.text()], [200, '10', ''])
})

t.test('a file that is replaced while it is read is read to its end', async (t) => {
  const content = randomBytes(8_000_000)
  await put('read.bin', content)
  const response = await fetch(`${origin}/svc/api/v2/uploads/read.bin`, { headers: { authorization } })
  const reader = response.body!.getReader()
  const pieces = [(await reader.read()).value!]
  await put('read.bin', 'short')
  // In the database the old content goes with its name, and the transfer is cut before its end.
  const rest = (async () => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return true
      pieces.push(value)
    }
  })().catch(() => false)
  if ((await rest) || STAGING === 'disk') t.ok(Buffer.concat(pieces).equals(content))
  t.equal((await call('GET', '/uploads/read.bin')).text, 'short')
})

/** A request that is refused before its body is asked for. */
async function isRefused(
  t: Test,
  filename: string,
  headers: Record<string, string | number>,
  expected: { status: number; code: string; message: RegExp; key?: string; from?: string },
): Promise<void> {
  const { status, code, message, key = bootstrapKey, from = origin } = expected
  const upload = new HttpUpload(from, filename, {
    key,
    headers: { expect: '100-continue', 'content-length': 1_000_000, ...headers },
  })
  const reply = await upload.reply
  t.match(reply, { status, body: { success: false, error_code: code, error_message: message } }, filename)
  t.notOk(upload.isContinued, `${filename}: the body is not asked for`)
  upload.cut()
}

t.test('each fault is answered before the body is read, and changes nothing', async (t) => {
  await put('kept.csv', 'kept')
  const names = await stored.entries()
  for (const [name, message] of [
    ['a.b/c.csv', /^filename must be a plain file name without a path$/],
    ['a/b.csv', /^filename "a\/b\.csv" is in no folder that there is/],
    ['a\\b.csv', /plain file name/],
    ['a\nb.csv', /control characters/],
    ['a\u009bb.csv', /control characters/],
    ['ä'.repeat(101), /200 bytes/],
  ] as const)
    await isRefused(t, name, {}, { status: 422, code: 'validation_failed', message })
  const form = /^Content-Range must be "bytes FIRST-LAST\/TOTAL"/
  for (const range of [
    'bytes 0-9',
    'bytes 0-9/*',
    'bytes */10',
    'bytes 9-0/10',
    'bytes 0-10/10',
    'lines 0-9/10',
    '0-9/10',
    'bytes 0-1e3/9999',
    '',
  ])
    await isRefused(
      t,
      'kept.csv',
      { 'content-range': range },
      { status: 400, code: 'invalid_request', message: form },
    )
  await isRefused(
    t,
    'kept.csv',
    { 'content-range': 'bytes 0-9/10' },
    {
      status: 400,
      code: 'invalid_request',
      message: /^Content-Length is 1000000, and Content-Range has 10 bytes/,
    },
  )
  await isRefused(t, 'kept.csv', partOf(4, 1000, 2000), {
    status: 416,
    code: 'invalid_request',
    message: /"kept\.csv" has no unfinished upload, so it begins at byte 0, not 4/,
  })
  const key = 'wrong_key_0123456789'
  await isRefused(t, 'kept.csv', {}, { status: 401, code: 'not_authorized', message: /wrong/, key })
  const notAFile = { status: 415, code: 'invalid_request', message: /the file itself/ }
  await isRefused(t, 'kept.csv', { 'content-type': 'multipart/form-data; boundary=x' }, notAFile)
  // S3 clients put frames with signatures around such a body.
  for (const encoding of ['gzip', 'x-gzip', 'utf-8, zstd', 'aws-chunked'])
    await isRefused(t, 'kept.csv', { 'content-encoding': encoding }, notAFile)
  const encoded = await begin('kept.csv', { 'transfer-encoding': 'gzip, chunked' }).end('x')
  t.match(encoded, { status: 415, body: { error_message: notAFile.message } })
  t.equal(await stored.content('kept.csv'), 'kept')
  t.same(await stored.entries(), names)
  for (const method of ['POST', 'PATCH']) t.equal((await call(method, '/uploads/kept.csv')).status, 405)
  for (const method of ['POST', 'PUT', 'DELETE']) t.equal((await call(method, '/uploads')).status, 405)
})

t.test('words in Content-Encoding that are no compression are ignored', async (t) => {
  for (const word of ['identity', 'utf-8', 'binary', 'none'])
    t.match(
      (await put('labelled.csv', word, { 'content-encoding': word })).body,
      { success: true, data: { size: word.length } },
      word,
    )
  t.match((await call('DELETE', '/uploads/labelled.csv')).body, { success: true })
})

t.test('a body that ends early leaves what came, and any door resumes it', async (t) => {
  await put('both.csv', 'finished')
  const upload = begin('both.csv', { 'content-length': 100 })
  upload.write('01234')
  await hasUnfinished('both.csv', 5)
  upload.cut()
  await isUnlocked('both.csv')
  t.match(await listed('both.csv'), { size: 8, unfinished_size: 5 })
  t.equal((await call('GET', '/uploads/both.csv')).text, 'finished', 'reading means the finished file')
  const wrong = await begin('both.csv', partOf(0, 5, 10)).end('01234')
  t.equal(wrong.status, 416)
  t.match(wrong.body, {
    error_code: 'invalid_request',
    error_message: /has an unfinished upload of 5 bytes, so it resumes at byte 5, not 0/,
  })
  const part = await begin('both.csv', partOf(5, 3, 10)).end('567')
  t.match(part.body, { success: true, data: { filename: 'both.csv', size: 8, unfinished_size: 8 } })
  const last = await begin('both.csv', partOf(8, 2, 10)).end('89')
  t.match(last.body, { success: true, data: { size: 10, unfinished_size: null } })
  t.equal(await stored.content('both.csv'), '0123456789')

  const first = await begin('new.csv', partOf(0, 4, 10)).end('0123')
  t.match(first.body.data, { size: null, unfinished_size: 4 })
  const session = await openFtp()
  t.match(await session.command('SIZE new.csv'), /^213 4$/)
  t.match(await session.upload('STOR new.csv', '456789', 4), /^226 /, 'FTP resumes what HTTP began')
  t.equal(await stored.content('new.csv'), '0123456789')

  const data = await session.beginUpload('STOR new.csv')
  data.write('abcde')
  await hasUnfinished('new.csv', 5)
  session.close()
  data.destroy()
  await isUnlocked('new.csv')
  t.match(
    (await begin('new.csv', partOf(5, 3, 8)).end('fgh')).body,
    { success: true },
    'and HTTP what FTP began',
  )
  t.equal(await stored.content('new.csv'), 'abcdefgh')
})

t.test('a body of another length than its range keeps the bytes of the range', async (t) => {
  const range = { 'content-range': 'bytes 0-4/10', 'transfer-encoding': 'chunked' }
  const fewer = await begin('length.csv', range).end('012')
  t.equal(fewer.status, 400)
  t.match(fewer.body, { error_code: 'invalid_request', error_message: /fewer bytes .* at byte 3$/ })
  await hasUnfinished('length.csv', 3)
  const more = await begin('length.csv', { ...range, 'content-range': 'bytes 3-9/10' }).end('3456789ABC')
  t.equal(more.status, 400)
  t.match(more.body, {
    error_code: 'invalid_request',
    error_message: /more bytes .*: send the whole file again$/,
  })
  t.match(await listed('length.csv'), { size: null, unfinished_size: 10 }, 'it is not visible')
  t.match((await call('DELETE', '/uploads/length.csv')).body, { success: true, data: null })
  t.equal(await listed('length.csv'), undefined)
})

t.test('DELETE removes the finished file, then the unfinished one, then nothing', async (t) => {
  await put('gone.csv', 'finished')
  await begin('gone.csv', partOf(0, 4, 10)).end('0123')
  t.match((await call('DELETE', '/uploads/gone.csv')).body, { success: true, data: null })
  t.match(await listed('gone.csv'), { size: null, unfinished_size: 4 })
  t.match(await call('GET', '/uploads/gone.csv'), { status: 404, body: { error_code: 'not_found' } })
  t.match((await call('DELETE', '/uploads/gone.csv')).body, { success: true, data: null })
  for (const method of ['DELETE', 'GET'])
    t.match(await call(method, '/uploads/gone.csv'), {
      status: 404,
      body: { error_code: 'not_found', error_message: 'there is no upload "gone.csv"' },
    })
})

t.test('one name has one writer, whatever the doors', async (t) => {
  const session = await openFtp()
  const first = begin('shared.csv', { 'content-length': 10 })
  first.write('01234')
  await hasUnfinished('shared.csv', 5)
  const elsewhere = /"shared\.csv" is being uploaded by another request or session/
  await isRefused(t, 'shared.csv', {}, { status: 409, code: 'validation_failed', message: elsewhere })
  t.match(await call('DELETE', '/uploads/shared.csv'), {
    status: 409,
    body: { error_code: 'validation_failed', error_message: elsewhere },
  })
  await session.data()
  t.match(await session.command('STOR shared.csv'), /^450 /)
  t.match((await first.end('56789')).body, { success: true, data: { size: 10 } })
  const data = await session.beginUpload('STOR shared.csv')
  data.write('abc')
  await hasUnfinished('shared.csv', 3)
  await isRefused(t, 'shared.csv', {}, { status: 409, code: 'validation_failed', message: elsewhere })
  data.end('def')
  t.match(await session.reply(), /^226 /)
  t.equal((await call('GET', '/uploads/shared.csv')).text, 'abcdef')
  session.close()
})

/** A further control plane on the same directory. */
async function startBeside(
  t: Test,
  settings: Record<string, string> = {},
): Promise<{ running: RunningProcess; from: string }> {
  const running = await startProcess('control-plane', { ...service.settings, ...settings })
  t.teardown(() => running.stop())
  return { running, from: running.ready.http! }
}

t.test('a full directory answers 413', async (t) => {
  const { id } = await service.post('/organizations', { organization: { name: 'Small' } })
  const { key } = await service.post(`/organizations/${id}/api_keys`, {
    api_key: { name: 'small', role: 'organization_admin' },
  })
  const { from } = await startBeside(t, { UPLOAD_MAX_MB: '1', UPLOAD_MAX_FILES: '2' })
  const callSmall = callerOf(() => from)
  const putSmall = (name: string, bytes: number) =>
    callSmall('PUT', `/uploads/${name}`, Buffer.alloc(bytes, 'x'), { key, headers: octets })
  t.equal((await putSmall('a.csv', 600_000)).status, 200)
  const full = {
    status: 413,
    code: 'invalid_request',
    message: /UPLOAD_MAX_FILES and UPLOAD_MAX_MB/,
    key,
    from,
  }
  await isRefused(t, 'b.csv', {}, full)
  await isRefused(t, 'b.csv', partOf(0, 1_000, 500_000), full)
  // A body without a length is refused where it passes the limit, and nothing of it stays.
  const unknown = new HttpUpload(from, 'b.csv', { key, headers: { 'transfer-encoding': 'chunked' } })
  t.match(await unknown.end(Buffer.alloc(700_000)), { status: 413 })
  t.equal((await putSmall('b.csv', 300_000)).status, 200)
  await isRefused(t, 'c.csv', { 'content-length': 1 }, full)
  t.equal((await putSmall('b.csv', 90_000)).status, 200, 'a file may be replaced')
  t.match(
    (await callSmall('GET', '/uploads', undefined, { key })).body.data.map(({ size }: Json) => size),
    [600_000, 90_000],
  )
  t.match((await callSmall('DELETE', '/uploads/b.csv', undefined, { key })).body, { success: true })
  const resumable = (first: number, bytes: number) =>
    new HttpUpload(from, 'resumed.csv', { key, headers: partOf(first, bytes, 10) })
  t.match(await resumable(0, 4).end('0123'), { status: 200 })
  await isRefused(t, 'c.csv', { 'content-length': 1 }, full)
  t.match(
    await resumable(4, 6).end('456789'),
    { status: 200, body: { data: { size: 10, unfinished_size: null } } },
    'an upload that broke off may be resumed',
  )
})

t.test('each organization has a directory of its own, for system admins too', async (t) => {
  const { id } = await service.post('/organizations', { organization: { name: 'Other' } })
  const { key } = await service.post(`/organizations/${id}/api_keys`, {
    api_key: { name: 'other', role: 'organization_admin' },
  })
  await put('same.csv', 'of the first')
  t.match((await call('GET', '/uploads', undefined, { key })).body.data, [])
  for (const method of ['GET', 'DELETE'])
    t.match((await call(method, '/uploads/same.csv', undefined, { key })).body, { error_code: 'not_found' })
  await call('PUT', '/uploads/same.csv', 'of the other', { key, headers: octets })
  t.equal((await call('GET', '/uploads/same.csv')).text, 'of the first')
  t.equal((await call('GET', '/uploads/same.csv', undefined, { key })).text, 'of the other')
  const standard = await service.post('/api_keys', { api_key: { name: 'standard', role: 'standard' } })
  const allowed = { status: 403, code: 'not_authorized', message: /subscriber\/import/, key: standard.key }
  await isRefused(t, 'same.csv', {}, allowed)
})

t.test('an upload ends with its key, and what came stays', async (t) => {
  const { name, reply, tookMs } = await repeatWhile(
    async (attempt) => {
      const name = `revoked-${attempt}.csv`
      const { id, key } = await service.post('/api_keys', { api_key: { name, role: 'organization_admin' } })
      const upload = new HttpUpload(origin, name, { key, headers: { 'content-length': 100 } })
      upload.write('01234')
      await hasUnfinished(name, 5)
      const beganAt = performance.now()
      t.match((await call('DELETE', `/api_keys/${id}`)).body, { success: true })
      return { name, reply: await upload.reply, tookMs: performance.now() - beganAt }
    },
    ({ tookMs }) => tookMs >= 5_000,
    service,
  )
  t.match(reply, { status: 401, body: { error_code: 'not_authorized' } })
  t.ok(tookMs < 5_000, `${tookMs} ms`)
  t.match(await listed(name), { size: null, unfinished_size: 5 })
})

t.test('a download of which nothing is read ends with its key, and its line says why', async (t) => {
  const size = 30_000_000
  t.match(await put('large.bin', Buffer.alloc(size)), { status: 200 })
  const made = await service.post('/api_keys', {
    api_key: { name: 'reader', role: 'uploads', uploads_folder: 'acme' },
  })
  await service.call('PUT', `/api_keys/${made.id}`, { api_key: { uploads_folder: null } })
  const reading = httpRequest(`${origin}/svc/api/v2/uploads/large.bin`, {
    headers: { authorization: basic(`api:${made.key}`) },
  }).end()
  const [reply] = (await once(reading, 'response')) as [IncomingMessage]
  t.equal(reply.headers['content-length'], String(size))
  const cut = once(reply.socket, 'close')
  reply.on('error', () => undefined)
  await service.call('PUT', `/api_keys/${made.id}`, { api_key: { uploads_folder: 'beta' } })
  // A socket that isn't read sees its end when it is.
  const line = await until(
    'the line of the download',
    async () => /.*"event":"download".*large\.bin.*/.exec(service.processes['control-plane']!.log())?.[0],
    (found) => found !== undefined,
    10_000,
  )
  t.match(JSON.parse(line!), {
    result: 'unfinished',
    reason: 'the API key was revoked or changed during the transfer',
  })
  reply.resume()
  await cut
})

t.test('a file whose upload ends while it is deleted is deleted', async (t) => {
  const session = await openFtp()
  for (const remove of [
    async (name: string) => (await call('DELETE', `/uploads/${name}`)).text,
    (name: string) => session.command(`DELE ${name}`),
  ]) {
    // A removal waits 1.5 s for the end of the upload, and is refused after that.
    const { name, removed } = await repeatWhile(
      async (attempt) => {
        const name = `late-${attempt}.csv`
        const upload = begin(name, { 'content-length': 6 })
        upload.write('abc')
        await hasUnfinished(name, 3)
        const removed = remove(name)
        await sleep(100)
        t.match((await upload.end('def')).body, { success: true })
        return { name, removed: await removed }
      },
      ({ removed }) => removed.includes('is being uploaded'),
      service,
    )
    t.match(removed, /^250 |"success":true/)
    t.equal(await listed(name), undefined)
  }
  session.close()
})

t.test('a stop answers an upload that does not end, and what came stays', async (t) => {
  // The process waits 3.5 s for bytes, and cuts all connections after 7 s.
  const { name, almost, unfinished, exitCode } = await repeatWhile(
    async (attempt) => {
      const { running, from } = await startBeside(t)
      const beginUpload = async (name: string, bytes: number) => {
        const upload = begin(name, { 'content-length': bytes }, from)
        upload.write('01234')
        await hasUnfinished(name, 5)
        return upload
      }
      const name = `stopped-${attempt}.csv`
      const unfinished = await beginUpload(name, 100)
      const almost = await beginUpload(`almost-${attempt}.csv`, 10)
      const stoppedAt = performance.now()
      const stopped = running.stop()
      await until('the end of listening', () => refusesConnections(from), Boolean)
      const end = async (reply: Promise<object>) => {
        const ended = await reply.catch((error: unknown) => ({ error }))
        return { ...ended, ms: performance.now() - stoppedAt }
      }
      // It waits for uploads that still move.
      await sleep(Math.max(0, stoppedAt + 1_000 - performance.now()))
      const ends = await Promise.all([end(almost.end('56789')), end(unfinished.reply)])
      return { name, almost: ends[0], unfinished: ends[1], exitCode: await stopped }
    },
    ({ almost, unfinished }) => almost.ms > 3_000 || unfinished.ms > 6_500,
  )
  t.match(almost, { body: { success: true, data: { size: 10 } } }, 'one that ends is served')
  t.match(unfinished, {
    status: 503,
    body: { error_code: 'internal_error', error_message: /stays as an unfinished upload/ },
  })
  t.equal(exitCode, 0)
  t.match((await begin(name, partOf(5, 2, 7)).end('56')).body, { success: true }, 'at once')
})

t.test('what a killed process received can be resumed when its lease has ended', async (t) => {
  const { running, from } = await startBeside(t)
  const upload = begin('killed.csv', { 'content-length': 100 }, from)
  upload.write('01234')
  await hasUnfinished('killed.csv', 5)
  const killedAt = Date.now()
  await running.stop('SIGKILL')
  await t.rejects(upload.reply)
  const refused = await begin('killed.csv', partOf(5, 5, 10)).end('56789')
  t.match(refused, { status: 409, body: { error_code: 'validation_failed' } }, 'not at once')
  const reply = await until(
    'the end of the lease',
    () => begin('killed.csv', partOf(5, 5, 10)).end('56789'),
    ({ body }) => body.error_code !== 'validation_failed',
    60_000,
    500,
  )
  t.match(reply.body, { success: true, data: { size: 10, unfinished_size: null } })
  t.ok(Date.now() - killedAt < 30_000)
  t.equal(await stored.content('killed.csv'), '0123456789')
})

t.test('transfers are counted by their protocol', async (t) => {
  const metric = async (name: string): Promise<number> => {
    const metrics = await (await fetch(`${origin}/metrics`)).text()
    return Number(
      metrics
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.slice(name.length),
    )
  }
  const bytes = (direction: string) =>
    metric(`rollcall_ftp_bytes_total{protocol="http",direction="${direction}"}`)
  const ended = (kind: string, result: string) =>
    metric(`rollcall_ftp_transfers_total{protocol="http",kind="${kind}",result="${result}"}`)
  const before = [
    await bytes('in'),
    await bytes('out'),
    await ended('in', 'done'),
    await ended('out', 'done'),
  ]
  const [broken, refused] = [await ended('in', 'broken_off'), await ended('in', 'refused')]
  await put('counted.csv', Buffer.alloc(100_000))
  await call('GET', '/uploads/counted.csv')
  const after = [await bytes('in'), await bytes('out'), await ended('in', 'done'), await ended('out', 'done')]
  t.same(
    after.map((value, i) => value - before[i]!),
    [100_000, 100_000, 1, 1],
  )
  await begin('counted.csv', partOf(5, 5, 10)).reply
  t.equal((await ended('in', 'refused')) - refused, 1)
  const upload = begin('counted.csv', { 'content-length': 10 })
  upload.write('012')
  await hasUnfinished('counted.csv', 3)
  const inProgress = () => metric('rollcall_ftp_transfers{protocol="http",kind="in"}')
  t.equal(await inProgress(), 1)
  upload.cut()
  // The lock's end isn't waited for: the control plane counts when it knows of it, a moment later.
  await until('the end of the transfer', inProgress, (count) => count !== 1)
  t.equal((await ended('in', 'broken_off')) - broken, 1)
  t.equal(await inProgress(), 0)
})

t.test('durations of uploads, downloads and their requests are in seconds', async (t) => {
  const areInSeconds = async (method: string, kind: string, work: () => Promise<unknown>) => {
    const [growth, startedAt] = [await growthSince(`${origin}/metrics`), performance.now()]
    await work()
    const ofRequests = (part: string) =>
      `rollcall_http_request_duration_seconds_${part}{method="${method}",route="/uploads/:filename",status="200",error_code=""}`
    // A request is measured when its reply has been sent, which its client may see earlier.
    await until(
      `one more ${method}`,
      () => growth(ofRequests('count')),
      (more) => more === 1,
    )
    const maxSeconds = (performance.now() - startedAt) / 1_000
    const ofTransfers = `rollcall_ftp_transfer_duration_seconds_sum{protocol="http",kind="${kind}"}`
    for (const series of [ofTransfers, ofRequests('sum')]) {
      const seconds = await growth(series)
      t.ok(
        seconds >= 1.4 && seconds <= maxSeconds,
        `${series}: ${seconds} s, not from 1.4 s to ${maxSeconds} s`,
      )
    }
  }
  // Larger than what sockets hold, so the download lasts until the client has read it.
  await put('lasting.csv', Buffer.alloc(30_000_000))
  await areInSeconds('GET', 'out', async () => {
    const request = httpRequest(`${origin}/svc/api/v2/uploads/lasting.csv`, {
      headers: { authorization },
    }).end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    await sleep(1_500)
    await once(response.resume(), 'end')
  })
  await areInSeconds('PUT', 'in', async () => {
    const upload = begin('lasting.csv', { 'content-length': 10 })
    upload.write('01234')
    // A busy service begins to read after the client has written.
    await hasUnfinished('lasting.csv', 5)
    await sleep(1_500)
    t.match(await upload.end('56789'), { status: 200 })
  })
})

t.test('a connection serves other requests after an upload', async (t) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const ask = async (method: string, body?: string) => {
    const request = httpRequest(`${origin}/svc/api/v2/uploads/alive.csv`, {
      method,
      agent,
      headers: { authorization },
    })
    request.end(body)
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return { text: await text(response), port: request.socket?.localPort }
  }
  const first = await ask('PUT', '01234')
  const second = await ask('GET')
  t.match(JSON.parse(first.text), { success: true })
  t.same(second, { text: '01234', port: first.port }, 'over the same connection')
})
