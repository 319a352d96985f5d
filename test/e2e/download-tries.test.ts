import { once } from 'node:events'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createUrlImport, startHastyEngine } from '../helpers/downloads.ts'
import type { Downloads } from '../helpers/hasty-engine-setting.ts'
import { answer, head, startRawWebServer, type RawAnswer } from '../helpers/raw-web-server.ts'
import { countsOf, importEnd, startService, until, type Json } from '../helpers/service.ts'

/** Tries of a download over the death of an engine, and over pauses. */

const rows = 'a@example.com\nb@example.com\n'
const waits = { bounds: { retryAfterMs: [8_000, 1_000] } }

const halfOf: RawAnswer = (socket) => {
  socket.write(head(200, { 'content-length': rows.length }) + rows.slice(0, 14))
}

const service = await startService(t, ['control-plane'])
const startEngine = (downloads: Downloads) => startHastyEngine(t, service, downloads)
let engine = await startEngine(waits)

async function viewOf(id: number, what: string, isIt: (view: Json) => boolean): Promise<Json> {
  return until(what, () => service.get(`/subscriber_imports/${id}`), isIt, 60_000)
}

/** Kills the engine and ends its lease. */
async function killEngine(): Promise<void> {
  await engine.stop('SIGKILL')
  await service.collections.engines.updateMany({ process_id: engine.child.pid! }, { $set: { dead: true } })
}

async function stagedFiles(): Promise<string[]> {
  return readdir(path.join(service.dataFolder, 'staging')).catch(() => [])
}

t.test(
  'an engine that is killed between two tries, or in the middle of one, leaves their number right',
  { timeout: 300_000 },
  async (t) => {
    const web = await startRawWebServer(t, {
      '/dead': answer(503, {}),
      '/half': (socket, request) =>
        request.nth === 1 ? halfOf(socket, request) : answer(200, {}, rows)(socket, request),
    })
    const within = await createUrlImport(service, `http://127.0.0.1:${web.port}/half`)
    await viewOf(within.id, 'a half', (view) => view.download?.bytes_received === 14)
    const between = await createUrlImport(service, `http://127.0.0.1:${web.port}/dead`)
    const waiting = await viewOf(
      between.id,
      'the second try',
      (view) => typeof view.download?.next_attempt_at === 'string',
    )
    t.match(waiting, { state: 'downloading', download: { attempt: 2, bytes_received: 0 } })
    const dueAt = (await service.collections.imports.findOne({ _id: between.id }))!.download.next_attempt_at!
    await killEngine()
    t.equal(web.requests.get('/dead')!.length, 1)
    engine = await startEngine(waits)

    const whole = await importEnd(service, within.id, 60_000)
    t.same(countsOf(whole), { added: 2 })
    t.match(whole.download, { attempt: 1, bytes_received: 28 }, 'a try that a death broke off is none')
    t.equal(web.requests.get('/half')!.length, 2)
    await until(
      'the second try',
      async () => web.requests.get('/dead')!.length,
      (count) => count > 1,
    )
    t.ok(Date.now() >= dueAt.getTime(), 'not before its stored time')
    t.match(await importEnd(service, between.id, 60_000), {
      state: 'failed',
      error_message: /answered with status 503, expected 200 \(the last of 3 tries\)$/,
      download: { attempt: 3 },
    })
    t.equal(web.requests.get('/dead')!.length, 3)
    t.same(
      await until(
        'an empty staging',
        () => stagedFiles(),
        (names) => names.length === 0,
      ),
      [],
    )
  },
)

