import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import type { CallbackBounds } from '../../engine/stages/callback/callback-bounds.ts'
import { downloadsSetting, type Downloads } from '../helpers/hasty-engine-setting.ts'
import { growthSince, untilEndedImports } from '../helpers/metric-value.ts'
import {
  callerOf,
  createList,
  startProcess,
  startProgram,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'

/** The requests that a receiver got, by path. */
interface Received {
  at: number
  headers: IncomingHttpHeaders
  body: string
}

type Respond = (response: ServerResponse, nth: number) => void

const received = new Map<string, Received[]>()
const responses = new Map<string, Respond>()
const receiver = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (piece: string) => (body += piece))
  request.on('end', () => {
    const path = request.url!
    const seen = [...(received.get(path) ?? []), { at: performance.now(), headers: request.headers, body }]
    received.set(path, seen)
    const respond = responses.get(path) ?? ((ok: ServerResponse) => ok.writeHead(204).end())
    respond(response, seen.length)
  })
})
await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
const { port } = receiver.address() as AddressInfo
t.teardown(() => {
  receiver.close()
  receiver.closeAllConnections()
})

const service = await startService(t, ['control-plane'])
const list = await createList(service)
const hasty = fileURLToPath(new URL('../helpers/hasty-engine.ts', import.meta.url))

/** An engine that retries sooner; `answers` are those of look-ups. */
async function startEngine(callbacks: Partial<CallbackBounds>, answers: Downloads['answers'] = {}) {
  const engine = await startProgram([hasty], {
    ...service.settings,
    [downloadsSetting]: JSON.stringify({ callbacks, answers } satisfies Downloads),
  })
  if (engine.ready === null) throw new Error(engine.log())
  t.teardown(() => engine.stop('SIGKILL'))
  return engine
}

const slowBounds = {
  connectMs: 30_000,
  attemptTimeoutMs: 60_000,
  leaseMs: 90_000,
} satisfies Partial<CallbackBounds>
const hastyBounds = {
  ...slowBounds,
  retryAfterMs: [100, 200, 300, 400, 500],
  maxInFlight: 6,
  maxInFlightOfHost: 2,
} satisfies Partial<CallbackBounds>
const here = [['127.0.0.1']]
const resolved = {
  'receiver.test': here,
  'evil.test': [['10.0.0.7']],
  ...Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [`${name}.test`, here])),
}
let engine = await startEngine(hastyBounds, resolved)

const create = async (callbackUrl: string, options: Record<string, unknown> = {}): Promise<Json> =>
  service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'email\nann@example.com\nno address\n' },
      callback_url: callbackUrl,
      ...options,
    },
  })

const at = (path: string): string => `http://127.0.0.1:${port}${path}`

const stored = (id: number) => service.collections.callbacks.findOne({ _id: id })

const callbackEnd = (id: number) =>
  until(
    `the end of the callback of import ${id}`,
    () => stored(id),
    (callback) => callback !== null && callback.state !== 'waiting',
  )

/** The data of a message, if it is what its secret signed. */
function verified({ body, headers }: Received, secret: string): Json {
  return (new Webhook(secret).verify(body, headers as Record<string, string>) as Json).data
}

t.test('the end of an import is told once, signed, with its full view', async (t) => {
  const finished = await create(at('/finished?token=t'), { dry_run: true })
  const failed = await create(at('/failed'), {
    file_source: { type: 'json', content: 'no address\n' },
    deactivate_subscribers_not_in_import: true,
  })
  const cancelled = await create(at('/cancelled'), { begins_at: '2100-01-01T00:00' })
  await service.post(`/subscriber_imports/${cancelled.id}/cancel`)
  for (const [created, path, state] of [
    [finished, '/finished?token=t', 'finished'],
    [failed, '/failed', 'failed'],
    [cancelled, '/cancelled', 'cancelled'],
  ] as const) {
    t.equal((await callbackEnd(created.id))!.state, 'delivered')
    const [message, ...others] = received.get(path)!
    t.same(others, [])
    t.match(message!.headers['content-type'], 'application/json')
    const { data, ...rest } = JSON.parse(message!.body)
    t.same(rest, { success: true, error_code: null, error_message: null })
    t.same(verified(message!, created.callback_secret), data)
    t.same(data, await service.get(`/subscriber_imports/${created.id}`), 'the view that a request gets')
    t.equal(data.state, state)
    t.throws(() => verified({ ...message!, body: `${message!.body} ` }, created.callback_secret))
    t.notMatch(message!.body, created.callback_secret)
  }
  t.notMatch(engine.log(), 'token=t', 'the log holds no part of the URL that may be a secret')
})

