import { once } from 'node:events'
import {
  request as httpRequest,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { boundConnections, type ConnectionLimits } from '../../../control-plane/http-connections.ts'
import { createHttpServer, httpLimits, type HttpLimits } from '../../../control-plane/http-server.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { serveOperations } from '../../../shared/runtime/service.ts'
import {
  basic,
  bootstrapKey,
  callerOf,
  startProcess,
  startProgram,
  until,
  type RunningProcess,
} from '../../helpers/service.ts'
import { refusesConnections } from '../../helpers/listening-port.ts'
import { repeatWhile } from '../../helpers/repeat-while.ts'
import { service } from './service.ts'

const { call } = service
const controlPlane = service.processes['control-plane']!
const base = controlPlane.ready.http!
const authorization = basic(`api:${bootstrapKey}`)

t.test('replies say how they may be used, and nothing of what made them', async (t) => {
  const api = await call('GET', '/organizations')
  t.equal(api.headers.get('cache-control'), 'no-store')
  t.equal(api.headers.get('content-security-policy'), "default-src 'none';frame-ancestors 'none'")
  t.equal(api.headers.get('x-content-type-options'), 'nosniff')
  t.equal(api.headers.get('x-powered-by'), null)
  t.equal(api.headers.get('etag'), null)
  for (const [method, path, key] of [
    ['GET', '/organizations', 'wrong_key_0123456789'],
    ['GET', '/mailing_lists/999999999'],
    ['GET', '/nowhere'],
    ['PATCH', '/organizations'],
  ] as const) {
    const refused = await call(method, path, undefined, key === undefined ? {} : { key })
    t.equal(refused.headers.get('cache-control'), 'no-store', `${method} ${path}`)
  }
  const docs = await fetch(`${base}/docs/`)
  const policy = docs.headers.get('content-security-policy') ?? ''
  t.match(policy, /default-src 'none'/)
  t.notMatch(policy, /unsafe-eval|https?:|\*|script-src[^;]*unsafe-inline/)
})

t.test('large replies are compressed where the client accepts it', async (t) => {
  const encodingOf = async (path: string, accepted: string): Promise<string | null> => {
    const headers = { authorization, 'accept-encoding': accepted }
    return (await fetch(`${base}${path}`, { headers })).headers.get('content-encoding')
  }
  t.equal(await encodingOf('/openapi.json', 'gzip'), 'gzip')
  t.equal(await encodingOf('/openapi.json', 'br'), 'br')
  t.equal(await encodingOf('/openapi.json', 'identity'), null)
  t.equal(await encodingOf('/svc/api/v2/organizations', 'gzip'), null, 'a small one gains nothing')
})

const entries = (running: RunningProcess) =>
  running
    .log()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)

t.test('the log names routes and ids, never an address, a key or a body', async (t) => {
  const secrets = ['ann.secret@example.com', 'Secretname', bootstrapKey]
  const id = { 'x-request-id': 'log-test.1' }
  await call('POST', '/mailing_lists', { mailing_list: { name: 'Secretname' } }, { headers: id })
  await call('GET', '/mailing_lists/ann.secret@example.com?email=ann.secret%40example.com')
  await call('GET', '/nowhere/ann.secret%40example.com')
  await call('POST', '/mailing_lists', '{"name":"ann.secret@example.com"')
  await call('GET', '/mailing_lists', undefined, { key: 'ann.secret@example.com' })
  const idWithKey = { 'x-request-id': `job-${bootstrapKey}-17` }
  await call('GET', '/mailing_lists', undefined, { headers: idWithKey })
  const last = { 'x-request-id': 'log-test.2' }
  await call('GET', '/mailing_lists?email=ann.secret@example.com', undefined, { headers: last })
  await until(
    'the log of the last request',
    async () => entries(controlPlane),
    (all) => all.some((entry) => entry['request_id'] === 'log-test.2'),
  )
  t.match(
    entries(controlPlane).find((entry) => entry['request_id'] === 'log-test.1'),
    { method: 'POST', route: '/mailing_lists', status: 200, ms: Number },
  )
  for (const secret of secrets) {
    t.notOk(controlPlane.log().includes(secret), secret)
    t.notOk(controlPlane.log().includes(encodeURIComponent(secret)), `${secret}, encoded`)
  }
})

