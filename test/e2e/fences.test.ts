import t from 'tap'
import { crashAt } from '../helpers/crash-at.ts'
import {
  countsOf,
  createList,
  importEnd,
  resume,
  startService,
  until,
  untilIdle,
  type Json,
} from '../helpers/service.ts'

/**
 * The answers of these requests are final, although an engine or a control plane is suspended or killed at the worst
 * moment. A batch, or a small import as a whole, is about to commit when a pause, a cancel or a new limit is answered,
 * or an import ends while a page of imports is read.
 */

const rowsOf = (count: number): string =>
  Array.from({ length: count }, (_, i) => `row${i}@example.com\n`).join('')

t.setTimeout(300_000)
const service = await startService(t, ['control-plane'])
const { collections, get, post, call } = service
const there = (listId: number) =>
  collections.subscribers.countDocuments({ mailing_list_id: listId, status: 'active' })

/** The commit of all that a small import writes, and one of a larger import's batches. */
const small = { rows: 500, commit: 'findAndModify imports "state":"finished" > commitTransaction before 1' }
const large = { rows: 60_000, commit: 'update import_chunks next_record > commitTransaction before 3' }

/** An import with an engine that is suspended before that commit. */
async function suspendedImport({
  rows,
  commit,
  fields = [],
}: {
  rows: number
  commit: string
  fields?: Json[]
}) {
  const organization = await post('/organizations', { organization: { name: `O${Math.random()}` } })
  const list = await createList(service, fields, { organization_id: organization.id })
  const engine = await service.start('engine', crashAt(`${commit} SIGSTOP`))
  const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_format: { csv_has_headers: false },
      file_source: { type: 'json', content: rowsOf(rows) },
    },
  })
  await until(
    'the suspension',
    async () => engine.log(),
    (text) => text.includes('SIGSTOP at'),
  )
  return { id, list, organization, engine }
}

for (const size of [large, small])
  t.test(`a paused import of ${size.rows} rows writes no row after the answer`, async (t) => {
    const { id, list, engine } = await suspendedImport(size)
    const view = await post(`/subscriber_imports/${id}/pause`)
    t.equal(await there(list.id), view.stats.subscribers.added, 'the answer counts what is there')
    await resume(engine.child, engine.log)
    await untilIdle(engine)
    t.equal(await there(list.id), view.stats.subscribers.added, 'and that stays so')
    t.equal((await get(`/subscriber_imports/${id}`)).stats.records_imported, view.stats.records_imported)
    await post(`/subscriber_imports/${id}/unpause`)
    t.same(countsOf(await importEnd(service, id)), { added: size.rows }, 'every row once')
    t.notMatch(engine.log(), /"level":"error"/)
    await engine.stop()
  })

t.test('a pause that another transaction keeps waiting says to send it again', async (t) => {
  const list = await createList(service)
  const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], file_source: { type: 'json', content: 'email\n' } },
      begins_at: '2100-01-01T00:00',
    },
  })
  const session = service.client.startSession()
  session.startTransaction()
  await collections.imports.updateOne({ _id: id }, { $set: { finalized: true } }, { session })
  const pausing = await call('POST', `/subscriber_imports/${id}/pause`)
  t.match(pausing, { status: 503, body: { error_message: /kept an import locked for 10 s.*again/ } })
  t.equal(pausing.headers.get('retry-after'), '5')
  await session.abortTransaction()
  await session.endSession()
  t.match(await post(`/subscriber_imports/${id}/pause`), { state: 'paused' })
})

for (const size of [large, small])
  t.test(`of a cancelled import of ${size.rows} rows none is written after the answer`, async (t) => {
    const { id, list, organization, engine } = await suspendedImport(size)
    const view = await post(`/subscriber_imports/${id}/cancel`)
    const { status } = await call('PUT', `/organizations/${organization.id}`, {
      organization: { subscriber_limit: 100 },
    })
    t.equal(status, 200)
    const active = await there(list.id)
    t.equal(active, view.stats.subscribers.added)
    await resume(engine.child, engine.log)
    const end = await until(
      'the end of all work',
      () => collections.imports.findOne({ _id: id }),
      (document) => document!.finalized,
    )
    t.equal(await there(list.id), active)
    t.equal(end!.totals!.added, active, 'the totals are those of the answer')
    await engine.stop()
  })

