import t from 'tap'
import { SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { ownOrigin } from '../../shared/runtime/process-end.ts'
import { couldNotRelease } from '../helpers/ended-late.ts'
import { beginHeldImport, beginLargeImport, someRowsIn } from '../helpers/large-import.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { countsOf, createList, importEnd, startService, until, type Json } from '../helpers/service.ts'

/** Engines side by side: they share the work of one import, come, go and die, and let small imports of others through. */

const rows = 60_000
const file = new SubscriberFile({ rows, seed: 21 })

t.setTimeout(300_000)
const service = await startService(t, ['control-plane', 'engine'])
const { collections, call, db } = service
let undisturbed: Json
const first = service.processes.engine!
const holders = async (): Promise<Set<string | null>> =>
  new Set(await collections.chunks.distinct('lease.holder', { state: 'running' }))

t.test('a small import waits for at most one chunk of another organization', async (t) => {
  const organization = await service.post('/organizations', { organization: { name: 'Small' } })
  const content = Array.from({ length: 500 }, (_, i) => `s${i}@example.com\n`).join('')
  const { changes, small, large } = await repeatWhile(
    async () => {
      // The server says in which order imports began, and chunks and imports ended, whenever the test reads it.
      const stream = db.watch([
        {
          $match: {
            $or: [
              { 'ns.coll': 'imports', operationType: 'insert' },
              {
                'ns.coll': { $in: ['imports', 'import_chunks'] },
                'updateDescription.updatedFields.state': { $in: ['done', 'finished'] },
              },
            ],
          },
        },
      ])
      await stream.tryNext()
      const large = await beginLargeImport(service, file)
      const list = await createList(service, [], { organization_id: organization.id })
      await someRowsIn(service, large.id, 1_000)
      const small = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: {
          column_mapping: ['email'],
          file_format: { csv_has_headers: false },
          file_source: { type: 'json', content },
        },
      })
      t.same(countsOf(await importEnd(service, small.id)), { added: 500 })
      undisturbed = await importEnd(service, large.id)
      const changes: string[] = []
      while (![small, large].every(({ id }) => changes.includes(`update ${id}`))) {
        const change = await stream.next()
        if ('documentKey' in change) changes.push(`${change.operationType} ${String(change.documentKey._id)}`)
      }
      await stream.close()
      return { changes, small, large }
    },
    // A quick engine ends the large one while the test or the control plane stands still.
    ({ changes, small, large }) =>
      changes.indexOf(`update ${large.id}`) < changes.indexOf(`update ${small.id}`),
    service,
  )
  const [begun, end] = ['insert', 'update'].map((kind) => changes.indexOf(`${kind} ${small.id}`))
  const last = changes.indexOf(`update ${large.id}`)
  t.ok(end! < last, 'the small one ended first')
  const meanwhile = end! - begun! - 1
  // Each of the two lanes ends its chunk. One of them then serves the small import, the other one the large.
  t.ok(meanwhile <= 8, `${meanwhile} chunks of the large one were done while the small one waited`)
  t.ok(end! < last - 1, 'the large one resumes after the small one')
  t.match(undisturbed, { state: 'finished', stats: { subscribers: file.expectedCounts() } })
})

t.test('one joins in the middle, another one leaves and hands back its chunks', async (t) => {
  const { id, letGo } = await beginHeldImport(service, file)
  await someRowsIn(service, id, 1)
  const second = await service.start('engine')
  await until('both at work', holders, (engines) => engines.size === 2)
  const leaving = await collections.engines.findOne({ process_id: first.child.pid! })
  const stopping = Date.now()
  t.equal(await first.stop('SIGTERM'), 0)
  t.ok(Date.now() - stopping < 10_000, 'within 10 s')
  // Where the database answers it too late, it says so, and the other one takes over what it has.
  if (couldNotRelease(first))
    await until('the take-over', holders, (engines) => !engines.has(leaving!._id), 30_000)
  t.notOk((await holders()).has(leaving!._id), 'it has no lease any more')
  t.equal(await collections.engines.countDocuments({ dead: false }), 1)
  await letGo()
  const view = await importEnd(service, id)
  t.match(view, { state: 'finished', stats: { subscribers: file.expectedCounts() } })
  t.ok(second.child.exitCode === null)
})

t.test(
  'three engines share an import, one of them is killed, and no row is lost or there twice',
  async (t) => {
    const doomed = await service.start('engine')
    await service.start('engine')
    const { id, letGo } = await beginHeldImport(service, file)
    await until('three at work', holders, (engines) => engines.size === 3)
    await doomed.stop('SIGKILL')
    const killedAt = Date.now()
    await letGo()
    const registration = () => collections.engines.findOne({ process_id: doomed.child.pid! })
    await until('the take-over', registration, (engine) => engine?.cleared_at !== undefined, 30_000)
    // Those that are left poll every 3 s. Where they can't tell that it has ended, its lease takes 12 s.
    const takeOverMs = Date.now() - killedAt
    t.ok(takeOverMs < (ownOrigin === null ? 30_000 : 10_000), `taken over after ${takeOverMs} ms`)
    const view = await importEnd(service, id)
    t.comment(`finished ${Date.now() - killedAt} ms after the kill`)
    t.match(view, {
      state: 'finished',
      stats: { number_of_records: rows, records_imported: rows, subscribers: file.expectedCounts() },
    })

    const table = (listId: number) =>
      collections.subscribers
        .find(
          { mailing_list_id: listId },
          { projection: { created_at: 0, id: 0, mailing_list_id: 0, subscribe_time: 0 } },
        )
        .sort({ _id: 1 })
        .map(({ _id, custom_fields, ...rest }) =>
          JSON.stringify([_id.slice(_id.indexOf(':')), Object.values(custom_fields), rest]),
        )
        .toArray()
    const [expected, found] = [await table(undisturbed.mailing_list_id), await table(view.mailing_list_id)]
    t.equal(found.length, expected.length)
    t.equal(
      found.findIndex((row, i) => row !== expected[i]),
      -1,
      'the tables are the same',
    )
    const ids = await collections.subscribers.distinct('id', { mailing_list_id: view.mailing_list_id })
    t.equal(ids.length, found.length, 'no subscriber is there twice')
    for (const kind of ['added', 'failed', 'skipped_duplicate']) {
      const [a, b] = await Promise.all(
        [undisturbed, view].map(
          async ({ id }) => (await call('GET', `/subscriber_imports/${id}/logs/${kind}`)).text,
        ),
      )
      t.ok(a === b, `the log ${kind} is the same`)
    }
    const stripes = await collections.subscriberCounts
      .find({ mailing_list_id: view.mailing_list_id })
      .toArray()
    t.equal(
      stripes.reduce((sum, stripe) => sum + stripe.active, 0),
      found.length,
      'and the counters say so',
    )
  },
)