t.test('an unexpected error is 500 with the request’s id; the log has the rest, no record', async (t) => {
  const [info] = await service.db.listCollections({ name: 'mailing_lists' }).toArray()
  const { validator } = (info as unknown as { options: { validator: object } }).options
  await service.db.command({ collMod: 'mailing_lists', validator: { never: { $exists: true } } })
  const answer = await call(
    'POST',
    '/mailing_lists',
    { mailing_list: { name: 'bob.secret@example.com' } },
    { headers: { 'x-request-id': 'fault-1' } },
  )
  await service.db.command({ collMod: 'mailing_lists', validator })
  t.equal(answer.status, 500)
  t.match(answer.body, {
    success: false,
    data: null,
    error_code: 'internal_error',
    error_message: /fault-1/,
  })
  t.notMatch(answer.text, /Mongo|alidation|\.ts|node_modules/)
  const logged = await until(
    'the log of the fault',
    async () => entries(controlPlane).find((entry) => entry['level'] === 'error'),
    (entry) => entry !== undefined,
  )
  t.match(logged, { request_id: 'fault-1', err: { type: 'MongoServerError', code: 121, stack: /\.ts/ } })
  t.notOk(controlPlane.log().includes('bob.secret'))
})

t.test('bytes that are no HTTP request, or too long for one, are refused in the envelope', async (t) => {
  const cases: [string, RegExp, RegExp][] = [
    ['GET /svc HTTP/9.9\r\n\r\n', /^HTTP\/1\.1 400 /, /is not valid HTTP/],
    [`GET /${'x'.repeat(70_000)} HTTP/1.1\r\nHost: h\r\n\r\n`, /^HTTP\/1\.1 431 /, /64 KiB/],
    [`GET / HTTP/1.1\r\nHost: h\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`, /^HTTP\/1\.1 431 /, /64 KiB/],
    [
      'GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n',
      /^HTTP\/1\.1 400 /,
      /is not valid HTTP/,
    ],
    [
      'GET / HTTP/1.1\r\nHost: h\r\nhost: h\r\nConnection: close\r\n\r\n',
      /^HTTP\/1\.1 400 /,
      /2 Host headers/,
    ],
    [
      'GET / HTTP/1.0\r\nHost: h\r\nHost: i\r\nConnection: close\r\n\r\n',
      /^HTTP\/1\.1 400 /,
      /2 Host headers/,
    ],
    [
      'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      /^HTTP\/1\.1 400 /,
      /is not valid HTTP/,
    ],
  ]
  for (const [sent, status, message] of cases) {
    const reply = await conversation(base, sent)
    t.match(reply, status)
    const body = JSON.parse(/\{.*\}/.exec(reply)![0]) as object
    t.match(body, { success: false, data: null, error_code: 'invalid_request', error_message: message })
  }
  const emails = Array.from({ length: 100 }, (_, i) => `${'x'.repeat(200)}${i}%40example.com`).join(',')
  t.equal((await call('GET', `/mailing_lists/${emails}`)).status, 200, '100 long addresses fit')
})