for (const size of [large, small])
  t.test(`a new limit binds an import of ${size.rows} rows from its answer on`, async (t) => {
    const { id, list, organization, engine } = await suspendedImport(size)
    const limit = (await there(list.id)) + 100
    const { status } = await call('PUT', `/organizations/${organization.id}`, {
      organization: { subscriber_limit: limit },
    })
    t.equal(status, 200)
    await resume(engine.child, engine.log)
    t.same(countsOf(await importEnd(service, id)), { added: limit, skipped_over_limit: size.rows - limit })
    t.equal(await there(list.id), limit)
    await engine.stop()
  })

t.test('the primary key is not changed under an import that failed or was cancelled', async (t) => {
  for (const end of ['cancelled', 'failed'] as const) {
    const { id, list, engine } = await suspendedImport({
      ...{ rows: 4_000, commit: 'update import_chunks next_record > commitTransaction before 1' },
      fields: [{ name: 'No', field_type: 'text', required: true }],
    })
    const [field] = await get(`/mailing_lists/${list.id}/custom_fields`)
    const change = () =>
      call('PUT', `/mailing_lists/${list.id}`, { mailing_list: { primary_key_custom_field_id: field.id } })
    if (end === 'cancelled') await post(`/subscriber_imports/${id}/cancel`)
    // An engine fails the import because of one chunk while another engine has its other chunks.
    else
      await collections.imports.updateOne(
        { _id: id },
        { $set: { state: 'failed', finished_at: new Date(), error_message: 'x' } },
      )
    const early = await change()
    t.ok(early.body.error_message.includes(`import ${id} of the list is cleared up (it is ${end})`))
    await resume(engine.child, engine.log)
    const late = await until(
      'the change',
      change,
      ({ body }) => body.success || /empty/.test(body.error_message),
    )
    const subscribers = await there(list.id)
    t.equal(late.body.success, subscribers === 0, `${subscribers} rows of an import that ${end}`)
    if (end === 'cancelled') t.equal(subscribers, 0)
    await engine.stop()
  }
})

t.test('an import that ends while a page of imports is read is on it once', async (t) => {
  const list = await createList(service)
  const imports = `/mailing_lists/${list.id}/subscriber_imports`
  const create = () =>
    post(imports, {
      subscriber_import: {
        ...{ column_mapping: ['email'], begins_at: '2100-01-01T00:00' },
        file_source: { type: 'json', content: 'ann@example.com\n' },
      },
    })
  const [ended, id] = [(await create()).id, (await create()).id]
  await post(`/subscriber_imports/${ended}/cancel`)
  const other = service.processes['control-plane']!
  const reading = await service.start('control-plane', {
    ...crashAt('find imports "finished_at":null after 1 SIGSTOP'),
  })
  const page = get(imports)
  await until(
    'the read of those that have not ended',
    async () => reading.log(),
    (text) => text.includes('SIGSTOP at'),
  )
  service.processes['control-plane'] = other
  await post(`/subscriber_imports/${id}/cancel`)
  await resume(reading.child, reading.log)
  t.same(
    (await page).map((shown: Json) => shown.id),
    [id, ended],
  )
  await reading.stop()
})

t.test('a limit whose request died after its commit is enforced on running chunks', async (t) => {
  const organization = await post('/organizations', { organization: { name: 'L' } })
  const list = await createList(service, [], { organization_id: organization.id })
  const engine = await service.start('engine')
  const survivor = service.processes['control-plane']!
  const doomed = await service.start('control-plane', {
    ...crashAt('update organizations subscriber_limit > commitTransaction after 1'),
  })
  const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_format: { csv_has_headers: false },
      file_source: { type: 'json', content: rowsOf(400_000) },
    },
  })
  await until(
    'rows',
    () => there(list.id),
    (rows) => rows > 3_000,
  )
  const path = `/organizations/${organization.id}`
  await t.rejects(call('PUT', path, { organization: { subscriber_limit: 4_000 } }))
  t.match(doomed.log(), /SIGKILL at/)
  service.processes['control-plane'] = survivor
  t.equal((await get(path)).subscriber_limit, 4_000)
  await until(
    'its enforcement',
    () => collections.organizations.findOne({ _id: organization.id }),
    (document) => document!.limit_change === undefined,
  )
  const active = await there(list.id)
  const end = await importEnd(service, id)
  t.equal(await there(list.id), active, 'no subscriber became active after it')
  t.equal(end.stats.subscribers.skipped_over_limit, 400_000 - active)
  await engine.stop()
})
