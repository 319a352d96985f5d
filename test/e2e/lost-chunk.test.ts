import t from 'tap'
import { Engines } from '../helpers/engines.ts'
import { lockRow } from '../helpers/locked-row.ts'
import { countsOf, createList, importEnd, importText, startService, until } from '../helpers/service.ts'

t.setTimeout(300_000)
const service = await startService(t, ['control-plane'])
const { collections } = service
const engines = new Engines(t, service)
const emailsOf = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `x${String(i).padStart(6, '0')}@example.com`)

t.test('a chunk whose every try fails makes its import fail after five tries', async (t) => {
  const list = await createList(service, [{ name: 'Place', field_type: 'text' }])
  const [field] = await service.get(`/mailing_lists/${list.id}/custom_fields`)
  // The server accepts no such value: the error doesn't pass, and the engine doesn't know it.
  const index = await collections.subscribers.createIndex(
    { [`custom_fields.${field.id}`]: '2dsphere' },
    { partialFilterExpression: { mailing_list_id: list.id } },
    {},
  )
  const engine = await engines.start()
  const view = await importText(service, list.id, 'a@example.com,nowhere\n', {
    column_mapping: ['email', 'Place'],
    file_format: { csv_has_headers: false },
  })
  await collections.subscribers.dropIndex(index)
  t.match(view, {
    state: 'failed',
    error_message: /^chunk \d+:000000 failed 5 times in a row, the last time with: .*geo/,
  })
  t.match(countsOf(view), {})
  t.equal(engine.log().match(/a chunk failed: /g)?.length, 5)
  t.equal(await collections.subscribers.countDocuments({ mailing_list_id: list.id }), 0)
  await engines.kill([engine])
  await engines.endLeaseOf(engine)
})

t.test('a chunk that is claimed five times without a batch fails its import', async (t) => {
  const list = await createList(service)
  const letGo = await lockRow(service, `${list.id}:x000000@example.com`)
  const engine = await engines.start()
  const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], file_format: { csv_has_headers: false } },
      // A small import would have no chunk.
      file_source: { type: 'json', content: emailsOf(4_000).join('\n') },
    },
  })
  // Spares the test three of the take-overs.
  for (const [claims, asIf] of [
    [1, 4],
    [5, 5],
  ] as const) {
    const held = { import_id: id, state: 'running', 'lease.tries': claims } as const
    const expire = () =>
      collections.chunks.updateOne(held, { $set: { 'lease.tries': asIf, 'lease.until': new Date(0) } })
    await until(`claim ${claims}`, expire, ({ modifiedCount }) => modifiedCount === 1)
  }
  t.match(await importEnd(service, id), {
    state: 'failed',
    error_message: /^chunk \d+:000000 was claimed 5 times in a row without a batch of it being written/,
  })
  await letGo()
  await engines.kill([engine])
  await engines.endLeaseOf(engine)
})

t.test('a dry run whose engine died within a chunk goes on under the limit', async (t) => {
  const { id: organization_id } = await service.post('/organizations', {
    organization: { name: 'Limited', time_zone_name: 'UTC', subscriber_limit: 4_500 },
  })
  const list = await createList(service, [], { organization_id })
  const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...{ dry_run: true, column_mapping: ['email'], file_format: { csv_has_headers: false } },
      file_source: { type: 'json', content: emailsOf(10_000).join('\n') },
    },
  })
  const dying = await engines.start('update import_chunks },"quota_reserved" > commitTransaction after 1')
  await engines.untilEnded(dying)
  const begun = await collections.chunks.findOne({ import_id: id, quota_used: { $gt: 0 }, state: 'running' })
  t.ok(begun, 'a chunk has used a part of the limit')
  await engines.endLeaseOf(dying)
  const engine = await engines.start()
  t.same(countsOf(await importEnd(service, id)), { added: 4_500, skipped_over_limit: 5_500 })
  await engines.kill([engine])
  await engines.endLeaseOf(engine)
})

t.test('an engine that has lost a chunk fails no import because of it', async (t) => {
  const list = await createList(service)
  const emails = emailsOf(20_000)
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
  // The engine finds a damaged chunk, and is suspended before it reports that.
  await collections.chunks.updateOne({ _id: first }, { $set: { crc32: crc32 ^ 1 } })
  const suspended = await engines.start(`update import_chunks "_id":"${first}" before 1 SIGSTOP`)
  await engines.untilSuspended(suspended)
  await collections.chunks.updateOne({ _id: first }, { $set: { crc32 } })

  // The others do all of it but for the last row, which keeps the import from its end.
  const letGo = await lockRow(service, `${list.id}:${emails.at(-1)}`)
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
    (log) => log.includes('other engines marked it as dead'),
    30_000,
  )
  t.equal((await collections.imports.findOne({ _id: id }))!.state, 'importing')
  await letGo()
  const view = await importEnd(service, id, 60_000)
  t.same([view.state, countsOf(view)], ['finished', { added: emails.length }])
})
