import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { SubscriberFile } from '../../../bench/datasets/subscriber-file.ts'
import { lockRow } from '../../helpers/locked-row.ts'
import { createList, importEnd, importText, until, untilIdle, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

const { call, collections, get, post } = service

const rows = 60_000
const big = [...new SubscriberFile({ rows, seed: 5, defects: false }).text()]
  .map((piece) => piece.replaceAll(/^([^,]*),.*$/gm, '$1'))
  .join('')
const addresses = big
  .split('\n')
  .filter((line) => line.includes('@'))
  .join('\n')
const lastAddress = addresses.split('\n').toSorted().at(-1)!
const create = (listId: number, options: Json = {}): Promise<Json> =>
  post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_format: { csv_has_headers: false },
      ...options,
      file_source: { type: 'json', content: addresses },
    },
  })
const show = (id: number): Promise<Json> => get(`/subscriber_imports/${id}`)
const imported = (view: Json): number => view.stats.records_imported
const move = async (id: number, name: string) =>
  (await call('POST', `/subscriber_imports/${id}/${name}`)).body

/** An import that has written some of its rows, and can't end before `letGo`. */
async function begunImport() {
  const list = await createList(service)
  const letGo = await lockRow(service, `${list.id}:${lastAddress}`)
  const { id } = await create(list.id)
  await until(
    'some rows',
    () => show(id),
    (view) => imported(view) > 2_000,
  )
  return { list, id, letGo }
}

t.test(
  'a paused import stops at once, keeps its list, and resumes where it stopped, with right counts',
  async (t) => {
    const { list, id, letGo } = await begunImport()
    t.match(await move(id, 'pause'), { success: true, data: { state: 'paused' } })
    const stopped = await show(id)
    t.ok(imported(stopped) < rows, `paused at ${imported(stopped)}`)
    t.equal(
      await collections.subscribers.countDocuments({ mailing_list_id: list.id }),
      stopped.stats.subscribers.added,
      'what is counted is what is there',
    )
    await untilIdle(service.processes.engine!)
    await letGo()
    t.equal(imported(await show(id)), imported(stopped), 'nothing is written while it is paused')

    const second = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_source: { type: 'json', content: 'email\nx@y.co' },
      },
    })
    const dry = await importText(service, list.id, 'email\nx@y.co', { dry_run: true })
    t.equal(dry.state, 'finished', 'a dry run waits for no other import')
    t.match(
      await show(second.id),
      { state: 'scheduled', waiting_for_import_id: id },
      'which was due before it',
    )

    t.match(await move(id, 'unpause'), { success: true, data: { state: 'importing' } })
    let last = -1
    for (;;) {
      const view = await show(id)
      const sum = Object.entries(view.stats.subscribers as Record<string, number>).reduce(
        (total, [kind, count]) => total + (kind === 'deactivated' ? 0 : count),
        0,
      )
      t.equal(sum, imported(view), 'counts add up at any time')
      t.ok(imported(view) >= last, 'and never go back')
      last = imported(view)
      if (view.state === 'finished') break
      await sleep(50)
    }
    t.match(await show(id), {
      state: 'finished',
      stats: { number_of_records: rows, records_imported: rows, subscribers: { added: rows } },
    })
    t.match(await importEnd(service, second.id), { state: 'finished', stats: { subscribers: { added: 1 } } })
    t.equal(await collections.subscribers.countDocuments({ mailing_list_id: list.id }), rows + 1)
  },
)

t.test('a cancelled import keeps what is written; its counts and logs stay true', async (t) => {
  const { list, id, letGo } = await begunImport()
  t.match(await move(id, 'cancel'), { success: true, data: { state: 'cancelled', finished_at: String } })
  await until(
    'the end of all work',
    () => collections.imports.findOne({ _id: id }),
    (document) => document!.finalized,
  )
  await letGo()
  const view = await show(id)
  const there = await collections.subscribers.countDocuments({ mailing_list_id: list.id })
  t.equal(view.stats.subscribers.added, there)
  t.ok(there > 2_000 && there < rows, `${there} rows`)
  const log = (await call('GET', `/subscriber_imports/${id}/logs/added`)).text.trim().split('\n')
  t.equal(log.length, there)
  t.same(log, [...log].sort(), 'in the order of identities')
  t.match(
    await importText(service, list.id, 'email\nx@y.co'),
    { state: 'finished' },
    'the list is free for the next one',
  )
})

t.test('an import waits for its time, and imports of a list go in the order of begins_at', async (t) => {
  const list = await createList(service)
  const make = (begins_at: string, name: string): Promise<Json> =>
    post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        begins_at,
        column_mapping: ['email'],
        overwrite: true,
        file_source: { type: 'json', content: `email\n${name}@y.co` },
      },
    })
  const later = await make('2100-01-02T00:00', 'later')
  const sooner = await make('2100-01-01T00:00', 'sooner')
  t.match(await show(sooner.id), { state: 'scheduled', waiting_for_import_id: null })
  const waitMs = { $cond: [{ $eq: ['$_id', later.id] }, 2_000, 1_000] }
  await collections.imports.updateMany({ mailing_list_id: list.id }, [
    { $set: { begins_at: { $add: ['$$NOW', waitMs] } } },
  ])
  for (const { id } of [sooner, later]) t.match(await importEnd(service, id), { state: 'finished' })
  const stored = async ({ id }: Json) => (await collections.imports.findOne({ _id: id }))!
  const [first, second] = [await stored(sooner), await stored(later)]
  t.ok(first.finished_at! <= second.started_at!, 'one after the other, not in the order of their ids')
  for (const { begins_at, started_at } of [first, second])
    t.ok(started_at! >= begins_at, 'not before its time')
})

t.test('exactly one of the requests that race moves the import, each time', async (t) => {
  const list = await createList(service)
  for (let round = 0; round < 5; round += 1) {
    const { id } = await create(list.id, { begins_at: '2100-01-01T00:00' })
    const answers = await Promise.all(
      ['pause', 'pause', 'cancel', 'cancel', 'unpause', 'pause'].map((name) => move(id, name)),
    )
    t.equal(
      answers.filter((answer, i) => (i === 2 || i === 3) && answer.success).length,
      1,
      'one of two cancels',
    )
    t.equal((await show(id)).state, 'cancelled')
  }
})