t.test('a page of another site makes no browser post', async (t) => {
  const { id } = await service.post('/mailing_lists', { mailing_list: { name: 'Aimed at' } })
  const moved = await startBeside(t, { PUBLIC_URL: 'https://rollcall.example/api' })
  const send = async (headers: Record<string, string>, body?: string, to = base) => {
    const url = `${to}/svc/api/v2/mailing_lists/${id}/confirmation_forms`
    const sent = { method: 'POST', headers: { authorization, ...headers } }
    const response = await fetch(url, body === undefined ? sent : { ...sent, body })
    return response.status
  }
  const json = { 'content-type': 'application/json' }
  const foreign = { origin: 'https://elsewhere.example' }
  t.equal(await send(foreign), 403)
  t.equal(await send({ ...foreign, ...json }), 403, 'a type alone is no body')
  t.equal(await send({ ...foreign, 'content-type': 'text/plain' }, '{}'), 403, 'as HTML forms can')
  t.equal(await send({ ...foreign, 'content-type': 'text/plain;application/json' }, '{}'), 403)
  t.equal(await send({ origin: 'null' }), 403, 'a sandboxed frame')
  t.equal(await send({ 'sec-fetch-site': 'same-site', ...foreign }), 403, 'a neighbour under the same domain')
  t.equal(await send({ 'sec-fetch-site': 'cross-site', origin: base }), 403)
  t.equal(await send({ origin: 'https://rollcall.example' }), 403, 'no address of this one')
  t.equal(
    await send({ origin: 'https://rollcall.example' }, undefined, moved.ready.http),
    200,
    'behind a proxy',
  )
  t.equal(await send({ origin: base }), 200, 'its own page')
  t.equal(
    await send({ 'sec-fetch-site': 'same-origin', ...foreign }),
    200,
    'whatever a proxy made of the host',
  )
  t.equal(await send({ 'sec-fetch-site': 'none' }), 200)
  t.equal(await send({ 'sec-fetch-site': 'none', ...foreign }), 403, 'a page is never typed in by a user')
  t.equal(await send({}), 200, 'a program')
  t.equal(await send({ ...foreign, ...json }, '{}'), 200, 'a browser asked before it sent this')
})

t.test('requests of one key can be bounded', async (t) => {
  const bounded = await startBeside(t, { HTTP_REQUESTS_PER_MINUTE: '5' })
  const callBounded = callerOf(() => bounded.ready.http!)
  const statuses: number[] = []
  for (let i = 0; i < 6; i += 1) statuses.push((await callBounded('GET', '/organizations')).status)
  t.same(statuses, [200, 200, 200, 200, 200, 429])
  const refused = await callBounded('GET', '/organizations')
  t.match(refused.body, {
    success: false,
    error_code: 'not_authorized',
    error_message: /more than 5 requests/,
  })
  const wait = Number(refused.headers.get('retry-after'))
  t.ok(wait >= 1 && wait <= 60, `Retry-After is ${wait}`)
  const other = await service.post('/organizations/1/api_keys', { api_key: { name: 'Other' } })
  t.equal(
    (await callBounded('GET', '/api_keys', undefined, { key: other.key })).status,
    200,
    'another key of the organization has a bound of its own',
  )
  t.equal(
    (await callBounded('GET', '/organizations', undefined, { key: 'wrong_key_0123456789' })).status,
    401,
  )
  t.equal((await fetch(`${bounded.ready.http}/healthz`)).status, 200)
})

/** Sends a creation except for its last five bytes. The result sends those, and resolves to the reply. */
async function beginCreation(running: RunningProcess, name: string, length: number) {
  const body = JSON.stringify({ mailing_list: { name } }).padEnd(length)
  const request = httpRequest(`${running.ready.http}/svc/api/v2/mailing_lists`, {
    method: 'POST',
    headers: {
      authorization,
      expect: '100-continue',
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    },
  })
  const responded = once(request, 'response') as Promise<[IncomingMessage]>
  responded.catch(() => undefined)
  request.flushHeaders()
  await once(request, 'continue')
  request.write(body.slice(0, -5))
  return async (): Promise<IncomingMessage & { text: string }> => {
    request.end(body.slice(-5))
    const [response] = await responded
    let text = ''
    for await (const piece of response.setEncoding('utf8')) text += String(piece)
    return Object.assign(response, { text })
  }
}

/**
 * Begins creations, stops their process, and sends their ends when it has not listened for some time. Resolves to the
 * replies, none when a connection was cut, and the exit code. Repeated where that took longer than a stop lets them wait.
 */
const createDuringStop = (t: Test, names: string[], length: number, pauseMs: number) =>
  repeatWhile(
    async (attempt) => {
      const running = await startBeside(t)
      const creations = await Promise.all(
        names.map((name) => beginCreation(running, `${name} ${attempt}`, length)),
      )
      const stoppedAt = performance.now()
      const stopped = running.stop()
      await until('the end of listening', () => refusesConnections(running.ready.http!), Boolean)
      await sleep(pauseMs)
      const responses = await Promise.all(creations.map((finish) => finish())).catch(() => [])
      return { responses, tookMs: performance.now() - stoppedAt, exitCode: await stopped }
    },
    ({ tookMs }) => tookMs > httpLimits.waitingGraceMs - 100,
  )

