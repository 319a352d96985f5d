import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import express from 'express'
import t, { type Test } from 'tap'
import { writePieces } from '../../control-plane/api/pieces.ts'
import { acquireLargeReply, Slots } from '../../control-plane/api/slots.ts'
import { minGrowth } from '../helpers/memory-growth.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { basic, createList, startService, until, type Json } from '../helpers/service.ts'

/**
 * A control plane with little memory survives what one organization sends or doesn't read, and answers others soon.
 */

const service = await startService(t, ['control-plane'], { NODE_OPTIONS: '--max-old-space-size=192' })
const { call, post, processes } = service
const control = processes['control-plane']!
const http = control.ready.http!
const list = await createList(service)
const attacker = await post('/organizations', { organization: { name: 'Attacker' } })
const { key } = await post(`/organizations/${attacker.id}/api_keys`, {
  api_key: { name: 'Attacker', role: 'organization_admin' },
})
const authorization = basic(`api:${key}`)

/** Sends small requests of another organization, and a probe, until the attack has ended. */
async function othersBeside(t: Test, attack: Promise<unknown>): Promise<void> {
  let isOver = false
  const end = () => (isOver = true)
  // The caller awaits the attack, and gets its error.
  void attack.then(end, end)
  do {
    t.equal((await fetch(`${http}/healthz`)).status, 200)
    t.equal((await call('GET', `/mailing_lists/${list.id}`)).status, 200)
    const email = `user${Math.random()}@example.com`
    const created = await call('POST', `/mailing_lists/${list.id}/subscribers`, { subscriber: { email } })
    t.equal(created.body.success, true, created.text)
  } while (!isOver)
  t.equal(control.child.exitCode, null, 'the process lives')
}

/** Sends a body to an endpoint; resolves to the status and whether it is said when to come again. */
async function send(path: string, body: Uint8Array, headers: Record<string, string> = {}) {
  const sent = request(`${http}/svc/api/v2${path}`, {
    method: 'POST',
    agent: false,
    headers: { authorization, 'content-type': 'application/json', ...headers },
  })
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return {
    status: response.statusCode!,
    retryAfter: response.headers['retry-after'],
    body: (await json(response)) as Json,
  }
}

const arrays = (bytes: number): string => `[${'[],'.repeat(bytes / 3 - 2)}[]]`

t.test('60 requests of 1 kB that unpack to a megabyte of arrays leave the service alive', async (t) => {
  // Each parsed array costs 40 bytes, and the body has as many values as allowed.
  const bodies = [
    gzipSync(arrays(1_048_000)),
    gzipSync(`{"event_ids":${arrays(70_000)},"a":"${'x'.repeat(970_000)}"}`),
  ]
  const paths = [`/mailing_lists/${list.id}/subscribers`, '/delivery_events', '/users', '/users/authenticate']
  const sending = Promise.all(
    Array.from({ length: 60 }, (_, i) =>
      send(paths[i % 4]!, bodies[(i >> 2) % 2]!, { 'content-encoding': 'gzip' }),
    ),
  )
  await othersBeside(t, sending)
  const messages = new Set<string>()
  for (const { status, retryAfter, body } of await sending)
    if (status === 200) messages.add(body.error_message)
    else t.ok([429, 503].includes(status) && retryAfter !== undefined, `status ${status}`)
  t.ok(messages.has('the body holds more than 50000 values'), [...messages].join('\n'))
})

t.test('150 replies of 8 MB whose clients read nothing', async (t) => {
  const ofAttacker = await call('POST', '/mailing_lists', { mailing_list: { name: 'Attacker' } }, { key })
  const path = `/mailing_lists/${ofAttacker.body.data.id}/templates`
  const campaign = { name: 'Large', contents: [{ name: 'A', subject: 'A', format: 'text', text: 'a' }] }
  const { id } = (await call('POST', path, { campaign }, { key })).body.data
  // Eight changes through the API would make it as large.
  await service.collections.campaignTemplates.updateOne(
    { _id: id },
    { $set: { 'contents.0.text': 'x'.repeat(7_450_000) } },
  )
  const { hostname, port } = new URL(http)
  const head = `Host: h\r\nAuthorization: ${authorization}\r\n\r\n`
  const sockets = await Promise.all(
    Array.from({ length: 150 }, async () => {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => undefined)
      await once(socket, 'connect')
      return socket.pause()
    }),
  )
  for (const socket of sockets) socket.write(`GET /svc/api/v2/templates/${id} HTTP/1.1\r\n${head}`)
  await othersBeside(t, sleep(1_000))
  // As they leave, the waiting ones begin one after the other, before their own end is noticed.
  for (const socket of sockets) socket.destroy()
  // The control plane may receive the next request before it notices that those connections ended, and refuse it.
  const { status, text } = await until(
    'a reply after theirs',
    () => call('GET', `/templates/${id}`, undefined, { key }),
    ({ status }) => status !== 429,
    15_000,
  )
  t.equal(status, 200, 'their reservations have ended with them')
  t.ok(text.length > 7_450_000)
})

