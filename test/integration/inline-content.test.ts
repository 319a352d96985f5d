import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import path from 'node:path'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import {
  basic,
  bootstrapKey,
  countsOf,
  createList,
  importEnd,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'
import { readStagedContent } from '../helpers/staged-content.ts'

const service = await startService(t, ['control-plane'], { HTTP_INLINE_LIMIT_MB: '2' })
const { call, collections } = service
const list = await createList(service, [{ name: 'Text', field_type: 'text_multiline' }])
const target = `/mailing_lists/${list.id}/subscriber_imports`
const megabyte = 1024 * 1024

/** Begins a request of which the test sends the body itself. */
function open(headers: Record<string, string | number> = {}, path = target) {
  const request = httpRequest(`${service.processes['control-plane']!.ready.http}/svc/api/v2${path}`, {
    method: 'POST',
    headers: {
      authorization: basic(`api:${bootstrapKey}`),
      'content-type': 'application/json',
      ...headers,
    },
  })
  request.flushHeaders()
  return { request, answer: answerOf(request) }
}

async function answerOf(request: ClientRequest): Promise<{ status: number; body: Json }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) =>
    request.on('response', resolve).on('error', reject),
  )
  const pieces: Buffer[] = []
  for await (const piece of response) pieces.push(piece as Buffer)
  return { status: response.statusCode!, body: JSON.parse(Buffer.concat(pieces).toString()) }
}

const send = (request: ClientRequest, piece: string | Buffer) =>
  new Promise<void>((resolve) => request.write(piece, () => resolve()))

const requestsInFlight = async (): Promise<number> => {
  const { metrics } = service.processes['control-plane']!.ready
  const text = await (await fetch(metrics['control_plane']!)).text()
  return Number(/^rollcall_http_requests_in_flight (\d+)$/m.exec(text)![1])
}

/** Sends a megabyte of a body that doesn't end, and waits until the control plane has begun the request. */
async function sendHalf(request: ClientRequest): Promise<void> {
  await send(request, bodyOf('').slice(0, -4))
  await send(request, Buffer.alloc(megabyte, 'x'))
  await until('a request in flight', requestsInFlight, (count) => count > 0)
}

const bodyOf = (content: string, more: Json = {}) =>
  JSON.stringify({
    subscriber_import: {
      column_mapping: ['email', 'Text'],
      begins_at: '2100-01-01T00:00',
      ...more,
      file_source: { type: 'json', content },
    },
  })

const stagedOf = (id: number) => readStagedContent(service, id)
const stagedFiles = () =>
  readdir(path.join(service.dataFolder, 'staging'), { recursive: true }).catch((): string[] => [])

/** Runs the requests and compares the staging before and after: nothing of them may stay. */
async function leavesNothing(t: Test, run: () => Promise<void>): Promise<void> {
  const before = (await stagedFiles()).sort()
  const imports = await collections.imports.countDocuments()
  await run()
  await until(
    'a staging as it was before',
    async () => (await stagedFiles()).sort(),
    (files) => JSON.stringify(files) === JSON.stringify(before),
  )
  t.equal(await collections.imports.countDocuments(), imports, 'and no import')
}

const awkward = 'email,text\r\n'.concat(
  ...Array.from(
    { length: 400 },
    (_, i) => `a${i}@b.co,"ä€😀 ""${i}"" \\ / \b\f\t\u2028\ufeff\n${'x'.repeat(i)}"\r\n`,
  ),
)

