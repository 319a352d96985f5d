import t from 'tap'
import { openDatabase } from '../../../shared/runtime/database.ts'
import { writeAlone } from '../../../control-plane/store/write-subscriber.ts'
import { SubscriberWrites } from '../../../control-plane/store/subscribers-together.ts'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  testMongodbUri,
  until,
  type Json,
  type Service,
} from '../../helpers/service.ts'
import { lockRow } from '../../helpers/locked-row.ts'
import { additionOf, subscriberDocument } from '../../helpers/subscriber-document.ts'
import { service } from './service.ts'

/** The organization's subscriber limit is never exceeded, and no row is skipped while quota is free. */

const database = await openDatabase({
  uri: testMongodbUri(),
  name: service.settings['MONGODB_DATABASE']!,
})
t.teardown(() => database.close())

const rowsOf = (name: string, count: number, more = ''): string =>
  Array.from({ length: count }, (_, i) => `${name}${i}@example.com${more}\n`).join('')

const noHeader = { file_format: { csv_has_headers: false } }

async function organizationWith(service: Service, limit: number | null): Promise<number> {
  const { id } = await service.post('/organizations', {
    organization: { name: 'Limited', time_zone_name: 'UTC', subscriber_limit: limit },
  })
  return id as number
}

async function activeIn(
  service: Service,
  organizationId: number,
): Promise<{ counted: number; there: number }> {
  const lists = await service.collections.mailingLists
    .find({ organization_id: organizationId })
    .map((list) => list._id)
    .toArray()
  const stripes = await service.collections.subscriberCounts
    .find({ organization_id: organizationId })
    .toArray()
  return {
    counted: stripes.reduce((sum, stripe) => sum + stripe.active, 0),
    there: await service.collections.subscribers.countDocuments({
      mailing_list_id: { $in: lists },
      status: 'active',
    }),
  }
}

const create = (service: Service, listId: number, content: string, options: object = {}): Promise<Json> =>
  service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      ...noHeader,
      ...options,
      file_source: { type: 'json', content },
    },
  })

const { collections } = service

t.test('rows beyond the limit are skipped, and the log says so', async (t) => {
  const organization = await organizationWith(service, 2_500)
  const list = await createList(service, [], { organization_id: organization })
  const view = await importText(service, list.id, rowsOf('a', 6_000), noHeader)
  t.same(countsOf(view), { added: 2_500, skipped_over_limit: 3_500 })
  t.same(await activeIn(service, organization), { counted: 2_500, there: 2_500 })
  const log = await service.call('GET', `/subscriber_imports/${view.id}/logs/skipped_over_limit`)
  t.equal(log.text.split('\n').length - 1, 3_500)
  t.equal(await collections.chunks.countDocuments({ quota_reserved: { $gt: 0 } }), 0, 'no place is kept')

  const again = await importText(service, list.id, rowsOf('b', 100), noHeader)
  t.same(countsOf(again), { skipped_over_limit: 100 }, 'a full organization adds no subscriber')
  const others = await importText(service, list.id, rowsOf('c', 50), {
    ...noHeader,
    subscriber_defaults: { status: 'unsubscribed' },
  })
  t.same(countsOf(others), { added: 50 }, 'who is not active needs no place')
  const revived = await importText(service, list.id, rowsOf('c', 50, ',active'), {
    ...noHeader,
    column_mapping: ['email', 'status'],
    overwrite: true,
    overwrite_what: { status: true },
    overwrite_when_status: { unsubscribed: true },
  })
  t.same(countsOf(revived), { skipped_over_limit: 50 }, 'nor is anybody made active')
  const left = await importText(service, list.id, rowsOf('a', 6_000, ',unsubscribed'), {
    ...noHeader,
    column_mapping: ['email', 'status'],
    overwrite: true,
    overwrite_what: { status: true },
  })
  t.same(countsOf(left), { updated: 2_500, added: 3_500 }, 'quota is given back')
  const back = await importText(service, list.id, rowsOf('c', 50, ',active'), {
    ...noHeader,
    column_mapping: ['email', 'status'],
    overwrite: true,
    overwrite_what: { status: true },
    overwrite_when_status: { unsubscribed: true },
  })
  t.same(countsOf(back), { updated: 50 }, 'and serve others')
})