t.test('a stop lets requests in progress end, and tells their clients to close', async (t) => {
  const { responses, exitCode } = await createDuringStop(t, ['Last'], 0, 0)
  t.equal(responses[0]?.headers.connection, 'close')
  t.match(JSON.parse(responses[0]!.text), { success: true, data: { name: /^Last/ } })
  t.equal(exitCode, 0)
})

t.test('a request that waits at a stop for others is still served', async (t) => {
  // Six large bodies of an organization are read at once, so one of the seven waits.
  const names = ['A', 'B', 'C', 'D', 'E', 'F', 'G']
  const { responses, exitCode } = await createDuringStop(t, names, 5_000, httpLimits.idleGraceMs + 100)
  t.same(
    responses.map(({ statusCode, text }) => [statusCode, JSON.parse(text).success]),
    names.map(() => [200, true]),
  )
  t.equal(exitCode, 0)
})

t.test('a client that sends slowly is cut off', async (t) => {
  const limits: Partial<HttpLimits> = {
    headersTimeoutMs: 300,
    requestTimeoutMs: 600,
    idleTimeoutMs: 1_000,
    checkIntervalMs: 50,
  }
  const port = await serve(t, limits, (request, response) => {
    request.resume().once('end', () => response.end('read'))
  })
  t.match(
    await conversation(`http://127.0.0.1:${port}`, 'GET / HTTP/1.1\r\nHost:'),
    /^HTTP\/1\.1 408 .*took too long/s,
  )
  const stalled = 'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc'
  t.match(await conversation(`http://127.0.0.1:${port}`, stalled), /^HTTP\/1\.1 408 /)
})

t.test('a client that waits for the service is not idle', async (t) => {
  const limits: Partial<HttpLimits> = { idleTimeoutMs: 300, checkIntervalMs: 50 }
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    // The body arrives whole, and the service reads it slowly, replies later, and sends the reply in two parts.
    for await (const _ of request) await sleep(700)
    await sleep(700)
    response.write('so ')
    await sleep(700)
    response.end('far')
  }
  const port = await serve(t, limits, (request, response) => void answer(request, response))
  const body = 'x'.repeat(200_000)
  // A client whose process stands still is idle.
  const reply = await repeatWhile(
    () =>
      fetch(`http://127.0.0.1:${port}`, { method: 'POST', body })
        .then((reply) => reply.text())
        .catch(String),
    (reply) => reply !== 'so far',
  )
  t.equal(reply, 'so far')
})

t.test('a file may take long, but not stand still', async (t) => {
  const limits: Partial<HttpLimits> = {
    headersTimeoutMs: 300,
    requestTimeoutMs: 400,
    idleTimeoutMs: 300,
    checkIntervalMs: 50,
  }
  const send = async (pauseMs: number, transferIdleTimeoutMs: number): Promise<string> => {
    const port = await serve(
      t,
      { ...limits, transferIdleTimeoutMs },
      (request, response) => {
        request
          .on('error', () => undefined)
          .resume()
          .once('end', () => response.end('read'))
      },
      { isTransfer: ({ method }) => method === 'PUT' },
    )
    const socket = await open(`http://127.0.0.1:${port}`)
    let text = ''
    socket.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    const closed = once(socket, 'close')
    socket.write('PUT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 4\r\n\r\n')
    for (const piece of ['a', 'b', 'c', 'd']) {
      await sleep(pauseMs)
      socket.write(piece)
    }
    await closed
    return text
  }
  // The headers of a client whose process stands still come too late.
  const moving = await repeatWhile(
    () => send(500, 30_000),
    (reply) => !reply.startsWith('HTTP/1.1 200 '),
  )
  t.match(moving, /^HTTP\/1\.1 200 /, 'two seconds, in which bytes move')
  const still = await repeatWhile(
    () => send(2_000, 1_000),
    (reply) => reply !== '',
  )
  t.equal(still, '', 'a second without a byte ends the connection')
})

