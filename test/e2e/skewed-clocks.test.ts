import t from 'tap'
import { SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { autoresponder } from '../helpers/autoresponder.ts'
import { beginHeldImport, someRowsIn } from '../helpers/large-import.ts'
import { createList, importEnd, importText, startService } from '../helpers/service.ts'

/** Machines have wrong clocks. What processes compare uses the database's clock, which is this machine's. */

const hour = 3_600_000
const preload = new URL('../helpers/shifted-clock.ts', import.meta.url).href
const ahead = (ms: number) => ({
  NODE_OPTIONS: `--import=${preload}`,
  ROLLCALL_TEST_CLOCK_AHEAD_MS: String(ms),
})
const isNow = (time: Date | null | undefined): boolean =>
  Math.abs((time?.getTime() ?? 0) - Date.now()) < 60_000

t.setTimeout(120_000)
const service = await startService(t, [], { UPLOAD_MAX_MB: '10' })
const { collections } = service
await service.start('control-plane', ahead(hour))
await service.start('engine', ahead(hour))
await service.start('ftp', ahead(-2 * hour))

t.test('reactions are due by the clock by which they are sent', async (t) => {
  const list = await createList(service)
  const of = (_id: number, name: string) =>
    autoresponder({ _id, mailing_list_id: list.id, organization_id: list.organization_id, name })
  await collections.autoresponders.insertMany([
    { ...of(1, 'Welcome'), trigger_include_subscribers_from_import: true },
    { ...of(2, 'Again'), trigger: 'autoresponder_open', trigger_autoresponder_to_open_id: 1 },
  ])
  const view = await importText(service, list.id, 'email\nann@example.com\n', {
    autoresponders: { subscription: { trigger: true } },
  })
  t.equal(view.state, 'finished')
  const { id } = (await collections.subscribers.findOne({ mailing_list_id: list.id }))!
  await service.call('PUT', `/mailing_lists/${list.id}/subscribers/${id}`, {
    subscriber: {},
    run_autoresponders: true,
  })
  const event = {
    ...{ id: 'e1', type: 'opened', privacy: false, message_id: 'm1', autoresponder_id: 1, subscriber_id: id },
    occurred_at: new Date(Date.now() + hour / 2).toISOString(),
  }
  await service.post('/delivery_events', { delivery_events: [event] })
  const reactions = await collections.reactions.find().sort({ id: 1 }).toArray()
  t.same(
    reactions.map((reaction) => [
      reaction.import_id === null,
      reaction.autoresponder_id,
      isNow(reaction.due_at),
    ]),
    [
      [false, 1, true],
      [true, 1, true],
      [true, 2, true],
    ],
    'of an import, of a request and of an event',
  )
  const responders = await collections.autoresponders.find().toArray()
  t.same(
    responders.map(({ triggered_at: at }) => isNow(at)),
    [true, true],
  )
  t.equal(
    (await service.post<object[]>('/outbox/take')).length,
    3,
    'they are due by the clock of the database',
  )
})

t.test('the quota has the times of the database', async (t) => {
  const list = await createList(service)
  const later = new Date(Date.now() + 24 * hour).toISOString()
  await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], begins_at: later },
      file_source: { type: 'json', content: 'email\nann@example.com\n' },
    },
  })
  const { imports } = (await collections.ledgers.findOne({ _id: 1 }))!
  t.ok(isNow(imports.at(-1)?.entered_at))
})

t.test('a dead engine is replaced as fast when the clock of the database was set back', async (t) => {
  const rows = 40_000
  const { id, letGo } = await beginHeldImport(service, new SubscriberFile({ rows, seed: 6 }))
  await someRowsIn(service, id, 1)
  await service.processes.engine!.stop('SIGKILL')
  t.ok((await service.get(`/subscriber_imports/${id}`)).stats.records_imported < rows)
  await letGo()
  // What it had leased lies as far ahead as the clock was set back.
  const setBack = (field: string) => [{ $set: { [field]: { $add: [`$${field}`, 600_000] } } }]
  await collections.engines.updateMany({ dead: false }, setBack('lease_until'))
  await collections.chunks.updateMany({ state: 'running' }, setBack('lease.until'))
  const startedAt = Date.now()
  await service.start('engine')
  t.match(await importEnd(service, id), { state: 'finished', stats: { records_imported: rows } })
  t.comment(`finished ${Date.now() - startedAt} ms after the other engine had started`)
})