t.test('the time of the next try is shown while it is waited for', { timeout: 300_000 }, async (t) => {
  const { imports } = service.collections
  const web = await startRawWebServer(t, { '/dead': answer(503, {}), '/whole': answer(200, {}, rows) })
  const dead = await createUrlImport(service, `http://127.0.0.1:${web.port}/dead`)
  const { id } = await createUrlImport(service, `http://127.0.0.1:${web.port}/whole`, {
    begins_at: '2100-01-01T00:00:00Z',
  })
  await viewOf(dead.id, 'the wait', (view) => typeof view.download?.next_attempt_at === 'string')
  await service.post(`/subscriber_imports/${dead.id}/cancel`)
  const cancelled = await service.get(`/subscriber_imports/${dead.id}`)
  t.match(cancelled, { state: 'cancelled', download: { next_attempt_at: null } })

  // The folder is a file, so that it can't be used. The step breaks off, which doesn't count as a failed try.
  const folder = path.join(service.dataFolder, 'staging', String(id))
  await mkdir(path.dirname(folder), { recursive: true })
  await writeFile(folder, 'not a folder')
  await imports.updateOne({ _id: id }, { $set: { begins_at: new Date() } })
  const inAnHour = new Date(Date.now() + 3_600_000)
  await until(
    'a step that broke off',
    () =>
      imports.findOneAndUpdate(
        { _id: id, 'lease.token': null, 'lease.not_before': { $ne: null } },
        { $set: { 'lease.not_before': inAnHour } },
      ),
    (document) => document !== null,
    60_000,
  )
  const postponed = await service.get(`/subscriber_imports/${id}`)
  t.match(postponed, { state: 'downloading', download: { attempt: 1, next_attempt_at: null } })
  const job = (await service.get('/jobs/unfinished')).find((one: Json) => one.id === id)
  t.equal(new Date(job.retry_at).getTime(), Math.floor(inAnHour.getTime() / 1000) * 1000)
  await rm(folder)
  await imports.updateOne({ _id: id }, { $set: { 'lease.not_before': new Date(0) } })
  const whole = await importEnd(service, id, 60_000)
  t.match(whole, { state: 'finished', download: { attempt: 1, next_attempt_at: null } })
  t.equal(web.requests.get('/whole')!.length, 1)
})

t.test('a download can be paused, unpaused and cancelled in its middle', { timeout: 300_000 }, async (t) => {
  const closed: Promise<unknown>[] = []
  let isWell = false
  const web = await startRawWebServer(t, {
    '/slow': (socket, request) => {
      closed.push(once(socket, 'close'))
      return isWell ? answer(200, {}, rows)(socket, request) : halfOf(socket, request)
    },
  })
  const [paused, cancelled] = await Promise.all(
    [1, 2].map(async () => {
      const { id } = await createUrlImport(service, `http://127.0.0.1:${web.port}/slow`)
      await viewOf(id, 'a half', (view) => view.download?.bytes_received === 14)
      return id as number
    }),
  )
  const askedAt = performance.now()
  await service.post(`/subscriber_imports/${paused}/pause`)
  await service.post(`/subscriber_imports/${cancelled}/cancel`)
  await Promise.all(closed)
  const seconds = (performance.now() - askedAt) / 1000
  t.ok(seconds < 10, `both connections were closed after ${seconds.toFixed(1)} s`)
  const before = (await service.collections.imports.findOne({ _id: paused! }))!
  t.match(before, { state: 'paused', paused_from: 'downloading', download: { attempts: 0 } })
  t.equal((await service.get(`/subscriber_imports/${cancelled}`)).state, 'cancelled')

  isWell = true
  const pausedMs = 600_000
  await service.collections.imports.updateOne(
    { _id: paused! },
    { $set: { paused_at: new Date(before.paused_at!.getTime() - pausedMs) } },
  )
  await service.post(`/subscriber_imports/${paused}/unpause`)
  const whole = await importEnd(service, paused!, 60_000)
  t.same(countsOf(whole), { added: 2 })
  const after = (await service.collections.imports.findOne({ _id: paused! }))!
  t.ok(
    after.download.ends_at!.getTime() - before.download.ends_at!.getTime() >= pausedMs,
    'the time of a pause is not counted',
  )
  t.equal(after.paused_at, null)
})

t.test('no try begins for which the total time leaves too little', { timeout: 300_000 }, async (t) => {
  await engine.stop()
  await startEngine({ bounds: { totalMs: 6_000, retryAfterMs: [10_000] } })
  const web = await startRawWebServer(t, { '/dead': answer(503, {}) })
  const { id } = await createUrlImport(service, `http://127.0.0.1:${web.port}/dead`)
  t.match(await importEnd(service, id), {
    state: 'failed',
    error_message:
      /status 503, expected 200 \(the next try would begin after the 0\.1 minutes that all tries have\)$/,
  })
})
