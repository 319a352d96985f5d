import { spawn } from 'node:child_process'
import { MongoClient } from 'mongodb'
import pino from 'pino'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { Agent, EventSource } from 'undici'
import {
  ImportWatch,
  watchBounds,
  type WatchBounds,
} from '../../../control-plane/resources/subscriber-imports/follow/import-watch.ts'
import { openCollections } from '../../../shared/contract/schemas/collections.ts'
import { findNamedImport } from '../../../shared/processes/import-views.ts'
import { noKeys } from '../../helpers/no-keys.ts'
import { missing } from '../../helpers/missing-programs.ts'
import { basic, bootstrapKey, createList, startProcess, until, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

const list = await createList(service)
const origin = service.processes['control-plane']!.ready.http!

/** One that doesn't begin by itself. */
const createImport = (): Promise<Json> =>
  service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      begins_at: '2100-01-01T00:00',
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'email\nann@example.com\n' },
    },
  })

interface Stream {
  response: Response
  text: () => string
  views: () => Json[]
  /** Resolves when the server has ended it; rejects when it broke off. */
  ended: Promise<void>
  leave: () => void
}

async function follow(
  id: number,
  options: { key?: string; headers?: Record<string, string>; base?: string } = {},
): Promise<Stream> {
  const left = new AbortController()
  const response = await fetch(`${options.base ?? origin}/svc/api/v2/subscriber_imports/${id}/events`, {
    headers: { authorization: basic(`api:${options.key ?? bootstrapKey}`), ...options.headers },
    signal: left.signal,
  })
  let text = ''
  const ended = (async () => {
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) text += piece
  })()
  ended.catch(() => undefined)
  const views = () => [...text.matchAll(/^data: (.*)\n\n/gm)].map((match) => JSON.parse(match[1]!))
  return { response, text: () => text, views, ended, leave: () => left.abort() }
}

const states = (views: Json[]): string[] => views.map((view) => view.state)
const untilState = (stream: Stream, state: string): Promise<unknown> =>
  until(
    `an event with the state ${state}`,
    async () => states(stream.views()),
    (seen) => seen.at(-1) === state,
  )

t.test('an import is followed from its view at once to its last state', async (t) => {
  const { id } = await createImport()
  const stream = await follow(id)
  t.match(stream.response.headers.get('content-type'), /^text\/event-stream/)
  t.equal(stream.response.headers.get('content-encoding'), null)
  t.equal(stream.response.headers.get('cache-control'), 'no-store')
  await untilState(stream, 'scheduled')
  t.same(stream.views()[0], await service.get(`/subscriber_imports/${id}`), 'the whole view')
  t.match(stream.text(), /^retry: \d+\nid: \S+\nevent: import\ndata: \{/)
  await service.post(`/subscriber_imports/${id}/pause`)
  await untilState(stream, 'paused')
  await service.post(`/subscriber_imports/${id}/cancel`)
  await stream.ended
  t.same(states(stream.views()), ['scheduled', 'paused', 'cancelled'])
  t.same(stream.views().at(-1), await service.get(`/subscriber_imports/${id}`))

  const again = await follow(id)
  await again.ended
  t.same(states(again.views()), ['cancelled'], 'one that has ended is shown, and that was all')
  const lastEventId = /^id: (\S+)/m.exec(again.text())![1]!
  const headers = { 'last-event-id': lastEventId }
  t.equal((await follow(id, { headers })).response.status, 204, 'a client with that event doesn’t reconnect')
  const changed = await follow(id, { headers: { 'last-event-id': 'another' } })
  await changed.ended
  t.same(states(changed.views()), ['cancelled'])
  const head = await fetch(`${origin}/svc/api/v2/subscriber_imports/${id}/events`, {
    method: 'HEAD',
    headers: { authorization: basic(`api:${bootstrapKey}`) },
  })
  t.equal(head.status, 200)
})

t.test('an EventSource follows one that runs, and is done when it is', async (t) => {
  const { id } = await createImport()
  const agent = new Agent().compose((dispatch) => (options, handler) => {
    const authorization = basic(`api:${bootstrapKey}`)
    return dispatch({ ...options, headers: { ...(options.headers as object), authorization } }, handler)
  })
  t.teardown(() => agent.destroy())
  const source = new EventSource(`${origin}/svc/api/v2/subscriber_imports/${id}/events`, {
    node: { dispatcher: agent },
  })
  t.teardown(() => source.close())
  const seen: Json[] = []
  source.addEventListener('import', (event) =>
    seen.push(JSON.parse((event as unknown as { data: string }).data)),
  )
  await until(
    'the first event',
    async () => seen.length,
    (length) => length === 1,
  )
  await service.collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date() } })
  await until(
    'the end',
    async () => source.readyState,
    (state) => state === source.CLOSED,
  )
  t.equal(seen.at(-1).state, 'finished')
  t.equal(seen.at(-1).stats.subscribers.added, 1)
  t.equal(states(seen).filter((state) => state === 'finished').length, 1, 'the last state comes once')
})