t.test('a reply that its client doesn’t read ends', async (t) => {
  let closed: (() => void) | undefined
  const ended = new Promise<void>((resolve) => (closed = resolve))
  const port = await serve(t, { idleTimeoutMs: 500 }, (_request, response) => {
    response.once('close', () => closed!())
    const piece = Buffer.alloc(1024 * 1024)
    const write = (): void => {
      while (!response.destroyed && response.write(piece));
      if (!response.destroyed) response.once('drain', write)
    }
    write()
  })
  const socket = await open(`http://127.0.0.1:${port}`)
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  await ended
  socket.destroy()
  t.pass('its connection was closed')
})

t.test('requests that never end delay a stop no longer than allowed', async (t) => {
  const started: (() => void)[] = []
  const arrival = new Promise<void>((resolve) => started.push(resolve))
  const http = createHttpServer(() => started[0]!(), {
    limits: { ...httpLimits, graceMs: 200 },
  })
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  const socket = await open(`http://127.0.0.1:${(http.server.address() as AddressInfo).port}`)
  socket.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  await arrival
  const closed = once(socket, 'close')
  await Promise.all([http.stop(), http.stop()])
  await closed
  t.notOk(http.server.listening)
})

t.test('a connection that is in use brings one more request when the server stops', async (t) => {
  const http = createHttpServer((_request, response) => response.end('done'))
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  const { port } = http.server.address() as AddressInfo
  const [used, idle] = [await open(`http://127.0.0.1:${port}`), await open(`http://127.0.0.1:${port}`)]
  const ask = async (socket: Socket): Promise<string> => {
    socket.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}')
    return String((await once(socket, 'data'))[0])
  }
  for (const socket of [used, idle]) t.match(await ask(socket), /Connection: keep-alive/i)
  const stopped = http.stop()
  const closed = [used, idle].map((socket) => once(socket, 'close'))
  t.match(await ask(used), /Connection: close/i)
  await Promise.all([stopped, ...closed])
  await t.rejects(open(`http://127.0.0.1:${port}`), { code: 'ECONNREFUSED' })
})

t.test('half a request delays a stop for less time than a whole one may', async (t) => {
  const http = createHttpServer(() => t.fail('there is no request'), {
    limits: { ...httpLimits, headersGraceMs: 100, graceMs: 120_000 },
  })
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  const socket = await open(`http://127.0.0.1:${(http.server.address() as AddressInfo).port}`)
  socket.write('GET / HTTP/1.1\r\nHo')
  const closed = new Promise((resolve) => socket.once('close', resolve))
  await http.stop()
  await closed
  t.notOk(http.server.listening)
})

t.test(
  '400 silent connections keep out no client of another address, with 256 open files',
  { skip: process.platform === 'linux' ? false : 'only Linux has more than one loopback address' },
  async (t) => {
    const main = fileURLToPath(new URL('../../../control-plane/main.ts', import.meta.url))
    const few = await startProgram(
      ['-c', 'ulimit -n 256 && exec "$0" "$@"', process.execPath, main],
      service.settings,
      { program: '/bin/sh' },
    )
    t.teardown(() => few.stop())
    const url = few.ready!.http!
    const silent: Socket[] = []
    const slowestMs = await slowestHealth(url, async () => {
      while (silent.length < 400) silent.push(await open(url, '127.0.0.2'))
    })
    // Less than after which silent connections end by themselves.
    t.ok(slowestMs < httpLimits.headersTimeoutMs - 5_000, `/healthz took ${slowestMs} ms at most`)
    const metrics = await (await fetch(`${url}/metrics`)).text()
    t.match(metrics, /^rollcall_http_connections \d{1,2}$/m, 'few of them are kept')
    t.match(metrics, /^rollcall_http_connections_refused_total\{reason="address"\} 3\d\d$/m)
    t.match(few.log(), /only \d\d HTTP connections are allowed, .* limit of open files/)
    t.equal(few.log().match(/new HTTP connections are refused at a limit/g)?.length, 1, 'logged once')
    for (const socket of silent) socket.destroy()
  },
)