t.test('a dry run counts what the import would count', async (t) => {
  const organization = await organizationWith(service, 1_234)
  const list = await createList(service, [], { organization_id: organization })
  const text = rowsOf('d', 5_000) + rowsOf('d', 10)
  const dry = await importText(service, list.id, text, { ...noHeader, dry_run: true })
  t.same(countsOf(dry), { added: 1_234, skipped_over_limit: 3_766, skipped_duplicate: 10 })
  t.same(await activeIn(service, organization), { counted: 0, there: 0 })
  const real = await importText(service, list.id, text, noHeader)
  t.same(countsOf(real), countsOf(dry))
})

t.test('imports and requests together never exceed the limit, nor leave quota unused', async (t) => {
  const limit = 9_000
  const organization = await organizationWith(service, limit)
  const lists = await Promise.all(
    [1, 2, 3].map(() => createList(service, [], { organization_id: organization })),
  )
  const request = async (i: number) => {
    const document = subscriberDocument(lists[i % 3].id, `r${i}@example.com`, 1_000_000 + i)
    return (await writeAlone(database, additionOf(organization, document))).outcome
  }
  t.equal(await request(0), 'done')
  const imports = await Promise.all(lists.map((list, i) => create(service, list.id, rowsOf(`e${i}x`, 5_000))))
  let maxActive = 0
  let ended = false
  const requests = (async () => {
    let taken = 1
    for (let i = 1; !ended; i += 1) {
      if ((await request(i)) === 'done') taken += 1
      maxActive = Math.max(maxActive, (await activeIn(service, organization)).counted)
    }
    return taken
  })()
  const views = await Promise.all(imports.map(({ id }) => importEnd(service, id, 60_000)))
  ended = true
  const byRequests = await requests
  const total = (kind: string): number =>
    views.reduce<number>((sum, view) => sum + Number(view.stats.subscribers[kind]), 0)
  t.equal(total('added') + total('skipped_over_limit'), 15_000)
  t.same(await activeIn(service, organization), { counted: limit, there: limit }, `${byRequests} by requests`)
  t.ok(maxActive <= limit, 'and at no moment more')
})

t.test('an import that needs no quota leaves what is free to others', async (t) => {
  const organization = await organizationWith(service, null)
  const list = await createList(service, [{ name: 'A', field_type: 'number' }], {
    organization_id: organization,
  })
  const other = await createList(service, [], { organization_id: organization })
  const options = { ...noHeader, column_mapping: ['email', 'A'], overwrite: true }
  await importText(service, list.id, rowsOf('u', 15_000, ',1'), options)
  await service.call('PUT', `/organizations/${organization}`, {
    organization: { subscriber_limit: 15_900 },
  })
  const { id } = await create(service, list.id, rowsOf('u', 15_000, ',2'), options)
  let slowest = 0
  let writes = 0
  while ((await service.get(`/subscriber_imports/${id}`)).state !== 'finished' && writes < 900) {
    const startedAt = Date.now()
    const document = subscriberDocument(other.id, `w${writes}@example.com`, 2_000_000 + writes)
    t.equal((await writeAlone(database, additionOf(organization, document))).outcome, 'done')
    slowest = Math.max(slowest, Date.now() - startedAt)
    writes += 1
  }
  t.comment(`${writes} creates beside it, the slowest took ${slowest} ms`)
  t.same(countsOf(await importEnd(service, id)), { updated: 15_000 })
})

