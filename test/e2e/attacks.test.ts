import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { ProberInput, ProberReport } from '../campaigns/attacks/prober.ts'
import { autoresponder } from '../helpers/autoresponder.ts'
import { basic, callerOf, startService, until, type Json } from '../helpers/service.ts'
import { standardUser } from '../helpers/standard-user.ts'

/**
 * One organization sends what could stop or starve the others, each attack for a while. The requests of another
 * organization may take at most three times as long as without it, at the 99th percentile.
 */

t.setTimeout(1_800_000)
/** The duration of each attack, and of the measurement before it. */
const phaseMs = Number(process.env['ROLLCALL_SECONDS'] ?? 2) * 1_000
/** Below this a ratio says nothing: test files run side by side, and three times 10 ms is soon there. */
const floorMs = Number(process.env['ROLLCALL_FLOOR_MS'] ?? 10_000)
const dryRuns = Number(process.env['ROLLCALL_DRY_RUNS'] ?? 200)

/** Part of an attack's name; the other attacks are skipped. */
const wanted = process.env['ROLLCALL_ATTACK']

const service = await startService(t, ['control-plane', 'engine'], {
  UPLOAD_MAX_MB: '100',
  IMPORTS_MAX_UNFINISHED: '10000',
})
const { collections } = service
const http = service.processes['control-plane']!.ready.http!
const attacker = await createOrganization('Attacker')
const beside = await createOrganization('Beside')
const prober = new Worker(new URL('../campaigns/attacks/prober.ts', import.meta.url), {
  workerData: {
    http,
    authorization: basic(`api:${beside.key}`),
    listId: beside.listId,
    pauseMs: 20,
  } satisfies ProberInput,
})
let proberError: Error | undefined
prober.on('error', (error) => (proberError = error as Error))
t.teardown(() => prober.terminate())

interface Organization {
  id: number
  key: string
  listId: number
}

async function createOrganization(name: string): Promise<Organization> {
  const { id } = await service.post('/organizations', { organization: { name } })
  const { key } = await service.post(`/organizations/${id}/api_keys`, {
    api_key: { name, role: 'organization_admin' },
  })
  const list = await service.post('/mailing_lists', { mailing_list: { name, organization_id: id } })
  return { id, key, listId: list.id }
}

/**
 * Sends a request on a connection of its own, or on the agent's. Resolves to the status, or null when the connection
 * was cut.
 */
function send(
  method: string,
  path: string,
  body?: string | Uint8Array,
  options: { agent?: Agent; headers?: Record<string, string>; key?: string } = {},
): Promise<number | null> {
  return new Promise((resolve) => {
    const sent = request(`${http}/svc/api/v2${path}`, {
      method,
      agent: options.agent ?? new Agent(),
      headers: {
        authorization: basic(`api:${options.key ?? attacker.key}`),
        'content-type': 'application/json',
        ...options.headers,
      },
    })
    sent.on('error', () => resolve(null))
    sent.on('response', (response) =>
      response
        .resume()
        .on('error', () => resolve(null))
        .on('close', () => resolve(response.statusCode!)),
    )
    sent.end(body)
  })
}

/** Lets `clients` repeat a request until the signal. Resolves to how often each status came. */
async function repeat(
  clients: number,
  stop: AbortSignal,
  one: (client: number) => Promise<number | null>,
): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {}
  const repeatOne = async (client: number): Promise<void> => {
    while (!stop.aborted) {
      const status = String(await one(client))
      statuses[status] = (statuses[status] ?? 0) + 1
      // A client that is refused waits, if only for a moment.
      if (status !== '200') await sleep(20)
    }
  }
  await Promise.all(Array.from({ length: clients }, (_, client) => repeatOne(client)))
  return statuses
}

async function report(): Promise<ProberReport> {
  if (proberError !== undefined) throw proberError
  const answered = once(prober, 'message') as Promise<[ProberReport]>
  prober.postMessage('report')
  const [times] = await answered
  return times
}

/** A phase without a reply goes on until the first one, whose time then counts. */
async function measurePhase(): Promise<ProberReport> {
  await sleep(phaseMs)
  let times = await report()
  for (let waited = 0; times.length === 0 && waited < 30_000; waited += 250) {
    await sleep(250)
    times = await report()
  }
  return times
}

const p99 = (times: readonly number[]): number =>
  times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1]!
const ms = (value: number): string => `${value.toFixed(value < 100 ? 1 : 0)} ms`

