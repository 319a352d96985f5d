import { rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { crashAt } from '../helpers/crash-at.ts'
import { Engines } from '../helpers/engines.ts'
import { lockRow } from '../helpers/locked-row.ts'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  resume,
  startService,
  until,
  untilIdle,
  type Json,
  type Service,
} from '../helpers/service.ts'
import { unpackableText } from '../helpers/staged-content.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

/** Moments at which something else happens than what an import is about to do. */

const noHeader = { file_format: { csv_has_headers: false } }
const rowsOf = (name: string, count: number): string =>
  Array.from({ length: count }, (_, i) => `${name}${i}@example.com\n`).join('')

const create = (service: Service, listId: number, source: object, options: object = {}): Promise<Json> =>
  service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email'], ...noHeader, ...options, file_source: source },
  })

t.setTimeout(300_000)
const service = await startService(t, ['control-plane'])
const { collections, get, post, call } = service
// The engine is suspended in the first import only, as its worker thread keeps counting over the later ones.
await service.start('engine', crashAt('insert subscribers before 2 SIGSTOP'))

t.test('suspended in a batch and woken after a pause, it writes no further row', async (t) => {
  const { child, log } = service.processes.engine!
  const list = await createList(service)
  const { id } = await create(service, list.id, { type: 'json', content: rowsOf('c', 6_000) })
  await until(
    'the suspension',
    async () => log(),
    (text) => text.includes('SIGSTOP at'),
  )
  await post(`/subscriber_imports/${id}/pause`)
  // Longer than a batch may run between two checks of its lease.
  await sleep(1_500)
  const before = (await get(`/subscriber_imports/${id}`)).stats.records_imported
  t.ok(before < 6_000, `${before} rows before`)
  await resume(child, log)
  await untilIdle(service.processes.engine!)
  t.equal((await get(`/subscriber_imports/${id}`)).stats.records_imported, before)
  await post(`/subscriber_imports/${id}/unpause`)
  t.same(countsOf(await importEnd(service, id)), { added: 6_000 })
})

t.test('cancelled while it deactivates, its counts and logs stay true', async (t) => {
  const list = await createList(service)
  await importText(service, list.id, rowsOf('a', 4_000), noHeader)
  const letGo = await lockRow(service, `${list.id}:a999@example.com`) // the last one
  const { id } = await create(
    service,
    list.id,
    { type: 'json', content: 'a1@example.com\n' },
    { deactivate_subscribers_not_in_import: true },
  )
  await until(
    'the deactivation',
    () => get(`/subscriber_imports/${id}`),
    (view) => view.stats.subscribers.deactivated > 0,
  )
  await call('POST', `/subscriber_imports/${id}/cancel`)
  await until(
    'the end of all work',
    () => collections.imports.findOne({ _id: id }),
    (document) => document!.finalized,
  )
  await letGo()
  await until(
    'the end of its step',
    () => collections.imports.findOne({ _id: id }),
    (document) => document!.lease.token === null,
  )
  const view = await get(`/subscriber_imports/${id}`)
  const there = await collections.subscribers.countDocuments({
    mailing_list_id: list.id,
    status: 'deactivated',
  })
  const log = await call('GET', `/subscriber_imports/${id}/logs/deactivated`)
  t.equal(view.state, 'cancelled')
  t.equal(view.stats.subscribers.deactivated, there, `${there} of 3999`)
  t.equal(log.text.split('\n').length - 1, there)
})

t.test('a subscriber who comes or leaves while an import runs is not deactivated by it', async (t) => {
  const list = await createList(service)
  const subscribers = `/mailing_lists/${list.id}/subscribers`
  await importText(service, list.id, rowsOf('x', 3), noHeader)
  const letWrite = await lockRow(service, `${list.id}:z@example.com`)
  const letDeactivate = await lockRow(service, `${list.id}:x1@example.com`)
  const { id } = await create(
    service,
    list.id,
    { type: 'json', content: 'z@example.com\n' },
    { deactivate_subscribers_not_in_import: true },
  )
  await until(
    'its beginning',
    () => collections.imports.findOne({ _id: id }),
    (document) => document!.plan !== null,
  )
  await post(subscribers, { subscriber: { email: 'new@example.com' } })
  await letWrite()
  // By then the import has read all absent subscribers.
  await until(
    'the deactivation of the first one',
    () => get(`/subscriber_imports/${id}`),
    (view) => view.stats.subscribers.deactivated > 0,
  )
  const left = await call('PUT', `${subscribers}/x2@example.com`, {
    subscriber: { status: 'unsubscribed' },
  })
  t.equal(left.status, 200)
  await letDeactivate()
  t.same(countsOf(await importEnd(service, id)), { added: 1, deactivated: 2 })
  const found = await collections.subscribers.find({ mailing_list_id: list.id }).sort({ _id: 1 }).toArray()
  t.same(
    found.map(({ email, status }) => [email, status]),
    [
      ['new@example.com', 'active'],
      ['x0@example.com', 'deactivated'],
      ['x1@example.com', 'deactivated'],
      ['x2@example.com', 'unsubscribed'],
      ['z@example.com', 'active'],
    ],
  )
})