t.test('a limit that is set during a creation on an empty list binds the creation', async (t) => {
  const organization = await organizationWith(service, null)
  const list = await createList(service, [], { organization_id: organization })
  const arrived = Promise.withResolvers<undefined>()
  const mayGoOn = Promise.withResolvers<undefined>()
  const subscribers = new Proxy(database.collections.subscribers, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        if (key === 'insertOne') {
          arrived.resolve(undefined)
          await mayGoOn.promise
        }
        return (value as (...args: unknown[]) => unknown).apply(target, args)
      }
    },
  })
  const delayed = { ...database, collections: { ...database.collections, subscribers } }
  const late = subscriberDocument(list.id, 'late@example.com', 3_000_000)
  const write = writeAlone(delayed, additionOf(organization, late))
  await arrived.promise
  await service.call('PUT', `/organizations/${organization}`, { organization: { subscriber_limit: 0 } })
  mayGoOn.resolve(undefined)
  t.same(await write, { outcome: 'over_limit' })
  t.same(await activeIn(service, organization), { counted: 0, there: 0 })
})

t.test('creations that share a transaction leave what an import has reserved', async (t) => {
  const organization = await organizationWith(service, 8)
  const { id: listId } = await createList(service, [], { organization_id: organization })
  const holder = { _id: `held:${listId}`, organization_id: organization, quota_reserved: 7, dry_run: false }
  const chunks = service.db.collection<typeof holder>('import_chunks')
  await chunks.insertOne(holder, { bypassDocumentValidation: true })
  const { revision } = (await collections.mailingLists.findOne({ _id: listId }))!
  const writes = new SubscriberWrites(database)
  const add = async (i: number, values: { status?: 'unsubscribed' } = {}) => {
    const subscriber = {
      ...subscriberDocument(listId, `together${i}@example.com`, 3_100_000 + i),
      ...values,
    }
    const plan = additionOf(organization, subscriber, { listRevision: revision })
    return (await writes.write(plan)).outcome
  }
  // The first runs alone, and the next seven are a group. The ninth is answered after their transaction has ended.
  const active = Array.from({ length: 8 }, (_, i) => add(i))
  t.equal(await active[0], 'done')
  t.equal(await add(8, { status: 'unsubscribed' }), 'done')
  t.same(await activeIn(service, organization), { counted: 1, there: 1 }, 'seven wait for the import')
  await chunks.deleteOne({ _id: holder._id })
  t.same(new Set(await Promise.all(active)), new Set(['done']))
  t.same(await activeIn(service, organization), { counted: 8, there: 8 })
})

t.test('a limit that is set or lowered binds running imports', async (t) => {
  const organization = await organizationWith(service, 1_000_000)
  const list = await createList(service, [], { organization_id: organization })
  // It can't end before this row is free.
  const letGo = await lockRow(service, `${list.id}:l9@example.com`)
  const { id } = await create(service, list.id, rowsOf('l', 80_000))
  await until(
    'rows',
    () => service.get(`/subscriber_imports/${id}`),
    (view) => view.stats.records_imported > 2_000,
  )
  const { counted } = await activeIn(service, organization)
  const limit = Math.min(counted + 10_000, 79_000)
  await service.call('PUT', `/organizations/${organization}`, { organization: { subscriber_limit: limit } })
  const atReply = (await activeIn(service, organization)).counted
  const maxActive = Math.max(limit, atReply)
  await letGo()
  const view = await importEnd(service, id, 60_000)
  t.same(countsOf(view), { added: maxActive, skipped_over_limit: 80_000 - maxActive })
  t.same(await activeIn(service, organization), { counted: maxActive, there: maxActive })
})

t.test('the reservation of a killed engine is given back', async (t) => {
  const limit = 20_000
  const organization = await organizationWith(service, limit)
  const list = await createList(service, [], { organization_id: organization })
  const { id } = await create(service, list.id, rowsOf('k', 30_000))
  await until(
    'rows',
    () => service.get(`/subscriber_imports/${id}`),
    (view) => view.stats.records_imported > 3_000,
  )
  const { child, stop } = service.processes.engine!
  await stop('SIGKILL')
  // Its lease ends now.
  await collections.engines.updateOne({ process_id: child.pid! }, { $set: { dead: true } })
  await service.start('engine')
  const view = await importEnd(service, id, 60_000)
  t.same(countsOf(view), { added: limit, skipped_over_limit: 10_000 })
  t.same(await activeIn(service, organization), { counted: limit, there: limit })
})