t.test('anything but 2xx is tried again, as the same message', async (t) => {
  const answers: [status: number, headers?: Record<string, string>][] = [
    [500],
    [302, { location: at('/elsewhere') }],
    [410],
    [200],
  ]
  responses.set('/again', (response, nth) =>
    response.writeHead(...answers[nth - 1]!).end('x'.repeat(200_000)),
  )
  const { id, callback_secret: secret } = await create(at('/again'))
  t.match(await callbackEnd(id), { state: 'delivered', failures: 3, problem: /410/ })
  const messages = received.get('/again')!
  t.equal(messages.length, 4)
  t.equal(new Set(messages.map(({ headers }) => headers['webhook-id'])).size, 1, 'one id')
  t.equal(new Set(messages.map(({ body }) => body)).size, 1, 'one body')
  for (const message of messages) verified(message, secret)
  t.notOk(received.has('/elsewhere'), 'redirects are not followed')
  for (const [i, wait] of hastyBounds.retryAfterMs.slice(0, 3).entries())
    t.ok(messages[i + 1]!.at - messages[i]!.at >= wait - 50, `wait ${i + 1}`)
})

t.test('after the last try it is given up', async (t) => {
  responses.set('/never', (response) => response.writeHead(503).end())
  const { id } = await create(at('/never'))
  t.match(await callbackEnd(id), { state: 'given_up', failures: 6, token: null })
  t.equal(received.get('/never')!.length, 6)
})

t.test('addresses are guarded, credentials are sent', async (t) => {
  const { id: evil } = await create('http://evil.test/')
  const { id } = await create(`http://user:p%40ss@receiver.test:${port}/credentials`)
  t.equal((await callbackEnd(id))!.state, 'delivered')
  t.match(await callbackEnd(evil), { state: 'given_up', problem: /evil\.test \(10\.0\.0\.7\) is no public/ })
  t.equal(
    received.get('/credentials')?.[0]?.headers.authorization,
    `Basic ${Buffer.from('user:p@ss').toString('base64')}`,
  )
  t.match(received.get('/credentials')?.[0]?.body, /user:\*\*\*@/)
})

t.test('attempts are counted by result, and imports by their end', async (t) => {
  const growth = await growthSince(engine.ready!.metrics['engine']!)
  responses.set('/counted-late', (response, nth) => response.writeHead(nth === 3 ? 200 : 500).end())
  responses.set('/counted-never', (response) => response.writeHead(503).end())
  const urls = ['/counted', '/counted-late', '/counted-never'].map(at)
  for (const url of [...urls, 'http://evil.test/']) await callbackEnd((await create(url)).id)
  const failed = { file_source: { type: 'json', content: 'no address\n' } }
  await callbackEnd(
    (await create(at('/counted'), { ...failed, deactivate_subscribers_not_in_import: true })).id,
  )
  const expected = {
    'rollcall_callback_attempts_total{result="delivered"}': 3,
    'rollcall_callback_attempts_total{result="failed"}': 2 + 6,
    'rollcall_callback_attempts_total{result="refused"}': 6,
    rollcall_callbacks_given_up_total: 2,
  }
  // The callback is queued a moment before its import is counted.
  await untilEndedImports(growth, 'json', { finished: 4, failed: 1 })
  for (const [series, count] of Object.entries(expected)) t.equal(await growth(series), count, series)
})