t.test('silent connections to the port for operators make way for requests', async (t) => {
  const operations = await serveOperations({
    ...{ host: '127.0.0.1', port: 0, registry: new Registry() },
    ...{ hostSetting: 'METRICS_HOST', portSetting: 'ENGINE_METRICS_PORT' },
    unreadyBecause: async () => null,
  })
  t.teardown(() => operations.stop())
  const silent: Socket[] = []
  while (silent.length < 200) silent.push(await open(operations.url))
  t.match(await conversation(operations.url, 'GET /readyz HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 .*ready/s)
  await until(
    'few that are kept',
    async () => silent.filter(({ closed }) => !closed).length,
    (count) => count < 64,
    10_000,
  )
  for (const socket of silent) socket.destroy()
})

t.test('a connection above a limit is closed, and those that are open go on', async (t) => {
  const registry = new Registry()
  const isProxy = (address: string) => address === '127.0.0.1'
  const replies: (() => void)[] = []
  const answer: RequestListener = (_request, response) => void replies.push(() => response.end('slow'))
  const request = 'GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'
  for (const [reason, limits] of [
    ['in_all', { inProcess: 3, perAddress: 2, isProxy }],
    ['address', { inProcess: 100, perAddress: 3 }],
  ] as const) {
    const url = `http://127.0.0.1:${await serve(t, {}, answer, { bounds: { limits, registry } })}`
    const slow = [1, 2, 3].map(() => conversation(url, request))
    await until(
      'three requests',
      async () => replies.length,
      (count) => count === 3,
    )
    t.equal(await conversation(url, request), '', reason)
    const metrics = await registry.metrics()
    t.match(metrics, /^rollcall_http_connections 3$/m)
    t.match(metrics, new RegExp(`refused_total\\{reason="${reason}"\\} 1$`, 'm'))
    for (const reply of replies.splice(0)) reply()
    t.match(await Promise.all(slow), [/slow$/, /slow$/, /slow$/], 'those that were served go on')
    const next = conversation(url, request)
    await until(
      'a further request',
      async () => replies.length,
      (count) => count === 1,
    )
    replies.pop()!()
    t.match(await next, /slow$/, 'those that have ended count no longer')
    registry.clear()
  }
})

t.test('a connection that says nothing is closed', async (t) => {
  const limits = { headersTimeoutMs: 300, checkIntervalMs: 50 }
  const port = await serve(t, limits, () => t.fail('there is no request'))
  t.match(await conversation(`http://127.0.0.1:${port}`, ''), /^HTTP\/1\.1 408 /)
})

/** The slowest health check in ms, over new connections, while something runs. */
async function slowestHealth(url: string, during: () => Promise<void>): Promise<number> {
  let isDone = false
  const done = during().finally(() => (isDone = true))
  let slowestMs = 0
  for (let asked = 0; !isDone || asked < 50; asked += 1) {
    const begunAt = performance.now()
    t.match(await conversation(url, 'GET /healthz HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 .*alive/s)
    slowestMs = Math.max(slowestMs, Math.round(performance.now() - begunAt))
  }
  await done
  return slowestMs
}

/** Another control plane on the same database. */
async function startBeside(t: Test, settings: Record<string, string> = {}): Promise<RunningProcess> {
  const running = await startProcess('control-plane', { ...service.settings, ...settings })
  t.teardown(() => running.stop())
  return running
}

async function serve(
  t: Test,
  limits: Partial<HttpLimits>,
  listener: RequestListener,
  {
    isTransfer = () => false,
    bounds,
  }: {
    isTransfer?: (request: IncomingMessage) => boolean
    bounds?: { limits: Omit<ConnectionLimits, 'isProxy'> & Partial<ConnectionLimits>; registry: Registry }
  } = {},
): Promise<number> {
  const http = createHttpServer(listener, { limits: { ...httpLimits, graceMs: 0, ...limits }, isTransfer })
  if (bounds !== undefined)
    boundConnections(
      http.server,
      { isProxy: () => false, ...bounds.limits },
      { log: createLogger({ process: 'test', level: 'silent' }), registry: bounds.registry },
    )
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  t.teardown(() => http.stop())
  return (http.server.address() as AddressInfo).port
}

async function open(url: string, localAddress?: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect({ port: Number(port), host: hostname, localAddress })
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

/** Sends bytes as they are, and resolves to what comes back until the other side closes. */
async function conversation(url: string, sent: string): Promise<string> {
  const socket = await open(url)
  let text = ''
  socket.on('data', (data) => (text += data.toString()))
  socket.write(sent)
  await once(socket, 'close')
  return text
}
