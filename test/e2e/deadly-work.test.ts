import t from 'tap'
import { Engines, type RunningEngine } from '../helpers/engines.ts'
import { lockRow } from '../helpers/locked-row.ts'
import { countsOf, createList, importEnd, startService, until, type Json } from '../helpers/service.ts'

/** Work that kills each of its engines is given up after some deaths. */

t.setTimeout(240_000)
const service = await startService(t, ['control-plane'])
const { collections } = service
const engines = new Engines(t, service)

/** One row, or as many as have chunks. */
const [small, large] = [1, 4_000]
const rowsOf = (count: number): string =>
  Array.from({ length: count }, (_, i) => `${i === 0 ? 'a' : `b${i}`}@example.com\n`).join('')

const create = (listId: number, rows: number): Promise<Json> =>
  service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], file_format: { csv_has_headers: false } },
      file_source: { type: 'json', content: rowsOf(rows) },
    },
  })

for (const { what, rows, point } of [
  { what: 'the split of an import', rows: large, point: 'insert import_chunks before 1' },
  { what: 'a small import', rows: small, point: 'insert subscribers before 1' },
])
  t.test(`after five engines died of ${what}, the import fails`, async (t) => {
    const { id } = await create((await createList(service)).id, rows)
    for (let deaths = 1; deaths <= 5; deaths += 1) {
      const engine = await engines.start(point)
      await engine.ended
      t.equal((await collections.imports.findOne({ _id: id }))!.state, 'splitting', `death ${deaths}`)
      await engines.endLeaseOf(engine)
    }
    const healthy = await engines.start()
    const { state, error_message: message } = await importEnd(service, id, 30_000)
    t.equal(state, 'failed')
    t.match(
      message,
      /^5 engines that prepared the import \(splitting\) died one after the other, .*out-of-memory/,
    )
    await engines.kill([healthy])
    await engines.endLeaseOf(healthy)
  })

t.test(
  'of two chunks that engines died with, each runs alone: one is given up, the other ends',
  async (t) => {
    const [deadly, innocent] = [await createList(service), await createList(service)]
    const lock = (list: Json) => lockRow(service, `${list.id}:a@example.com`)
    let [letDeadlyGo, letInnocentGo] = [await lock(deadly), await lock(innocent)]
    const deadlyId = (await create(deadly.id, large)).id as number
    const innocentId = (await create(innocent.id, large)).id as number
    const leasedBy = async (engine: RunningEngine) => {
      const { _id } = (await engines.documentOf(engine))!
      return collections.chunks.distinct('import_id', { state: 'running', 'lease.holder': _id })
    }
    for (let deaths = 1; deaths <= 5; deaths += 1) {
      const engine = await engines.start()
      const wanted = deaths <= 2 ? [deadlyId, innocentId] : [deadlyId]
      const hasAll = (ids: number[]) => wanted.every((id) => ids.includes(id))
      const seen = await until('the chunks', () => leasedBy(engine), hasAll, 60_000)
      t.same(seen, wanted, `what runs before death ${deaths}`)
      await engines.kill([engine])
      await engines.endLeaseOf(engine)
      // The server ends a transaction after a minute.
      await letDeadlyGo()
      letDeadlyGo = await lock(deadly)
      if (deaths === 2) await letInnocentGo()
    }
    letInnocentGo = letDeadlyGo
    const healthy = await engines.start()
    const failed = await importEnd(service, deadlyId, 60_000)
    t.equal(failed.state, 'failed')
    t.match(failed.error_message, /^5 engines that worked on chunk \d+:000000 died one after the other/)
    const ended = await importEnd(service, innocentId, 60_000)
    t.same([ended.state, countsOf(ended)], ['finished', { added: large }])
    const chunk = await collections.chunks.findOne({ import_id: innocentId })
    t.equal(chunk?.lease.deaths ?? 0, 0)
    await letInnocentGo()
    await engines.kill([healthy])
  },
)