t.test(
  'private addresses that a URL spells out are refused, at its creation and when it is used',
  async (t) => {
    for (const host of [
      '10.1.2.3',
      '127.0.0.2',
      '2130706434',
      '[::1]',
      '[::ffff:10.0.0.1]',
      '169.254.169.254',
    ]) {
      const { body } = await service.call('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: {
          ...{ column_mapping: ['email'], file_source: { type: 'json', content: 'a@example.com' } },
          callback_url: `http://${host}/`,
        },
      })
      t.match(
        body,
        { error_code: 'validation_failed', error_message: /callback_url .* is no public address/ },
        host,
      )
    }
    // A control plane with other settings took them.
    const wide = await startProcess('control-plane', {
      ...service.settings,
      URL_IMPORT_ALLOW: '127.0.0.0/8,::1',
    })
    t.teardown(() => wide.stop())
    const calling = callerOf(() => wide.ready.http!)
    for (const host of ['127.0.0.2', '[::1]']) {
      const { body } = await calling('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: {
          ...{ column_mapping: ['email'], file_source: { type: 'json', content: 'a@example.com' } },
          callback_url: `http://${host}:${port}/literal`,
        },
      })
      t.match(await callbackEnd(body.data.id), { state: 'given_up', problem: /is no public address/ }, host)
    }
    t.notOk(received.has('/literal'))
  },
)

t.test('a receiver that hangs delays no other callbacks', async (t) => {
  let open = 0
  let maxOpen = 0
  const unanswered: ServerResponse[] = []
  responses.set('/hangs', (response) => {
    unanswered.push(response)
    maxOpen = Math.max(maxOpen, (open += 1))
    response.once('close', () => (open -= 1))
  })
  const cancelledAt = async (url: string): Promise<number> => {
    const { id } = await create(url, { begins_at: '2100-01-01T00:00' })
    await service.post(`/subscriber_imports/${id}/cancel`)
    return id
  }
  const hanging = await Promise.all(Array.from({ length: 8 }, () => cancelledAt(at('/hangs'))))
  await until(
    'two that hang',
    async () => open,
    (count) => count === 2,
  )
  const quick = await cancelledAt(`http://receiver.test:${port}/quick`)
  t.equal((await callbackEnd(quick))!.state, 'delivered')
  t.equal(maxOpen, 2, 'at most 2 at once to one host')
  responses.set('/hangs', (response) => response.end())
  for (const response of unanswered) response.end()
  for (const id of hanging) t.equal((await callbackEnd(id))!.state, 'delivered')
  t.equal(received.get('/hangs')!.length, 8, 'each was sent once')
})

t.test('two organizations whose receivers hang leave a slot to a third one', async (t) => {
  const unanswered: ServerResponse[] = []
  responses.set('/waits', (response) => unanswered.push(response))
  const cancelledOn = async (listId: number, url: string): Promise<number> => {
    const { id } = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_source: { type: 'json', content: 'a@example.com\n' },
        begins_at: '2100-01-01T00:00',
        callback_url: url,
      },
    })
    await service.post(`/subscriber_imports/${id}/cancel`)
    return id
  }
  const listOfAnother = async (name: string): Promise<number> => {
    const { id } = await service.post('/organizations', { organization: { name } })
    return (await createList(service, [], { organization_id: id })).id
  }
  const hosts = ['a', 'b', 'c', 'd'].map((name) => `http://${name}.test:${port}/waits`)
  const waiting: number[] = []
  for (const listId of [list.id, await listOfAnother('With receivers that hang')])
    for (const url of [...hosts, ...hosts]) waiting.push(await cancelledOn(listId, url))
  await until(
    'three of one organization, two of the other',
    async () => unanswered.length,
    (count) => count >= 5,
  )
  const quick = await cancelledOn(await listOfAnother('Beside'), `http://receiver.test:${port}/beside`)
  t.equal((await callbackEnd(quick))!.state, 'delivered')
  t.equal(unanswered.length, 5, 'one of six slots was left')
  responses.set('/waits', (response) => response.end())
  for (const response of unanswered) response.end()
  for (const id of waiting) t.equal((await callbackEnd(id))!.state, 'delivered')
})