t.test('curl shows the events as they come', { skip: missing('curl') }, async (t) => {
  const { id } = await createImport()
  const url = `${origin}/svc/api/v2/subscriber_imports/${id}/events`
  const curl = spawn('curl', ['-sN', '--compressed', '-u', `api:${bootstrapKey}`, url])
  let text = ''
  curl.stdout.setEncoding('utf8').on('data', (piece: string) => (text += piece))
  const ended = new Promise<number | null>((resolve) => curl.once('close', resolve))
  await until(
    'the first event',
    async () => text,
    (seen) => seen.includes('"scheduled"'),
  )
  await service.post(`/subscriber_imports/${id}/cancel`)
  t.equal(await ended, 0)
  t.match(text, /"cancelled"/)
})

t.test('a client that loses its permission for the import gets no further events', async (t) => {
  const { id } = await createImport()
  const key = await service.post('/api_keys', {
    api_key: { name: 'to be withdrawn', role: 'organization_admin' },
  })
  const user = await service.post('/users', {
    user: {
      email: 'events@example.com',
      full_name: 'Events',
      active: true,
      role: 'standard',
      password1: 'a password',
      password2: 'a password',
      permissions: { subscriber: ['read'] },
    },
  })
  const ofUser = await service.post('/api_keys', { api_key: { name: 'of a user', user_id: user.id } })
  const streams = await Promise.all(
    [bootstrapKey, key.key, ofUser.key].map((each: string) => follow(id, { key: each })),
  )
  for (const stream of streams) await untilState(stream, 'scheduled')
  await service.call('PUT', `/api_keys/${key.id}`, { api_key: { active: false } })
  await service.call('PUT', `/users/${user.id}`, { user: { permissions: { subscriber: [] } } })
  await Promise.all(streams.slice(1).map((stream) => stream.ended))
  await service.post(`/subscriber_imports/${id}/cancel`)
  await streams[0]!.ended
  t.same(
    streams.map((stream) => states(stream.views())),
    [['scheduled', 'cancelled'], ['scheduled'], ['scheduled']],
  )
  t.equal((await follow(id, { key: key.key })).response.status, 401)
  t.equal((await follow(id, { key: ofUser.key })).response.status, 403)
})

const metricsText = async (): Promise<string> => (await fetch(`${origin}/metrics`)).text()

const openStreams = async (): Promise<number> =>
  Number(/^rollcall_event_streams (\d+)$/m.exec(await metricsText())![1])

t.test('clients that go are forgotten', async (t) => {
  const { id } = await createImport()
  const streams = await Promise.all(Array.from({ length: 20 }, () => follow(id)))
  await until('all of them', openStreams, (open) => open === 20)
  for (const stream of streams) stream.leave()
  await until('none of them', openStreams, (open) => open === 0)
  t.pass()
})

