import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import t, { type Test } from 'tap'
import { metricValue } from '../helpers/metric-value.ts'
import { startHastyEngine } from '../helpers/downloads.ts'
import { Engines } from '../helpers/engines.ts'
import { hang, hasty, importOf, threads, type HungFile } from '../helpers/hung-files.ts'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  startService,
  until,
  type Service,
} from '../helpers/service.ts'

/**
 * Reads that never return, as on a file server that hangs. A FIFO replaces the file, and opening it waits for a
 * writer. A step that hangs in any of its parts is taken over, and a cancelled import frees its list.
 */

t.setTimeout(500_000)

/** Creates an import whose file hangs, and makes it due then. */
async function beginHungImport(
  t: Test,
  service: Service,
  listId: number,
): Promise<HungFile & { id: number }> {
  const later = new Date(Date.now() + 3_600_000).toISOString()
  const { id } = await service.post(
    `/mailing_lists/${listId}/subscriber_imports`,
    importOf('a@example.com\n', { begins_at: later }),
  )
  const file = await hang(t, path.join(service.dataFolder, 'staging', String(id), 'content'))
  await service.collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date() } })
  return { id, ...file }
}

const stepOf = async (service: Service, id: number) =>
  (await service.collections.imports.findOne({ _id: id }))!.step

/** Waits until that many threads of a process wait for writers of FIFOs; a while where the system doesn't tell. */
async function untilReadsHang({ pid }: { pid?: number | undefined }, reads: number): Promise<void> {
  const folder = `/proc/${pid}/task`
  const waiting = async () => {
    const threads = await readdir(folder).catch(() => [])
    const waits = await Promise.all(
      threads.map((thread) => readFile(`${folder}/${thread}/wchan`, 'utf8').catch(() => '')),
    )
    return waits.filter((wait) => wait === 'wait_for_partner').length
  }
  await until('the reads that hang', waiting, (found) => found >= reads, 20_000).catch(() => undefined)
}

t.test('a step that hangs is taken over by another engine, and ends when its read returns', async (t) => {
  const service = await startService(t, ['control-plane'], threads)
  const first = await startHastyEngine(t, service, hasty)
  const { id, comeBack, letGo } = await beginHungImport(t, service, (await createList(service)).id)
  await untilReadsHang(first.child, 1)
  const hungStep = await stepOf(service, id)
  const begunAt = hungStep!.moved_at.getTime()
  const second = await startHastyEngine(t, service, hasty)
  await comeBack()
  t.match(await importEnd(service, id, 60_000), { state: 'finished', stats: { subscribers: { added: 1 } } })
  t.comment(`finished by another engine ${Date.now() - begunAt} ms after the hung one took it`)
  t.ok(Date.now() - begunAt > 4_500, 'not before its time')
  t.ok(Date.now() - begunAt < 15_000)
  t.match(await service.collections.imports.findOne({ _id: id }), { step_failures: 0 })
  const said = new RegExp(
    `took over a step \\(splitting\\) of import ${id} of which nothing has moved for \\d+ s: engine ${hungStep!.engine_id.slice(0, 8)}`,
  )
  t.match(first.log() + second.log(), said)
  await until(
    'the word of the hung engine',
    async () => first.log(),
    (log) => log.includes("a step (splitting) hasn't ended 0.5 s after it was told to"),
    20_000,
  )
  letGo()
  await until(
    'its end',
    async () => first.log(),
    (log) => log.includes('a step that hung has ended'),
    20_000,
  )
  t.same(countsOf(await service.get(`/subscriber_imports/${id}`)), { added: 1 })
  t.equal(await first.stop(), 0, 'it stops in good order')
})

t.test('a file that hangs for every engine fails its import, and the list is free', async (t) => {
  const service = await startService(t, ['control-plane'], threads)
  const engine = await startHastyEngine(t, service, { steps: { ...hasty.steps, stalledAfterMs: 1_000 } })
  const list = await createList(service)
  const { id } = await beginHungImport(t, service, list.id)
  t.match(await importEnd(service, id, 90_000), {
    state: 'failed',
    error_message:
      /^nothing moved for 1 s while an engine prepared the import \(splitting\): .* \(the last of 5 tries\)\. Check that the disk or file server of DATA_DIR answers/,
  })
  t.match(await importText(service, list.id, 'b@example.com\n'), { state: 'finished' })
  const stoppingAt = Date.now()
  await engine.stop()
  t.comment(`ended ${Date.now() - stoppingAt} ms after a SIGTERM, five reads hung`)
  t.ok(Date.now() - stoppingAt < 10_000)
  t.match(engine.log(), /the process ends by SIGKILL/)
})