/** Quiet, then the attack; compares what the organization beside felt. */
async function attack(name: string, run: (stop: AbortSignal) => Promise<unknown>): Promise<void> {
  await t.test(name, { skip: wanted !== undefined && !name.includes(wanted) }, async (t) => {
    await sleep(300)
    await report()
    const quiet = await measurePhase()
    const stop = new AbortController()
    const running = run(stop.signal)
    const busy = await measurePhase()
    stop.abort()
    const outcome = await running
    const [before, during] = [p99(quiet), p99(busy)]
    t.comment(
      `p99 ${ms(before)} quiet (${quiet.length}), ${ms(during)} beside (${busy.length}): ` +
        `${(during / before).toFixed(1)} times; ${JSON.stringify(outcome)}`,
    )
    t.ok(during <= Math.max(3 * before, floorMs), `${ms(during)}, ${ms(before)} in quiet`)
    t.ok(busy.length > 0)
  })
}

const keepAlive = new Agent({ keepAlive: true })

const hostileText = `e${'\u0301\u0327'.repeat(30_000)}`
const hostileBodies = [
  {
    path: () => `/mailing_lists/${attacker.listId}/subscribers`,
    body: { subscriber: { email: hostileText } },
  },
  {
    path: () => `/mailing_lists/${attacker.listId}/subscribers`,
    body: {
      subscriber: { email: 'a@example.com', custom_fields: { [hostileText]: { value: hostileText } } },
    },
  },
  {
    path: () => '/users/authenticate',
    body: { user: { email: `${hostileText}@example.com`, password: 'x' } },
  },
  {
    path: () => `/mailing_lists/${attacker.listId}/subscriber_imports`,
    body: {
      subscriber_import: {
        column_mapping: [hostileText],
        file_source: { type: 'json', content: `email\n${hostileText}\n` },
      },
    },
  },
].map(({ path, body }) => ({ path: path(), body: JSON.stringify(body) }))

await attack('combining marks by the ten thousand in requests', (stop) =>
  repeat(2, stop, (client) => {
    const { path, body } = hostileBodies[(client + Math.floor(Math.random() * 4)) % hostileBodies.length]!
    return send('POST', path, body, { agent: keepAlive })
  }),
)

await t.test('a list with 500 fields, 500 subscribers and 300 autoresponders of a megabyte', async (t) => {
  const path = `/mailing_lists/${attacker.listId}/custom_fields`
  const field = await service.post(path, { custom_field: { name: 'Field 0', field_type: 'text' } })
  const document = (await collections.customFields.findOne({ _id: field.id }))!
  const name = (i: number): string => `Field ${i} with a name that is as long as it may be, or nearly so`
  await collections.customFields.insertMany(
    Array.from({ length: 499 }, (_, i) => ({
      ...document,
      _id: 1_000_000 + i,
      name: name(i),
      name_key: name(i).toLowerCase(),
    })),
  )
  const rows = Array.from({ length: 500 }, (_, i) => `person${i}@example.com\n`).join('')
  await importOf(attacker, `email\n${rows}`)
  const content = 'x'.repeat(1_000_000)
  for (let i = 0; i < 300; i += 1)
    await collections.autoresponders.insertOne(
      autoresponder({
        _id: 1_000_000 + i,
        organization_id: attacker.id,
        mailing_list_id: attacker.listId,
        name: `Autoresponder ${i}`,
        content_text: content,
        paused: true,
      }),
    )
  t.equal(await collections.subscribers.countDocuments({ mailing_list_id: attacker.listId }), 500)
})

async function importOf({ key, listId }: Organization, content: string, more: Json = {}): Promise<number> {
  const call = callerOf(() => http)
  const body = {
    subscriber_import: { column_mapping: ['email'], file_source: { type: 'json', content }, ...more },
  }
  const answer = await call('POST', `/mailing_lists/${listId}/subscriber_imports`, body, { key })
  if (answer.body?.success !== true) throw new Error(answer.text)
  const { id } = answer.body.data
  if (more.begins_at === undefined)
    await until(
      `the end of import ${id}`,
      () => collections.imports.findOne({ _id: id }, { projection: { state: 1 } }),
      (document) => document?.state === 'finished',
      120_000,
      10,
    )
  return id
}

