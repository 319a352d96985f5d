import { mkdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  startService,
  until,
  type Json,
  type Service,
} from '../helpers/service.ts'
import { settleUpload } from '../helpers/settled-upload.ts'

/** Moments at which something else happens than what an import is about to do. */

const noHeader = { file_format: { csv_has_headers: false } }
const rowsOf = (name: string, count: number): string =>
  Array.from({ length: count }, (_, i) => `${name}${i}@example.com\n`).join('')

const create = (service: Service, listId: number, source: object, options: object = {}): Promise<Json> =>
  service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email'], ...noHeader, ...options, file_source: source },
  })

t.test('two engines', { timeout: 300_000 }, async (t) => {
  const service = await startService(t, ['control-plane', 'engine', 'engine'])
  const { collections, get, post, call } = service

  t.test('cancelled while it deactivates, its counts and logs stay true', async (t) => {
    for (let round = 0; round < 3; round += 1) {
      const list = await createList(service)
      await importText(service, list.id, rowsOf('a', 30_000), noHeader)
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
        (document) => document!.settled,
      )
      await sleep(300)
      const view = await get(`/subscriber_imports/${id}`)
      const there = await collections.subscribers.countDocuments({
        mailing_list_id: list.id,
        status: 'deactivated',
      })
      const log = await call('GET', `/subscriber_imports/${id}/logs/deactivated`)
      t.equal(view.stats.subscribers.deactivated, there, `${view.state} after ${there}`)
      t.equal(log.text.split('\n').length - 1, there)
    }
  })

  t.test('slow servers of one organization hold up nobody else', async (t) => {
    const web = createServer((_request, response) => {
      response.writeHead(200).write('a@example.com\n')
    })
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
    t.teardown(() => web.closeAllConnections())
    t.teardown(() => web.close())
    const url = `http://127.0.0.1:${(web.address() as { port: number }).port}/slow.csv`
    const slow: number[] = []
    for (let i = 0; i < 18; i += 1) {
      const list = await createList(service)
      slow.push((await create(service, list.id, { type: 'url', url })).id)
    }
    await until(
      'downloads',
      () => collections.imports.countDocuments({ step: { $ne: null } }),
      (count) => count >= 8,
    )
    const organization = await post('/organizations', { organization: { name: 'Other' } })
    const list = await createList(service, [], { organization_id: organization.id })
    t.same(countsOf(await importText(service, list.id, rowsOf('b', 500), noHeader)), { added: 500 })
    for (const id of slow) await post(`/subscriber_imports/${id}/cancel`)
  })
})

t.test('one engine', { timeout: 300_000 }, async (t) => {
  const service = await startService(t, ['control-plane', 'engine'])
  const { collections, get, post } = service

  t.test('suspended in a batch and woken after a pause, it writes no further row', async (t) => {
    const { child } = service.processes.engine!
    const list = await createList(service)
    const { id } = await create(service, list.id, { type: 'json', content: rowsOf('c', 60_000) })
    await until(
      'rows',
      () => get(`/subscriber_imports/${id}`),
      (view) => view.stats.records_imported > 2_000,
    )
    child.kill('SIGSTOP')
    await post(`/subscriber_imports/${id}/pause`)
    await sleep(2_500)
    const before = (await get(`/subscriber_imports/${id}`)).stats.records_imported
    child.kill('SIGCONT')
    await sleep(2_500)
    t.equal((await get(`/subscriber_imports/${id}`)).stats.records_imported, before)
    await post(`/subscriber_imports/${id}/unpause`)
    t.same(countsOf(await importEnd(service, id)), { added: 60_000 })
  })

  t.test('taken for dead with a chunk in hand, it counts the chunk as lost, not as failed', async (t) => {
    const list = await createList(service)
    const session = service.client.startSession()
    t.teardown(() => session.endSession())
    // A batch that meets this is done again until it is over.
    session.startTransaction()
    await collections.subscribers.insertOne(
      { ...(await collections.subscribers.findOne())!, _id: `${list.id}:g1@example.com` },
      { session, bypassDocumentValidation: true },
    )
    const { id } = await create(service, list.id, { type: 'json', content: rowsOf('g', 500) })
    const running = () => collections.chunks.countDocuments({ import_id: id, state: 'running' })
    await until('a chunk in hand', running, (count) => count > 0)
    // As another engine would have done; it clears up after itself here.
    await collections.engines.updateMany({}, { $set: { dead: true } })
    const { log, ready } = service.processes.engine!
    await until(
      'its new life',
      async () => log(),
      (text) => text.includes('it starts anew'),
    )
    await session.abortTransaction()
    t.same(countsOf(await importEnd(service, id)), { added: 500 })
    t.notMatch(log(), 'the worker thread broke off')
    const metrics = await (await fetch(ready.metrics['engine']!)).text()
    t.match(metrics, /^rollcall_engine_leases_lost_total [1-9]/m)
    t.comment(metrics.match(/^rollcall_import_chunks_total.*/gm)!.join(' '))
  })

  t.test('an upload that is removed after its import began is imported as it was', async (t) => {
    const folder = path.join(service.dataFolder, 'uploads', '1')
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, 'f.csv'), rowsOf('d', 150_000))
    await settleUpload(path.join(folder, 'f.csv'))
    const list = await createList(service)
    const { id } = await create(service, list.id, { type: 'upload_directory', filename: 'f.csv' })
    await until(
      'its beginning',
      () => collections.imports.findOne({ _id: id }),
      (document) => document!.plan !== null,
    )
    await service.processes.engine!.stop('SIGKILL')
    const { state } = await get(`/subscriber_imports/${id}`)
    await rm(path.join(folder, 'f.csv'))
    await service.start('engine')
    const view = await importEnd(service, id, 60_000)
    t.comment(`killed when it was ${state}`)
    t.same(countsOf(view), { added: 150_000 })
  })

  t.test(
    'a staging that cannot be used fails the import after a few tries, and the others go on',
    async (t) => {
      await service.processes.engine!.stop()
      const staging = path.join(service.dataFolder, 'staging')
      const first = await createList(service)
      const created = await create(service, first.id, { type: 'json', content: rowsOf('e', 10) })
      // Its folder can't be read or written any more, whoever asks: it is a file now.
      await rm(path.join(staging, String(created.id)), { recursive: true, force: true })
      await writeFile(path.join(staging, String(created.id)), 'not a folder')
      await service.start('engine')
      const list = await createList(service)
      t.same(countsOf(await importText(service, list.id, rowsOf('f', 10), noHeader)), { added: 10 })
      const view = await importEnd(service, created.id, 60_000)
      t.match(view, { state: 'failed', error_message: /ENOTDIR.*check DATA_DIR|staged file is gone/ })
    },
  )
})
