import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { beginHeldImport, beginLargeImport, someRowsIn } from '../helpers/large-import.ts'
import { readinessAt } from '../helpers/readiness.ts'
import { fillDisk, mountSmallDisk, whyNoSmallDisk } from '../helpers/small-disk.ts'
import {
  callerOf,
  createList,
  freePorts,
  importEnd,
  startProgram,
  startService,
  until,
  type RunningProcess,
} from '../helpers/service.ts'

/**
 * The disk of DATA_DIR fills up: nothing is claimed or begun below DISK_RESERVE_MB, readiness says why, and everything
 * continues by itself when there is space.
 */

t.setTimeout(550_000)
const skip = whyNoSmallDisk()

const readiness = (...processes: Pick<RunningProcess, 'ready'>[]) =>
  Promise.all(processes.flatMap(({ ready }) => Object.values(ready.metrics)).map(readinessAt))
const fullDisk = /^the disk is full: .* has [0-3] MB left, less than the reserve of 20 MB/

const inline = (content: string) => ({
  subscriber_import: { column_mapping: ['email'], file_source: { type: 'json', content } },
})

t.test('below the reserve nothing is begun, and an import stops in the middle', { skip }, async (t) => {
  const rows = 60_000
  const file = new SubscriberFile({ rows, seed: 8 })
  const service = await startService(t, [], { DISK_RESERVE_MB: '20' })
  mountSmallDisk(t, service.dataFolder, 120)
  await service.start('control-plane')
  await service.start('ftp')
  await service.start('engine')
  const other = await createList(service)
  const { id, letGo } = await beginHeldImport(service, file)
  const next = await service.post(`/mailing_lists/${other.id}/subscriber_imports`, {
    subscriber_import: {
      ...inline('x\na@example.com').subscriber_import,
      begins_at: new Date(Date.now() + 3_600_000).toISOString(),
    },
  })
  await someRowsIn(service, id, 1)
  const free = await fillDisk(service.dataFolder, 3_000_000)
  // An answer of the file system is used for half a second.
  await sleep(2_000)
  await service.collections.imports.updateOne({ _id: next.id }, { $set: { begins_at: new Date(0) } })
  await letGo()
  // The batches that waited for locked rows are still written. Then their chunks are released, and none is claimed.
  await until(
    'the last batch',
    () => service.collections.chunks.countDocuments({ import_id: id, state: 'running' }),
    (count) => count === 0,
  )
  const stopped: number = (await service.get(`/subscriber_imports/${id}`)).stats.records_imported
  t.ok(stopped < rows, `${stopped} of ${rows} rows were written`)
  const processes = Object.values(service.processes)
  t.match(
    await readiness(...processes),
    processes.map(() => ({ status: 503, text: fullDisk })),
  )
  const refused = await service.call(
    'POST',
    `/mailing_lists/${other.id}/subscriber_imports`,
    inline(`x\n${'b@example.com\n'.repeat(40_000)}`),
  )
  t.equal(refused.status, 507)
  t.equal((await service.call('PUT', '/uploads/new.csv', 'x\nc@example.com\n')).status, 507)
  await sleep(3_000)
  t.match(await service.get(`/subscriber_imports/${id}`), {
    state: 'importing',
    stats: { records_imported: stopped },
  })
  t.match(await service.get(`/subscriber_imports/${next.id}`), { state: 'scheduled' })
  await free()
  const freedAt = Date.now()
  t.match(await importEnd(service, id), {
    state: 'finished',
    stats: { number_of_records: rows, records_imported: rows, subscribers: file.expectedCounts() },
  })
  t.comment(`finished ${Date.now() - freedAt} ms after there was space`)
  t.match(await importEnd(service, next.id), { state: 'finished' })
  t.match(
    await readiness(...processes),
    processes.map(() => ({ status: 200 })),
  )
})

t.test('without a reserve, an import whose files fill the disk waits, and says so', { skip }, async (t) => {
  const rows = 40_000
  const file = new SubscriberFile({ rows, seed: 9 })
  const service = await startService(t, ['control-plane', 'engine'], { DISK_RESERVE_MB: '0' })
  const staging = path.join(service.dataFolder, 'staging')
  await mkdir(staging, { recursive: true })
  mountSmallDisk(t, staging, 20)
  const free = await fillDisk(staging, 1_000_000)
  const { id } = await beginLargeImport(service, file)
  const waiting = await until(
    'the warning',
    () => service.get(`/subscriber_imports/${id}`),
    (view) => view.warnings.length > 0,
  )
  t.match(waiting, { state: 'splitting', warnings: [/had to wait: the disk that has its files was full/] })
  const list = await createList(service)
  const small = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, inline('x\na@example.com'))
  t.match(await importEnd(service, small.id), { state: 'finished' }, 'what fits is imported')
  const refused = await service.call(
    'POST',
    `/mailing_lists/${list.id}/subscriber_imports`,
    // It compresses badly.
    inline(randomBytes(1_500_000).toString('base64')),
  )
  t.equal(refused.status, 507)
  await free()
  t.match(await importEnd(service, id), { state: 'finished', stats: { records_imported: rows } })
})

t.test('npm start survives a disk that another program fills to the last byte', { skip }, async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall e2e '))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  mountSmallDisk(t, folder, 900)
  const started = await startProgram(
    [fileURLToPath(new URL('../../control-plane/cli/start.ts', import.meta.url))],
    { ...freePorts, ENGINE_WORKERS: '1', DATA_DIR: folder, DISK_RESERVE_MB: '20' },
  )
  t.teardown(() => started.stop())
  const ready = started.ready!
  const key = ready.api_key!
  const call = callerOf(() => ready.http!)
  const list = (await call('POST', '/mailing_lists', { mailing_list: { name: 'L' } }, { key })).body.data
  const lines = Array.from({ length: 200_000 }, (_, i) => `${i}@example.com`)
  const created = await call(
    'POST',
    `/mailing_lists/${list.id}/subscriber_imports`,
    inline(`email\n${lines.join('\n')}`),
    { key },
  )
  const { id } = created.body.data
  const view = () => call('GET', `/subscriber_imports/${id}`, undefined, { key })
  await until('rows', view, ({ body }) => body.data.stats.records_imported > 0)
  const free = await fillDisk(folder, 0)
  await sleep(20_000)
  t.match(await readiness({ ready }), Array(3).fill({ status: 503, text: fullDisk }))
  await free()
  const freedAt = Date.now()
  await until(
    'the end',
    () => view().catch(() => null),
    (answer) => answer?.body?.data?.state === 'finished',
    90_000,
    200,
  )
  t.comment(`finished ${Date.now() - freedAt} ms after there was space`)
  t.equal((await view()).body.data.stats.records_imported, 200_000)
  t.notMatch(started.log(), /process ended/, 'no process ended')
  t.equal(await started.stop(), 0)
})