t.test('a stream is measured to its first byte, and is no request that breaks off', async (t) => {
  await fetch(`${origin}/readyz`)
  await fetch(`${origin}/nowhere`)
  const countsIn = (text: string) =>
    [
      ...text.matchAll(
        /^rollcall_http_request_duration_seconds_count\{.*\/events".*status="(\d+)".* (\d+)$/gm,
      ),
    ].map(([, status, count]) => ({ status, count: Number(count) }))
  const sumIn = (text: string) => countsIn(text).reduce((sum, { count }) => sum + count, 0)
  const before = sumIn(await metricsText())
  const { id } = await createImport()
  const stream = await follow(id)
  await untilState(stream, 'scheduled')
  const open = await until('an empty hand', metricsText, (text) =>
    text.includes('\nrollcall_http_requests_in_flight 0\n'),
  )
  t.equal(sumIn(open), before + 1, 'while it is open')
  stream.leave()
  await until('its end', openStreams, (count) => count === 0)
  const closed = await metricsText()
  t.equal(sumIn(closed), before + 1, 'and once only')
  t.notOk(countsIn(closed).some(({ status }) => status === '499'))
  const statuses = closed.match(
    /(?<=^rollcall_http_request_duration_seconds_count\{.*route="none",status=")\d+/gm,
  )
  t.ok(statuses!.includes('404'), 'what leads nowhere is there')
  t.notOk(statuses!.includes('200'), 'scrapes and probes are not')
})

t.test('a control plane that stops ends the streams, and they can be had from another one', async (t) => {
  const { id } = await createImport()
  const beside = await startProcess('control-plane', service.settings)
  t.teardown(() => beside.stop())
  const stream = await follow(id, { base: beside.ready.http! })
  await untilState(stream, 'scheduled')
  const exit = beside.stop()
  await stream.ended
  t.equal(await exit, 0)
  const other = await follow(id)
  await untilState(other, 'scheduled')
  other.leave()
})

/** A watch in this process, with bounds of the test, and its streams. */
async function watchHere(t: Test, bounds: Partial<WatchBounds>) {
  const client = await MongoClient.connect(service.settings['MONGODB_URI']!, { monitorCommands: true })
  const stop = new AbortController()
  t.teardown(async () => {
    stop.abort()
    await client.close()
  })
  const watch = new ImportWatch({
    collections: openCollections(client.db(service.db.databaseName)),
    secrets: noKeys,
    log: pino({ level: 'silent' }),
    registry: new Registry(),
    stopping: stop.signal,
    bounds: { ...watchBounds, ...bounds },
  })
  const caller = {
    ...{ keyId: 1, organizationId: 1, role: 'system_admin' as const, permissions: {} },
    ...{ uploadsFolder: null, keyName: 'First key', userId: null, userName: null },
  }
  const open = async (id: number) => {
    const events = watch.events(
      await watch.snapshot((await findNamedImport(service.collections, id))!),
      caller,
      () => undefined,
    )
    t.teardown(() => {
      stop.abort()
      return events.return()
    })
    const next = async () => String((await events.next()).value)
    return {
      events,
      next,
      warnings: async () => JSON.parse(/^data: (.*)$/m.exec(await next())![1]!).warnings,
    }
  }
  return { client, open }
}

const warn = (id: number, text: string) =>
  service.collections.imports.updateOne({ _id: id }, { $set: { warnings: [text] } })

t.test('many clients that follow one import cost one poll at a time', async (t) => {
  const { id } = await createImport()
  const { client, open } = await watchHere(t, { everyMs: 100 })
  const streams = await Promise.all(Array.from({ length: 100 }, () => open(id)))
  for (const { next } of streams) await next()
  let commands = 0
  const startedAt = performance.now()
  client.on('commandStarted', () => (commands += 1))
  for (let i = 0; i < 5; i += 1) {
    await warn(id, `warning ${i}`)
    const seen = await Promise.all(streams.map(({ warnings }) => warnings()))
    t.ok(seen.every((warnings) => warnings[0] === `warning ${i}`))
  }
  const polls = (performance.now() - startedAt) / 100 + 1
  t.ok(commands <= polls * 8, `${commands} commands in at most ${polls.toFixed(1)} polls`)
})

t.test('a slow reader gets the latest view, and no reader more than one in an interval', async (t) => {
  const { id } = await createImport()
  const { open } = await watchHere(t, { everyMs: 150 })
  const [slow, quick] = [await open(id), await open(id)]
  await Promise.all([slow.next(), quick.next()])
  let before = performance.now()
  for (let i = 0; i < 4; i += 1) {
    await warn(id, `warning ${i}`)
    t.same(await quick.warnings(), [`warning ${i}`])
    const now = performance.now()
    t.ok(now - before >= 149, `${now - before} ms`)
    before = now
  }
  t.same(await slow.warnings(), ['warning 3'])
})

t.test('a stream on which nothing happens carries comments', async (t) => {
  const { id } = await createImport()
  const { open } = await watchHere(t, { commentMs: 50 })
  const { next } = await open(id)
  t.match(await next(), /^retry/)
  t.match(await next(), /^:.*\n\n$/)
  t.match(await next(), /^:.*\n\n$/)
  await warn(id, 'news')
  let piece = await next()
  while (piece.startsWith(':')) piece = await next()
  t.match(piece, /^id: \S+\nevent: import\ndata: .*news/)
})