await attack('six clients read pages of 500 subscribers with 500 fields', (stop) =>
  repeat(6, stop, () =>
    send('GET', `/mailing_lists/${attacker.listId}/subscribers?per_page=500`, undefined, {
      agent: keepAlive,
    }),
  ),
)
await attack('40 clients read pages of 64 subscribers with 500 fields', (stop) =>
  repeat(40, stop, () =>
    send('GET', `/mailing_lists/${attacker.listId}/subscribers?per_page=64`, undefined, {
      agent: keepAlive,
    }),
  ),
)
const manyLists = 50_000_000
let sentFinds = 0
await t.test('an organization has 2,000 lists', async () => {
  const list = (await collections.mailingLists.findOne({ _id: attacker.listId }))!
  const others = Array.from({ length: 2_000 }, (_, i) => ({
    ...list,
    _id: manyLists + i,
    name_key: `list ${i}`,
  }))
  await collections.mailingLists.insertMany(others)
})
await attack('64 clients find emails on 2,000 lists', (stop) =>
  repeat(64, stop, () =>
    send('GET', `/subscribers_by_email/${(sentFinds += 1)}%40example.com?per_page=1`, undefined, {
      agent: keepAlive,
    }),
  ),
)
await t.test('its lists are removed', async () => {
  await collections.mailingLists.deleteMany({ _id: { $gte: manyLists } })
})
await attack('six clients read autoresponders of a megabyte', (stop) =>
  repeat(6, stop, () =>
    send('GET', `/mailing_lists/${attacker.listId}/autoresponders`, undefined, { agent: keepAlive }),
  ),
)
let eventId = 0
/** Mails of 1,000 subscribers of whom none is known: all that is asked of the database, and little that is written. */
const deliveryEvents = (): string =>
  JSON.stringify({
    delivery_events: Array.from({ length: 1_000 }, () => ({
      id: `event ${(eventId += 1)}`,
      type: 'sent',
      occurred_at: '2026-01-31T08:00:00Z',
      message_id: String(eventId),
      autoresponder_id: 1_000_000,
      subscriber_id: firstSubscriberId + (eventId % 500),
      format: 'text',
    })),
  })
const inspected = JSON.stringify({
  subscriber_import: {
    file_source: { type: 'json', content: `email;a;b\n${'someone@example.com;1,2;"x"\n'.repeat(36_000)}` },
  },
})

/** Made before they are sent, as an attacker's machine is another one. */
const eventBodies: string[] = []
let sentEvents = 0

/** Small or usual requests that cost the control plane or the database much. */
const costly: Record<string, () => Promise<number | null>> = {
  'delivery events by the thousand': () =>
    send('POST', '/delivery_events', eventBodies[(sentEvents += 1) % eventBodies.length], {
      agent: keepAlive,
    }),
  'inspections of a megabyte': () =>
    send('POST', `/mailing_lists/${attacker.listId}/subscriber_imports/inspect`, inspected, {
      agent: keepAlive,
    }),
  'statistics of all days': () =>
    send('GET', `/mailing_lists/${attacker.listId}/autoresponders/1000000/statistics`, undefined, {
      agent: keepAlive,
    }),
  'a hundred subscribers at once': () => {
    const ids = Array.from({ length: 100 }, (_, i) => firstSubscriberId + i)
    return send('GET', `/mailing_lists/${attacker.listId}/subscribers/${ids.join(',')}`, undefined, {
      agent: keepAlive,
    })
  },
  'users by a part of their names': () =>
    send('GET', '/users?full_name_contains=nobody&email_contains=nobody', undefined, { agent: keepAlive }),
}

let firstSubscriberId = 0
await t.test('an organization creates users, and autoresponders with days of statistics', async () => {
  firstSubscriberId = (await collections.subscribers
    .find({ mailing_list_id: attacker.listId })
    .sort({ id: 1 })
    .next())!.id
  const { id } = await service.post('/users', { user: { ...standardUser, organization_id: attacker.id } })
  for (let i = 0; i < 300; i += 1) eventBodies.push(deliveryEvents())
  const user = (await collections.users.findOne({ _id: id }))!
  await collections.users.insertMany(
    Array.from({ length: 20_000 }, (_, i) => ({
      ...user,
      _id: 1_000_000 + i,
      email_key: `user${i}@example.com`,
    })),
  )
  await collections.bounceCodes.insertMany(
    Array.from({ length: 20_000 }, (_, i) => ({
      _id: `1000000:20260131:0:code ${i}`,
      code: `code ${i}`,
      bounces: 1,
    })),
  )
})

