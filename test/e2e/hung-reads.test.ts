import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createUrlImport, startHastyEngine } from '../helpers/downloads.ts'
import { couldNotRelease } from '../helpers/ended-late.ts'
import { Engines } from '../helpers/engines.ts'
import { hang, hasty, importOf, threads, type HungFile } from '../helpers/hung-files.ts'
import { head, startRawWebServer } from '../helpers/raw-web-server.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  startService,
  until,
  type Service,
} from '../helpers/service.ts'
import { unpackableText } from '../helpers/staged-content.ts'

/**
 * Reads that never return, as on a file server that hangs. A FIFO replaces the file, and opening it waits for a
 * writer. The process in which work hangs ends, and others, or its successor, resume its work.
 */

t.setTimeout(500_000)
t.jobs = 4

/** Creates an import whose file hangs. */
async function createHungImport(
  t: Test,
  service: Service,
  listId: number,
): Promise<HungFile & { id: number }> {
  const later = new Date(Date.now() + 3_600_000).toISOString()
  const { id } = await service.post(
    `/mailing_lists/${listId}/subscriber_imports`,
    importOf(`a@example.com,${unpackableText}\n`, { begins_at: later, column_mapping: ['email', null] }),
  )
  const file = await hang(t, path.join(service.dataFolder, 'staging', String(id), 'content'))
  await service.collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date() } })
  return { id, ...file }
}

/** Of each test its own: the runner writes results into it. */
const buffered = () => ({ buffered: true, timeout: 400_000 })

t.test(
  'an engine with a step that hangs says so and ends, and another one resumes it',
  buffered(),
  async (t) => {
    const { service, engine, id, comeBack, released } = await repeatWhile(
      async () => {
        const service = await startService(t, ['control-plane'], threads)
        const engine = await startHastyEngine(t, service, hasty)
        const file = await createHungImport(t, service, (await createList(service)).id)
        await engine.ended
        return {
          ...{ service, engine, ...file },
          released: await service.collections.imports.findOne({ _id: file.id }),
        }
      },
      ({ engine }) => couldNotRelease(engine),
    )
    t.match(
      engine.log(),
      /the step \(splitting\) of import \d+ has made no progress for 3 s; it waits for the opening of \d+\/content\./,
    )
    t.match(engine.log(), /the process ends by SIGKILL/)
    t.match(released, { state: 'splitting', lease: { token: null, tries: 1, deaths: 0 } })
    await comeBack()
    await service.start('engine')
    t.match(await importEnd(service, id, 60_000), { state: 'finished', stats: { subscribers: { added: 1 } } })
  },
)

t.test('a file that always hangs fails its import after five tries; others go on', buffered(), async (t) => {
  const { service, list, id, others, leases } = await repeatWhile(
    async () => {
      const service = await startService(t, ['control-plane'], threads)
      const list = await createList(service)
      const { id } = await createHungImport(t, service, list.id)
      const others: number[] = []
      const leases = []
      let isLate = false
      for (let tries = 1; tries <= 5 && !isLate; tries += 1) {
        const other = await service.post(
          `/mailing_lists/${(await createList(service)).id}/subscriber_imports`,
          importOf('b@example.com\n'),
        )
        others.push(other.id)
        const engine = await startHastyEngine(t, service, hasty)
        await engine.ended
        leases.push((await service.collections.imports.findOne({ _id: id }))!.lease)
        isLate = couldNotRelease(engine)
      }
      return { service, list, id, others, leases, isLate }
    },
    ({ isLate }) => isLate,
  )
  t.match(leases, Array(5).fill({ token: null, deaths: 0 }))
  await service.start('engine')
  t.match(await importEnd(service, id), {
    state: 'failed',
    error_message:
      /^nothing moved for minutes while an engine prepared the import \(splitting\): .* \(the last of 5 tries\)\. Check that the disk or file server of DATA_DIR answers/,
  })
  t.match(await importText(service, list.id, 'b@example.com\n'), { state: 'finished' })
  for (const other of others) t.match(await importEnd(service, other), { state: 'finished' })
})

t.test('others finish while a step hangs', buffered(), async (t) => {
  const service = await startService(t, ['control-plane'], threads)
  const watch = { checkEveryMs: 1_000, stalledAfterMs: 120_000 }
  const engine = await startHastyEngine(t, service, { watch })
  const { id, letGo } = await createHungImport(t, service, (await createList(service)).id)
  const state = async () => (await service.get(`/subscriber_imports/${id}`)).state
  // Its time was moved without a wake-up.
  await until('the step', state, (now) => now === 'splitting', 30_000)
  const other = await importText(service, (await createList(service)).id, 'b@example.com\n')
  t.match(other, { state: 'finished' })
  t.match(await service.get(`/subscriber_imports/${id}`), { state: 'splitting' })
  letGo()
  await engine.stop()
})

t.test('an engine with a chunk that hangs ends, and another one writes the chunk', buffered(), async (t) => {
  const { service, engine, id, comeBack } = await repeatWhile(
    async () => {
      const service = await startService(t, ['control-plane'], threads)
      const engines = new Engines(t, service)
      const list = await createList(service)
      // A small import would have no chunk.
      const rows = Array.from({ length: 4_000 }, (_, i) => `a${i}@example.com\n`)
      const { id } = await service.post(
        `/mailing_lists/${list.id}/subscriber_imports`,
        importOf(rows.join('')),
      )
      // This one splits the file and dies.
      const splitter = await engines.start('findAndModify import_chunks before 1')
      await splitter.ended
      await engines.endLeaseOf(splitter)
      const { partition } = (await service.collections.imports.findOne({ _id: id }))!
      const { comeBack } = await hang(t, path.join(service.dataFolder, 'staging', partition!))
      const engine = await startHastyEngine(t, service, hasty)
      await engine.ended
      return { service, engine, id, comeBack }
    },
    ({ engine }) => couldNotRelease(engine),
  )
  t.match(engine.log(), /chunk \d+:000000 of import \d+ has made no progress for 3 s/)
  t.match(await service.collections.chunks.findOne({}), { state: 'ready', lease: { tries: 1, deaths: 0 } })
  await comeBack()
  await service.start('engine')
  t.match(await importEnd(service, id, 60_000), {
    state: 'finished',
    stats: { subscribers: { added: 4_000 } },
  })
})

t.test('an engine whose step is slow but advances goes on', buffered(), async (t) => {
  const service = await startService(t, ['control-plane'], threads)
  // The file takes longer than what an engine waits for one piece of it.
  const engine = await startHastyEngine(t, service, { watch: { checkEveryMs: 150, stalledAfterMs: 12_000 } })
  const rows = Array.from({ length: 80 }, (_, i) => `row${i}@example.com\n`)
  const web = await startRawWebServer(t, {
    '/slow': async (socket) => {
      socket.write(head(200, { 'content-length': rows.join('').length }))
      for (const row of rows) {
        socket.write(row)
        await sleep(200)
      }
      socket.end()
    },
  })
  const { id } = await createUrlImport(service, `http://127.0.0.1:${web.port}/slow`)
  const view = await importEnd(service, id, 60_000)
  t.same([view.state, countsOf(view)], ['finished', { added: 80 }])
  t.equal(web.requests.get('/slow')!.length, 1, 'it came in one try')
  t.equal(await engine.stop(), 0)
})