t.test('a slot goes to the organization that has the fewest, though others wait longer', async (t) => {
  await engine.stop()
  engine = await startEngine({ ...hastyBounds, retryAfterMs: [600_000] }, resolved)
  const unanswered: ServerResponse[] = []
  for (const path of ['/first', '/second']) responses.set(path, (response) => response.writeHead(500).end())
  const { id: organization_id } = await service.post('/organizations', { organization: { name: 'Second' } })
  const lists = [list.id, (await createList(service, [], { organization_id })).id as number]
  const waiting: number[] = []
  for (const [i, path] of ['/first', '/second'].entries())
    for (const host of ['a', 'b', 'c', 'd']) {
      const { id } = await service.post(`/mailing_lists/${lists[i]}/subscriber_imports`, {
        subscriber_import: {
          ...{ column_mapping: ['email'], file_source: { type: 'json', content: 'a@example.com\n' } },
          ...{ begins_at: '2100-01-01T00:00', callback_url: `http://${host}.test:${port}${path}` },
        },
      })
      await service.post(`/subscriber_imports/${id}/cancel`)
      waiting.push(id)
    }
  const { callbacks } = service.collections
  await until(
    'a failed try of each',
    () => callbacks.countDocuments({ _id: { $in: waiting }, failures: 1 }),
    (count) => count === waiting.length,
  )
  await engine.stop()
  for (const [i, id] of waiting.entries())
    await callbacks.updateOne({ _id: id }, { $set: { due_at: new Date(Date.now() - 60_000 + i) } })
  for (const path of ['/first', '/second']) responses.set(path, (response) => unanswered.push(response))
  engine = await startEngine(hastyBounds, resolved)
  const claimed = (organizationId: number) =>
    callbacks.countDocuments({ _id: { $in: waiting }, organization_id: organizationId, token: { $ne: null } })
  await until(
    'two of the second one',
    () => claimed(organization_id),
    (count) => count === 2,
  )
  t.equal(await claimed(1), 2, 'six slots: with two more another organization would have none')
  for (const path of ['/first', '/second']) responses.set(path, (response) => response.end())
  for (const response of unanswered) response.end()
  for (const id of waiting) t.equal((await callbackEnd(id))!.state, 'delivered')
})

/** An engine of the tests below doesn't retry before it is killed. */
const longerWait = { ...slowBounds, retryAfterMs: [60_000] } satisfies Partial<CallbackBounds>

t.test('an engine that stops gives back what it was sending', async (t) => {
  responses.set('/stops', (response, nth) => {
    if (nth > 1) response.end()
  })
  const { id } = await create(at('/stops'))
  await until(
    'the first try',
    async () => received.get('/stops')?.length,
    (length) => length === 1,
  )
  engine.child.kill()
  t.equal(await engine.ended, 0)
  t.match(await stored(id), { state: 'waiting', token: null, failures: 0 })
  engine = await startEngine(longerWait, resolved)
  t.match(await callbackEnd(id), { state: 'delivered', failures: 0 })
})

t.test('an engine that is killed between tries, or within one, loses none', async (t) => {
  responses.set('/killed', (response, nth) => {
    // The second one is never answered: its engine is killed meanwhile.
    if (nth === 1) response.writeHead(500).end()
    if (nth > 2) response.end()
  })
  const { id, callback_secret: secret } = await create(at('/killed'))
  const restart = async (waitMs: number) => {
    engine.child.kill('SIGKILL')
    await engine.ended
    // Leases and waits are longer than the test has time for.
    await service.collections.engines.updateMany({}, { $set: { lease_until: new Date() } })
    await service.collections.callbacks.updateOne(
      { _id: id },
      { $set: { due_at: new Date(Date.now() + waitMs) } },
    )
    engine = await startEngine(longerWait, resolved)
  }
  await until(
    'a failed try',
    () => stored(id),
    (callback) => callback?.failures === 1,
  )
  await restart(4_000)
  await until(
    'the second try',
    async () => received.get('/killed')!.length,
    (length) => length === 2,
  )
  await restart(0)
  t.match(await callbackEnd(id), { state: 'delivered', failures: 1 })
  const messages = received.get('/killed')!
  t.equal(messages.length, 3)
  t.ok(messages[1]!.at - messages[0]!.at >= 4_000, 'the stored wait was kept')
  t.equal(new Set(messages.map(({ headers }) => headers['webhook-id'])).size, 1)
  for (const message of messages) verified(message, secret)
})