t.test('content is staged as it was meant, however it is spelled, cut and packed', async (t) => {
  const ascii = bodyOf(awkward).replaceAll(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  t.ok(awkward.length > 70_000, 'more than is held in memory')
  const expected = createHash('sha256').update(awkward).digest('hex')
  const check = async ({ status, body }: { status: number; body: Json }, how: string) => {
    t.equal(status, 200, how)
    t.equal(body.success, true, JSON.stringify(body))
    const staged = await stagedOf(body.data.id)
    t.equal(createHash('sha256').update(staged).digest('hex'), expected, how)
    t.equal((await collections.imports.findOne({ _id: body.data.id }))?.state, 'scheduled')
  }
  await check(await call('POST', target, bodyOf(awkward)), 'plain')
  await check(await call('POST', target, ascii), 'all escaped')
  await check(await call('POST', target, `\ufeff \n${ascii}\t`), 'a byte order mark, and blanks')
  for (const [encoding, packed] of [
    ['gzip', gzipSync(ascii)],
    ['deflate', deflateSync(ascii)],
    ['br', brotliCompressSync(bodyOf(awkward))],
  ] as const)
    await check(await call('POST', target, packed, { headers: { 'content-encoding': encoding } }), encoding)
  const { request, answer } = open()
  const bytes = Buffer.from(bodyOf(awkward))
  for (let at = 0; at < bytes.length; at += 911) await send(request, bytes.subarray(at, at + 911))
  request.end()
  await check(await answer, 'in chunks that cut characters')
})

t.test('of a key given twice the last one counts, and nothing of the other stays', async (t) => {
  const before = await stagedFiles()
  const first = JSON.stringify(randomBytes(150_000).toString('base64'))
  const { body } = await call(
    'POST',
    target,
    `{"subscriber_import":{"begins_at":"2100-01-01T00:00","column_mapping":["email"],"file_source":{"type":"json","content":${first},"content":"second"}}}`,
  )
  t.equal((await stagedOf(body.data.id)).toString(), 'second')
  t.same(await stagedFiles(), before, 'the first one would have been a file')
  await leavesNothing(t, async () => {
    const { body } = await call(
      'POST',
      target,
      `{"subscriber_import":{"column_mapping":["email"],"file_source":{"type":"json","content":${first},"content":5}}}`,
    )
    t.match(body, { error_code: 'validation_failed', error_message: /content must be a string/ })
  })
})

t.test('a body that is refused leaves nothing in the staging', async (t) => {
  const long = JSON.stringify('x'.repeat(300_000)).slice(1, -1)
  const source = (content: string, more = '') =>
    `{"subscriber_import":{"column_mapping":["email"],"file_source":{"type":"json","content":"${content}"}}${more}}`
  const cases: [body: string | Buffer, code: string, message: RegExp, path?: string][] = [
    [source(long).slice(0, -1), 'invalid_request', /not valid JSON/],
    [source(long, ',"x":[,]'), 'invalid_request', /not valid JSON/],
    [source(`${long}\\x`), 'invalid_request', /not valid JSON/],
    [source(`${long}\n`), 'invalid_request', /not valid JSON/],
    [Buffer.from(source(`${long}\xff`), 'latin1'), 'invalid_request', /not valid UTF-8/],
    [Buffer.from(source(long, ',"\xff":1'), 'latin1'), 'invalid_request', /not valid UTF-8/],
    [source(`${long}\\ud83d`), 'invalid_request', /half of a surrogate pair/],
    [source(long, `,"x":${'['.repeat(64)}${']'.repeat(64)}`), 'invalid_request', /64 levels/],
    [source(long).replace('"json"', '"mail"'), 'validation_failed', /file_source\.type/],
    [source(long).replace('"email"', '"nothing"'), 'validation_failed', /column_mapping/],
    [source(long).replace('"json"', '"url"'), 'validation_failed', /url is required/],
    [source(''), 'validation_failed', /must not be blank/],
    [source(' \\u00a0\u3000\\ufeff\\n'.repeat(20_000)), 'validation_failed', /must not be blank/],
    [source(long), 'not_found', /mailing list 999/, '/mailing_lists/999/subscriber_imports'],
    [`[${source(long)}]`, 'invalid_request', /^the body must be \{"subscriber_import": \{\.\.\.\}\}/],
  ]
  await leavesNothing(t, async () => {
    for (const [body, code, message, at = target] of cases) {
      const answer = await call('POST', at, body)
      t.match(answer.body, { success: false, error_code: code, error_message: message })
      t.equal(answer.status, 200)
    }
  })
  t.match(
    (await call('POST', target, source(`${long}\\u0000`).replace('"overwrite"', '"x"'))).body,
    { success: true },
    'a NUL is for the import to judge',
  )
})

t.test('another source may have a content too, and does not keep it', async (t) => {
  await leavesNothing(t, async () => {
    const { body } = await call(
      'POST',
      target,
      bodyOf('x'.repeat(200_000)).replace(
        '"type":"json"',
        '"type":"upload_directory","filename":"absent.csv"',
      ),
    )
    t.match(body, { error_code: 'validation_failed', error_message: /not in the upload directory/ })
  })
  const { body } = await call(
    'POST',
    target,
    bodyOf('x'.repeat(200_000)).replace('"type":"json"', '"type":"url","url":"http://127.0.0.1:9/"'),
  )
  t.match(body, { success: true, data: { file_source: { type: 'url' } } })
  t.notOk((await stagedFiles()).includes(String(body.data.id)))
})

t.test('a body over the limit is refused before it is read, and the reply can be read', async (t) => {
  await leavesNothing(t, async () => {
    const announced = open({ 'content-length': 3 * megabyte })
    t.match(await announced.answer, {
      status: 413,
      body: { success: false, error_code: 'invalid_request', error_message: /2 MiB/ },
    })
    announced.request.destroy()
    const elsewhere = open({ 'content-length': 3 * megabyte }, '/mailing_lists')
    t.match(await elsewhere.answer, { status: 413, body: { error_message: /1 MiB/ } })
    elsewhere.request.destroy()

    const sent = open({ 'content-length': 3 * megabyte })
    const bytes = Buffer.from(bodyOf('x'.repeat(3 * megabyte))).subarray(0, 3 * megabyte)
    await send(sent.request, bytes)
    sent.request.end()
    t.equal((await sent.answer).status, 413, 'also to who sends all of it first')
  })
})

t.test('a chunked body is refused as soon as it is over the limit', async (t) => {
  await leavesNothing(t, async () => {
    const { request, answer } = open()
    await send(request, bodyOf('x').slice(0, -5))
    for (let i = 0; i < 5; i++) await send(request, Buffer.alloc(megabyte / 2, 'x'))
    t.equal((await answer).status, 413, 'although it has not ended')
    request.destroy()
    const faulty = open()
    await send(faulty.request, '{,')
    for (let i = 0; i < 5; i++) await send(faulty.request, Buffer.alloc(megabyte / 2, 'x'))
    t.equal((await faulty.answer).status, 413, 'the size is said before the JSON')
    faulty.request.destroy()
    const bomb = await call('POST', target, gzipSync(bodyOf('x'.repeat(20 * megabyte))), {
      headers: { 'content-encoding': 'gzip' },
    })
    t.equal(bomb.status, 413, 'the limit is also on what comes out')
    const beside = await call('POST', target, bodyOf('email\n', { x: 'x'.repeat(1.5 * megabyte) }))
    t.equal(beside.status, 413)
    t.match(beside.body.error_message, /without subscriber_import\.file_source\.content/)
  })
  t.match(
    (await call('POST', target, bodyOf('x'.repeat(2 * megabyte - 400)))).body,
    { success: true },
    'up to the limit it is taken',
  )
})

t.test('a client that keeps sending after a refusal is cut off', async (t) => {
  const { request, answer } = open({ 'content-length': 10_000 * megabyte })
  t.equal((await answer).status, 413)
  const closed = new Promise((resolve) => request.on('error', () => undefined).once('close', resolve))
  const piece = Buffer.alloc(megabyte)
  let isClosed = false
  void closed.then(() => (isClosed = true))
  for (let i = 0; i < 1_000 && !isClosed; i++) await Promise.race([closed, send(request, piece)])
  await closed
  t.pass('the connection is closed')
})

t.test('a body that its Content-Encoding does not fit is refused', async (t) => {
  await leavesNothing(t, async () => {
    const packed = gzipSync(bodyOf(awkward))
    for (const at of [target, '/mailing_lists']) {
      for (const bytes of [packed.subarray(0, packed.length - 20), Buffer.from(bodyOf('x'))]) {
        const answer = await call('POST', at, bytes, { headers: { 'content-encoding': 'gzip' } })
        t.equal(answer.status, 200)
        t.match(answer.body, { error_code: 'invalid_request', error_message: /couldn't be read/ })
      }
      const unknown = await call('POST', at, packed, { headers: { 'content-encoding': 'compress' } })
      t.equal(unknown.status, 415)
    }
  })
})

t.test('a client that goes away in mid-body leaves nothing', async (t) => {
  await leavesNothing(t, async () => {
    const { request, answer } = open()
    answer.catch(() => undefined)
    await sendHalf(request)
    request.destroy()
    await until('the end of the request', requestsInFlight, (count) => count === 0)
  })
  t.notMatch(service.processes['control-plane']!.log(), /"level":"error"/)
})

t.test('an Idempotency-Key compares the bytes of the whole body', async (t) => {
  const sendKeyed = async (content: string) =>
    (await call('POST', target, bodyOf(content), { headers: { 'idempotency-key': 'inline' } })).body
  const long = 'email\n'.repeat(30_000)
  const first = await sendKeyed(long)
  t.equal(first.success, true)
  await leavesNothing(t, async () => {
    t.same(await sendKeyed(long), first)
    t.match(await sendKeyed(`${long}x`), { error_code: 'validation_failed', error_message: /another body/ })
  })
  t.equal((await stagedOf(first.data.id)).toString(), long)
})

t.test('a creation of a killed control plane is no import, or a complete one', async (t) => {
  const { request, answer } = open()
  answer.catch(() => undefined)
  const imports = await collections.imports.countDocuments()
  await sendHalf(request)
  await service.processes['control-plane']!.stop('SIGKILL')
  request.destroy()
  t.equal(await collections.imports.countDocuments(), imports)
  await service.start('control-plane')
})

t.test('a stop refuses bodies that stand still, and leaves nothing of them', async (t) => {
  const controlPlane = service.processes['control-plane']!
  await leavesNothing(t, async () => {
    const large = open()
    const small = open({ expect: '100-continue' }, '/mailing_lists')
    await once(small.request, 'continue') // so it has arrived
    await send(small.request, '{"mailing_list":')
    await sendHalf(large.request)
    const ended = controlPlane.stop()
    for (const { answer } of [large, small])
      t.match(await answer, { status: 503, body: { success: false, error_code: 'internal_error' } })
    t.equal(await ended, 0)
  })
  t.notMatch(controlPlane.log(), /"level":"error"/)
  await service.start('control-plane')
})

t.test('its rows are imported as they were meant', async (t) => {
  await service.start('engine')
  const { body } = await call('POST', target, bodyOf(awkward, { begins_at: 'now' }))
  const view = await importEnd(service, body.data.id)
  t.same(countsOf(view), { added: 400 })
  const texts = new Map(
    (await collections.subscribers.find().toArray()).map((subscriber) => [
      subscriber.email,
      Object.values(subscriber.custom_fields)[0],
    ]),
  )
  t.equal(texts.get('a5@b.co'), 'ä€😀 "5" \\ / \b\f\t\u2028\ufeff\nxxxxx')
})