t.test('slow servers of one organization delay no other organization', async (t) => {
  const web = createServer((request, response) => {
    response.writeHead(200).write('a@example.com\n')
    if (request.url === '/fast.csv') response.end()
  })
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
  t.teardown(() => web.closeAllConnections())
  t.teardown(() => web.close())
  const source = (name: string) => ({
    type: 'url',
    url: `http://127.0.0.1:${(web.address() as { port: number }).port}/${name}.csv`,
  })
  // An engine has eight downloads at once, four of one organization.
  const slow: number[] = []
  for (let i = 0; i < 9; i += 1) {
    const list = await createList(service)
    slow.push((await create(service, list.id, source('slow'))).id)
  }
  await until(
    'downloads',
    () => collections.imports.countDocuments({ 'lease.token': { $ne: null } }),
    (count) => count >= 4,
  )
  const organization = await post('/organizations', { organization: { name: 'Other' } })
  const list = await createList(service, [], { organization_id: organization.id })
  const { id } = await create(service, list.id, source('fast'))
  t.same(countsOf(await importEnd(service, id)), { added: 1 })
  t.equal(await collections.imports.countDocuments({ _id: { $in: slow }, 'lease.token': { $ne: null } }), 4)
  for (const id of slow) await post(`/subscriber_imports/${id}/cancel`)
})

t.test('an upload that is removed after its import began is imported as it was', async (t) => {
  await storedUploads(service).put('f.csv', rowsOf('d', 500))
  const list = await createList(service)
  const letGo = await lockRow(service, `${list.id}:d1@example.com`)
  const { id } = await create(service, list.id, { type: 'upload_directory', filename: 'f.csv' })
  await until(
    'its beginning',
    () => collections.imports.findOne({ _id: id }),
    (document) => document!.started_at !== null,
  )
  await service.processes.engine!.stop('SIGKILL')
  await collections.engines.updateMany({}, { $set: { dead: true } })
  const { state } = await get(`/subscriber_imports/${id}`)
  await storedUploads(service).remove('f.csv')
  await letGo()
  await service.start('engine')
  const view = await importEnd(service, id, 60_000)
  t.comment(`killed when it was ${state}`)
  t.same(countsOf(view), { added: 500 })
})

t.test(
  'an engine that is judged dead while it has a chunk counts the chunk as lost, not as failed',
  async (t) => {
    const list = await createList(service)
    const letGo = await lockRow(service, `${list.id}:g1@example.com`)
    const { id } = await create(service, list.id, { type: 'json', content: rowsOf('g', 4_000) })
    const running = () => collections.chunks.countDocuments({ import_id: id, state: 'running' })
    await until('a chunk in hand', running, (count) => count > 0)
    // Another engine would mark it as dead; here it does its own clean-up.
    await collections.engines.updateMany({}, { $set: { dead: true } })
    const { log, ready } = service.processes.engine!
    await until(
      'its new registration',
      async () => log(),
      (text) => text.includes('it registers under a new id'),
    )
    await letGo()
    t.same(countsOf(await importEnd(service, id)), { added: 4_000 })
    t.notMatch(log(), 'the worker thread broke off')
    const metrics = await (await fetch(ready.metrics['engine']!)).text()
    t.match(metrics, /^rollcall_engine_leases_lost_total [1-9]/m)
    t.comment(metrics.match(/^rollcall_import_chunks_total.*/gm)!.join(' '))
  },
)

t.test('an engine that is stopped while it registers anew leaves nothing of that registration', async (t) => {
  const engines = new Engines(t, service)
  const engine = await engines.start('update engines started_at after 2 SIGSTOP')
  await collections.engines.updateMany({ process_id: engine.pid }, { $set: { dead: true } })
  await engines.untilSuspended(engine)
  engine.signal('SIGTERM')
  await engines.resume(engine)
  t.equal(await engine.ended, 0)
  t.equal(await engines.documentOf(engine), null)
})

t.test('a chunk that is not written for longer than its lease is taken from a running engine', async (t) => {
  const list = await createList(service)
  const letGo = await lockRow(service, `${list.id}:h1@example.com`)
  const { id } = await create(service, list.id, { type: 'json', content: rowsOf('h', 4_000) })
  // No engine works under that token, so only the lease can release the chunk.
  const lose = () =>
    collections.chunks.updateOne(
      { import_id: id, state: 'running' },
      { $set: { 'lease.token': 'no engine', 'lease.until': new Date(0) } },
    )
  await until('a chunk in hand', lose, ({ modifiedCount }) => modifiedCount > 0)
  await letGo()
  t.same(countsOf(await importEnd(service, id, 60_000)), { added: 4_000 })
})

t.test(
  'a staging that cannot be used fails the import after a few tries, and other imports finish',
  async (t) => {
    const staging = path.join(service.dataFolder, 'staging')
    const first = await createList(service)
    const begins_at = new Date(Date.now() + 86_400_000).toISOString()
    const source = { type: 'json', content: unpackableText }
    const { id } = await create(service, first.id, source, { begins_at })
    // The folder is a file now, so that no process can read or write in it, root included.
    await rm(path.join(staging, String(id)), { recursive: true, force: true })
    await writeFile(path.join(staging, String(id)), 'not a folder')
    await collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date() } })
    const list = await createList(service)
    t.same(countsOf(await importText(service, list.id, rowsOf('f', 10), noHeader)), { added: 10 })
    const view = await until(
      'its end',
      async () => {
        // The waits between its tries are stored; together they are half a minute.
        await collections.imports.updateOne(
          { _id: id, 'lease.not_before': { $ne: null } },
          { $set: { 'lease.not_before': new Date(0) } },
        )
        return get(`/subscriber_imports/${id}`)
      },
      ({ state }: Json) => state === 'failed',
      60_000,
    )
    t.match(view.error_message, /ENOTDIR.*check DATA_DIR|staged file is gone/)
  },
)
