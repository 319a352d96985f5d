import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createUrlImport, startHastyEngine } from '../helpers/downloads.ts'
import { hasty, importOf, threads } from '../helpers/hung-files.ts'
import { head, startRawWebServer } from '../helpers/raw-web-server.ts'
import { countsOf, createList, importEnd, importText, startService, until } from '../helpers/service.ts'

/** Pins that hang beside imports that get on, and steps that are slow, move, and are left to their engines. */

t.setTimeout(300_000)

t.test("a pin that hangs doesn't keep its list: the import begins without it", async (t) => {
  const service = await startService(t, ['control-plane'], threads)
  const preload = new URL('../helpers/hung-link.ts', import.meta.url).href
  const engine = await startHastyEngine(
    t,
    service,
    { steps: { ...hasty.steps, pinTimeoutMs: 1_000 } },
    { NODE_OPTIONS: `--import=${preload}` },
  )
  const uploads = path.join(service.dataFolder, 'uploads', '1')
  await mkdir(uploads, { recursive: true })
  const before = new Date(Date.now() - 60_000)
  const lists = await Promise.all(Array.from({ length: 9 }, () => createList(service)))
  const create = async (listId: number, filename: string): Promise<number> => {
    await writeFile(path.join(uploads, filename), 'ann@example.com\n')
    await utimes(path.join(uploads, filename), before, before)
    const source = { type: 'upload_directory', filename }
    return (
      await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
        subscriber_import: { ...importOf('').subscriber_import, file_source: source },
      })
    ).id
  }
  const untilSaid = (pins: number) =>
    until(
      'the word of the pins',
      async () =>
        engine.log().match(/pinning the file \\"\d\.hung\\" has not ended within 1 s/g)?.length ?? 0,
      (found) => found === pins,
      30_000,
    )
  const ids = [await create(lists[0]!.id, '0.hung')]
  await untilSaid(1)
  await service.post(`/subscriber_imports/${ids[0]}/cancel`)
  t.match(await importText(service, lists[0]!.id, 'b@example.com\n'), { state: 'finished' })

  for (const i of [1, 2, 3, 4, 5, 6, 7]) ids.push(await create(lists[i]!.id, `${i}.hung`))
  await untilSaid(8)
  // With eight pins that hang this engine begins no further upload. Another engine does, and takes over the steps.
  const ninth = await create(lists[8]!.id, 'sound.csv')
  await service.start('engine')
  for (const id of [...ids.slice(1), ninth])
    t.match(await importEnd(service, id, 120_000), { state: 'finished' })
  for (const i of ids.keys()) await writeFile(path.join(uploads, `${i}.hung.go`), '')
  t.equal(await engine.stop(), 0)
  const staged = await until(
    'that late pins are released',
    async () =>
      (await readdir(path.join(service.dataFolder, 'staging'), { recursive: true })).filter((name) =>
        name.includes('pin-'),
      ),
    (names) => names.length === 0,
    20_000,
  )
  t.same(staged, [])
})

t.test('a step that is slow but advances is not taken over', async (t) => {
  const service = await startService(t, ['control-plane'], threads)
  const engines = [await startHastyEngine(t, service, hasty), await startHastyEngine(t, service, hasty)]
  const rows = Array.from({ length: 40 }, (_, i) => `row${i}@example.com\n`)
  const web = await startRawWebServer(t, {
    '/slow': async (socket) => {
      socket.write(head(200, { 'content-length': rows.join('').length }))
      for (const row of rows) {
        socket.write(row)
        await sleep(300)
      }
      socket.end()
    },
  })
  const { id } = await createUrlImport(service, `http://127.0.0.1:${web.port}/slow`)
  t.match(await importEnd(service, id, 60_000), { state: 'finished', stats: { subscribers: { added: 40 } } })
  t.match(await service.collections.imports.findOne({ _id: id }), { step_failures: 0 })
  t.equal(web.requests.get('/slow')!.length, 1, 'it came in one try')
  for (const engine of engines) t.notMatch(engine.log(), 'took over')
})

t.test('deactivations are stamped as they get on', async (t) => {
  const service = await startService(t, ['control-plane'], threads)
  await startHastyEngine(t, service, { steps: { stampIntervalMs: 50 } })
  const list = await createList(service)
  const rows = Array.from({ length: 20_000 }, (_, i) => `row${i}@example.com\n`)
  const noHeaders = { file_format: { csv_has_headers: false } }
  await importText(service, list.id, rows.join(''), noHeaders)
  const { id } = await service.post(
    `/mailing_lists/${list.id}/subscriber_imports`,
    importOf('row0@example.com\n', { deactivate_subscribers_not_in_import: true }),
  )
  /** The stored points of the deactivations. */
  const stamps = new Map<number, number>()
  await until(
    'its end',
    async () => {
      const document = (await service.collections.imports.findOne({ _id: id }))!
      if (document.state === 'importing' && document.step_writes > 0 && document.step !== null)
        stamps.set(document.step.moved_at.getTime(), document.step_writes)
      return document.state
    },
    (state) => state === 'finished',
    60_000,
    10,
  )
  t.same(countsOf(await service.get(`/subscriber_imports/${id}`)), {
    skipped_overwrite: 1,
    deactivated: 19_999,
  })
  t.comment(`${stamps.size} stamps`)
  t.ok(stamps.size >= 4)
})