// The attacks run together, as each takes seconds; a long run measures each alone.
if (process.env['ROLLCALL_SECONDS'] === undefined)
  await attack('40 clients with requests that cost much', (stop) =>
    repeat(40, stop, (client) => Object.values(costly)[client % 5]!()),
  )
else
  for (const [name, one] of Object.entries(costly))
    await attack(`40 clients: ${name}`, (stop) => repeat(40, stop, one))

await attack('imports are created on that list', (stop) =>
  repeat(2, stop, () =>
    send(
      'POST',
      `/mailing_lists/${attacker.listId}/subscriber_imports`,
      JSON.stringify({
        subscriber_import: {
          column_mapping: ['email'],
          file_source: { type: 'json', content: 'email\nx@example.com\n' },
          begins_at: '2099-01-01T00:00:00Z',
          autoresponder_filter: '*',
        },
      }),
      { agent: keepAlive },
    ),
  ),
)
await t.test('what it created is cancelled', cancelAll)

async function cancelAll(): Promise<void> {
  const left = await collections.imports.find({ finished_at: null }, { projection: { _id: 1 } }).toArray()
  const next = left.values()
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (const { _id } of next) await service.post(`/subscriber_imports/${_id}/cancel`)
    }),
  )
  await until(
    'all cleared up',
    () => collections.imports.countDocuments({ finalized: false }),
    (count) => count === 0,
    300_000,
  )
}

await attack('500 takes of the outbox at once, again and again', (stop) =>
  repeat(500, stop, () => send('POST', '/outbox/take', '{"outbox":{"limit":1}}')),
)

const packed = gzipSync(`email\n${'someone@example.com\n'.repeat(450_000)}`)
const muchContent = gzipSync(
  JSON.stringify({
    subscriber_import: {
      column_mapping: ['email'],
      begins_at: '2099-01-01T00:00:00Z',
      file_source: { type: 'json', content: randomBytes(600_000).toString('hex') },
    },
  }),
)
await attack('small requests with much content, scheduled for 2099', async (stop) => {
  const statuses = await repeat(4, stop, () =>
    send('POST', `/mailing_lists/${attacker.listId}/subscriber_imports`, muchContent, {
      agent: keepAlive,
      headers: { 'content-encoding': 'gzip' },
    }),
  )
  return { ...statuses, packed: packed.length }
})
await t.test('what it created is cancelled', cancelAll)

await attack('400 connections that say nothing', async (stop) => {
  const silent: Socket[] = []
  const { hostname, port } = new URL(http)
  while (!stop.aborted) {
    if (silent.length < 400) {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => undefined)
      silent.push(socket)
      await once(socket, 'connect').catch(() => undefined)
    } else await sleep(20)
  }
  for (const socket of silent) socket.destroy()
  return { silent: silent.length }
})

await t.test(`${dryRuns} dry runs that are due at one moment, beside imports of one row`, async (t) => {
  const timeOfOneRow = async (): Promise<number> => {
    const begunAt = performance.now()
    await importOf(beside, 'email\nann@example.com\n')
    return performance.now() - begunAt
  }
  const begins_at = new Date(Date.now() + 3_600_000).toISOString()
  for (let i = 0; i < dryRuns; i += 20)
    await Promise.all(
      Array.from({ length: Math.min(20, dryRuns - i) }, () =>
        importOf(attacker, 'email\nann@example.com\n', { dry_run: true, begins_at }),
      ),
    )
  const quiet: number[] = []
  for (let i = 0; i < 15; i += 1) quiet.push(await timeOfOneRow())
  const { modifiedCount } = await collections.imports.updateMany(
    { state: 'scheduled' },
    { $set: { begins_at: new Date() } },
  )
  t.equal(modifiedCount, dryRuns)
  const busy: number[] = []
  const left = (): Promise<number> =>
    collections.imports.countDocuments({ 'options.dry_run': true, finished_at: null })
  do busy.push(await timeOfOneRow())
  while (busy.length < 15 && (await left()) > 32)
  const [before, during] = [p99(quiet), p99(busy)]
  t.comment(
    `the slowest of ${quiet.length} ${ms(before)} in quiet, of ${busy.length} ${ms(during)} beside ${dryRuns} dry runs: ` +
      `${(during / before).toFixed(1)} times`,
  )
  t.ok(during <= Math.max(3 * before, floorMs), `${ms(during)}, ${ms(before)} in quiet`)
})