t.test('an organization with one costly request waits for a few of the thirty of another one', async (t) => {
  let id = 0
  const events = (): Buffer =>
    Buffer.from(
      JSON.stringify({
        delivery_events: Array.from({ length: 1_000 }, () => ({
          id: `event ${(id += 1)}`,
          type: 'delivered',
          occurred_at: '2026-01-31T08:00:00Z',
          message_id: String(id),
          autoresponder_id: null,
          subscriber_id: null,
        })),
      }),
    )
  const meanwhile = await repeatWhile(
    async () => {
      let answered = 0
      const all = Array.from({ length: 30 }, async () => {
        const { body } = await send('/delivery_events', events())
        answered += 1
        return body.data?.accepted
      })
      await Promise.race(all)
      const before = answered
      const other = await call('POST', '/delivery_events', events())
      const meanwhile = answered - before
      t.match(other.body, { success: true, data: { accepted: 1_000 } })
      t.same(await Promise.all(all), Array<number>(30).fill(1_000))
      return meanwhile
    },
    (meanwhile) => meanwhile > 12,
    service,
  )
  t.comment(`${meanwhile} of the others were answered meanwhile`)
  t.ok(meanwhile <= 12, `${meanwhile} of the others were answered meanwhile`)
})

t.test('a large reply that is not read in time is cut, and the next one is sent', async (t) => {
  const slots = new Slots({ atOnce: 1, ofOrganization: 1, maxWaiting: 10 }, new AbortController().signal)
  let cut = 0
  const app = express().get('/', async (_request, response) => {
    await acquireLargeReply(slots, response, { organizationId: 1 }, 200)
    response.once('close', () => (cut += 1))
    await writePieces(
      response,
      Array.from({ length: 500 }, () => Buffer.alloc(64 * 1024)),
    )
  })
  const server = app.listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sockets = [0, 1].map(() => connect(port, '127.0.0.1').pause())
  const closed = sockets.map((socket) =>
    once(
      socket.on('error', () => undefined),
      'close',
    ),
  )
  for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  await until(
    'one reply after the other is cut',
    () => Promise.resolve(cut),
    (count) => count === 2,
  )
  for (const socket of sockets) socket.resume()
  await Promise.all(closed)
  t.ok(sockets.every(({ bytesRead }) => bytesRead < 500 * 64 * 1024))
})

/** Sends a body of blanks, each of which is a chunk of its own; resolves when the reply has begun. */
async function sendBlanks(method: string, path: string, chunks: number): Promise<string> {
  const { hostname, port } = new URL(http)
  const socket = connect(Number(port), hostname)
  const reply = once(socket, 'data') as Promise<[Buffer]>
  const headers = `Host: h\r\nAuthorization: ${authorization}\r\nContent-Type: application/json`
  socket.write(`${method} /svc/api/v2${path} HTTP/1.1\r\n${headers}\r\nTransfer-Encoding: chunked\r\n\r\n`)
  const packet = '1\r\n \r\n'.repeat(1_000)
  for (let i = 0; i < chunks; i += 1_000) {
    if (!socket.write(packet)) await once(socket, 'drain')
    await sleep(2)
  }
  socket.write('0\r\n\r\n')
  const [answer] = await reply
  socket.destroy()
  return answer.toString()
}

t.test('bodies that come byte by byte take no more memory than others', async (t) => {
  const attack = async () => {
    const sending = Promise.all([
      sendBlanks('POST', `/mailing_lists/${list.id}/subscribers`, 450_000),
      sendBlanks('POST', '/users', 450_000),
      sendBlanks('PUT', '/uploads/blanks.csv', 450_000),
    ])
    await othersBeside(t, sending)
    const [first, second, upload] = await sending
    for (const answer of [first, second]) t.match(answer, /invalid_request/)
    t.match(upload, /"size":450000/)
  }
  const growth = await minGrowth(control.child.pid, 80, attack)
  t.ok(growth < 80, `the process grew by ${growth} MB`)
})
