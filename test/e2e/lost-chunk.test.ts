import t from 'tap'
import { Engines } from '../helpers/engines.ts'
import { holdRow } from '../helpers/held-row.ts'
import { countsOf, createList, importEnd, startService, until } from '../helpers/service.ts'

t.setTimeout(120_000)
const service = await startService(t, ['control-plane'])
const { collections } = service
const engines = new Engines(t, service)

t.test('an engine that has lost a chunk fails no import because of it', async (t) => {
  const list = await createList(service)
  const emails = Array.from({ length: 20_000 }, (_, i) => `x${String(i).padStart(6, '0')}@example.com`)
  const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], file_format: { csv_has_headers: false } },
      file_source: { type: 'json', content: `${emails.join('\n')}\n` },
    },
  })
  const first = `${id}:000000`
  const splitter = await engines.start('findAndModify import_chunks before 1')
  await splitter.ended
  const { crc32 } = (await collections.chunks.findOne({ _id: first }))!
  // To the engine the chunk is damaged; it is suspended when it is about to say so.
  await collections.chunks.updateOne({ _id: first }, { $set: { crc32: crc32 ^ 1 } })
  const suspended = await engines.start(`update import_chunks "_id":"${first}" before 1 SIGSTOP`)
  await engines.untilSuspended(suspended)
  await collections.chunks.updateOne({ _id: first }, { $set: { crc32 } })

  // The others do all of it but for the last row, which keeps the import from its end.
  const letGo = await holdRow(service, `${list.id}:${emails.at(-1)}`)
  await engines.endLeaseOf(suspended)
  await engines.start()
  await until(
    'all chunks but the last one',
    () => collections.chunks.countDocuments({ import_id: id, state: { $ne: 'done' } }),
    (open) => open === 1,
    60_000,
  )
  await engines.resume(suspended)
  await until(
    'a new life of the engine',
    async () => suspended.log(),
    (log) => log.includes('took this engine for dead'),
    30_000,
  )
  t.equal((await collections.imports.findOne({ _id: id }))!.state, 'importing')
  await letGo()
  const view = await importEnd(service, id, 60_000)
  t.same([view.state, countsOf(view)], ['finished', { added: emails.length }])
})