t.test('a cancel frees the list of an import that hangs, and eight that hang are said', async (t) => {
  const service = await startService(t, ['control-plane', 'engine'], threads)
  const lists = await Promise.all(Array.from({ length: 8 }, () => createList(service)))
  const engine = service.processes.engine!
  const [metrics] = Object.values(engine.ready.metrics)
  const readGauge = async (name: string) => {
    return metricValue(await (await fetch(metrics!)).text(), name)
  }
  const readyz = async () => {
    const reply = await fetch(metrics!.replace(/metrics$/, 'readyz'))
    return { status: reply.status, text: await reply.text() }
  }

  const hung = [await beginHungImport(t, service, lists[0]!.id)]
  await untilReadsHang(engine.child, 1)
  const cancelledAt = Date.now()
  t.equal((await service.post(`/subscriber_imports/${hung[0]!.id}/cancel`)).state, 'cancelled')
  t.match(await importText(service, lists[0]!.id, 'b@example.com\n'), { state: 'finished' })
  const freeAfterMs = Date.now() - cancelledAt
  t.comment(`the next import of the list finished ${freeAfterMs} ms after the cancel`)
  t.ok(freeAfterMs < 15_000)
  t.equal(await readGauge('rollcall_engine_hung{kind="step"}'), 1)
  t.equal((await readyz()).status, 200)

  for (const list of lists.slice(1)) hung.push(await beginHungImport(t, service, list.id))
  // Organizations have no more than two at once: those that hang make way for others.
  for (const reads of [3, 5, 7, 8]) {
    await untilReadsHang(engine.child, reads)
    for (const { _id } of await service.collections.imports.find({ state: 'splitting' }).toArray())
      if ((await stepOf(service, _id)) !== null) await service.post(`/subscriber_imports/${_id}/cancel`)
  }
  t.match(await until('the word of it', readyz, ({ status }) => status === 503, 30_000), {
    text: /^8 steps, 0 pins of uploaded files and 0 of 2 chunk lanes hang .* takes no more work: check that the file server of DATA_DIR answers/,
  })
  const { id } = await service.post(
    `/mailing_lists/${lists[0]!.id}/subscriber_imports`,
    importOf('c@example.com\n'),
  )
  await until(
    'its start',
    () => service.collections.imports.findOne({ _id: id }),
    (document) => document!.state === 'splitting',
  )
  for (const { letGo } of hung) letGo()
  await until('that it works again', readyz, ({ status }) => status === 200, 30_000)
  t.match(await importEnd(service, id), { state: 'finished' })
  t.equal(await readGauge('rollcall_engine_hung{kind="step"}'), 0)
  t.equal(await engine.stop(), 0)
})

/** A split import whose partition hangs: an engine split it and died at its first claim of a chunk. */
async function splitHungImport(t: Test, service: Service, engines: Engines) {
  const list = await createList(service)
  const { id } = await service.post(
    `/mailing_lists/${list.id}/subscriber_imports`,
    importOf(`row${list.id}@example.com\n`),
  )
  const splitter = await engines.start('findAndModify import_chunks before 1')
  await splitter.ended
  await engines.endLeaseOf(splitter)
  const { partition } = (await service.collections.imports.findOne({ _id: id }))!
  const file = await hang(t, path.join(service.dataFolder, 'staging', partition!))
  return { id, ...file }
}

t.test(
  'a chunk whose file hangs moves to another engine, its lane is reported, and a cancel frees the list',
  async (t) => {
    const service = await startService(t, ['control-plane'], threads)
    const { collections } = service
    const engines = new Engines(t, service)
    const first = await splitHungImport(t, service, engines)
    await service.post(`/subscriber_imports/${first.id}/pause`)
    const second = await splitHungImport(t, service, engines)
    await service.post(`/subscriber_imports/${first.id}/unpause`)
    const engine = await service.start('engine')
    await untilReadsHang(engine.child, 2)
    t.equal(await collections.chunks.countDocuments({ state: 'running' }), 2)

    const cancelledAt = Date.now()
    await service.post(`/subscriber_imports/${second.id}/cancel`)
    await until(
      'its clearing up',
      () => collections.imports.findOne({ _id: second.id }),
      (document) => document!.finalized,
      15_000,
    )
    t.comment(`finalized ${Date.now() - cancelledAt} ms after the cancel, its reader hung`)

    const { lease_until: leaseUntil } = (await collections.chunks.findOne({ import_id: first.id }))!
    await first.comeBack()
    const other = await service.start('engine')
    t.match(await importEnd(service, first.id, 90_000), { state: 'finished' })
    t.comment(`finished ${Date.now() - leaseUntil!.getTime()} ms after the lease of its chunk`)
    t.match(engine.log() + other.log(), /took over chunks of which no batch was written/)
    const [metrics] = Object.values(engine.ready.metrics)
    await until(
      'both lanes in the metrics',
      async () => (await fetch(metrics!)).text(),
      (text) => /^rollcall_engine_hung\{kind="chunk"\} 2$/m.test(text),
      90_000,
      500,
    )
    const readyz = () => fetch(metrics!.replace(/metrics$/, 'readyz'))
    t.equal((await readyz()).status, 503)
    t.match(engine.log(), /a chunk was taken from its lane .* 2 of 2 lanes hang/)
    first.letGo()
    await until('that it works again', readyz, ({ status }) => status === 200, 30_000)
    const stoppingAt = Date.now()
    await engine.stop()
    t.comment(`ended ${Date.now() - stoppingAt} ms after a SIGTERM, a worker thread hung`)
    t.ok(Date.now() - stoppingAt < 10_000)
    t.match(engine.log(), /the process ends by SIGKILL/)
  },
)
