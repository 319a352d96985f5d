import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { ownOrigin } from '../../shared/runtime/process-end.ts'
import { Engines } from '../helpers/engines.ts'
import { createList, importEnd, startService, until } from '../helpers/service.ts'

/**
 * How long an import stays unfinished when the only engine is killed in each of its states. Another one is started at
 * once. It finds that the first one has ended on its machine, and waits for no lease. Where a system doesn't say so, it
 * waits for a lease of 12 s, and polls every 3 s. The time of its own start, which other tests make longer, doesn't
 * count. A stall of the database, which the engine logs, delays it by its length and 12 s more (docs/recovery-times.md).
 */

const maxMs = ownOrigin === null ? 30_000 : 10_000
const watchMs = 12_000

t.jobs = 3

/** By how much stalls of the database delayed the engines. */
const delayMs = (log: string): number =>
  [...log.matchAll(/"stall_ms":(\d+)/g)].reduce((sum, [, stallMs]) => sum + Number(stallMs) + watchMs, 0)

/** An import that deactivates nothing is small, and is written whole. */
const small = 'a small import'

const deaths: Record<string, string> = {
  scheduled: 'findAndModify imports started_at before 1',
  splitting: 'insert import_chunks before 1',
  'a running chunk': 'update import_chunks "state":"done"} > commitTransaction before 1',
  deactivating: 'update import_chunks deactivated_to > commitTransaction before 1',
  finishing: 'findAndModify imports "state":"finished" before 1',
  settling: 'findAndModify imports "finalized":true before 1',
  [small]: 'findAndModify imports number_of_records > commitTransaction before 1',
}

for (const [state, crashAt] of Object.entries(deaths))
  t.test(`an engine that is killed: ${state}`, { timeout: 240_000, buffered: true }, async (t) => {
    const service = await startService(t, ['control-plane'])
    const engines = new Engines(t, service)
    const { post, collections } = service
    const list = await createList(service)
    for (const name of ['a', 'z'])
      await post(`/mailing_lists/${list.id}/subscribers`, { subscriber: { email: `${name}@example.com` } })
    const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        ...{ column_mapping: ['email'], file_format: { csv_has_headers: false } },
        deactivate_subscribers_not_in_import: state !== small,
        file_source: { type: 'json', content: 'a@example.com\nb@example.com\n' },
      },
    })
    const engine = await engines.start(crashAt)
    await engines.untilEnded(engine)
    await engines.start()
    const readyAt = Date.now()
    const view = await importEnd(service, id, 120_000)
    await until(
      'its clearing up',
      () => collections.imports.findOne({ _id: id }),
      (document) => document!.finalized,
      120_000,
    )
    const tookMs = Date.now() - readyAt
    t.equal(view.state, 'finished')
    t.comment(`${state}: cleared up ${tookMs} ms after another engine was ready`)
    const stallsMs = delayMs(engines.log)
    t.ok(tookMs < maxMs + stallsMs, `${tookMs} ms, of these ${stallsMs} for stalls of the database`)
  })

t.test(
  'an engine that is killed while it sends a callback',
  { timeout: 240_000, buffered: true },
  async (t) => {
    const service = await startService(t, ['control-plane'])
    const engines = new Engines(t, service)
    const calledAt: number[] = []
    const server = createServer((_request, response) => {
      // The first call is never answered.
      if (calledAt.push(Date.now()) > 1) response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.closeAllConnections())
    t.teardown(() => server.close())
    const engine = await engines.start()
    const list = await createList(service)
    await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        callback_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        file_source: { type: 'json', content: 'a@example.com\n' },
      },
    })
    const calls = async () => calledAt.length
    await until('the callback', calls, (number) => number === 1, 30_000)
    await engines.kill([engine])
    const killedAt = Date.now()
    await engines.start()
    await until('the callback of another engine', calls, (number) => number === 2, 90_000)
    const tookMs = calledAt[1]! - killedAt
    t.comment(`sent again ${tookMs} ms after the kill`)
    t.ok(tookMs < 60_000, `${tookMs} ms`)
  },
)
