import { writeFile, mkdir } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { columns, customFields, SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { createList, importEnd, startService, until, type Json } from '../helpers/service.ts'
import { settleUpload } from '../helpers/settled-upload.ts'

const rows = 60_000
const file = new SubscriberFile({ rows, seed: 11 })

t.test(
  'an engine killed with SIGKILL in mid-import loses no row and doubles none',
  { timeout: 300_000 },
  async (t) => {
    const service = await startService(t, ['control-plane', 'engine'])
    const { collections, get, post, call } = service
    const folder = path.join(service.dataFolder, 'uploads', '1')
    await mkdir(folder, { recursive: true })
    await writeFile(
      path.join(folder, 'file.csv'),
      [...file.bytes()].reduce((all, piece) => Buffer.concat([all, piece])),
    )
    await settleUpload(path.join(folder, 'file.csv'))
    const create = async (): Promise<Json> => {
      const list = await createList(service, [...customFields])
      return post(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: {
          column_mapping: columns,
          file_source: { type: 'upload_directory', filename: 'file.csv' },
        },
      })
    }
    const undisturbed = await importEnd(service, (await create()).id)
    t.match(undisturbed, { state: 'finished', stats: { subscribers: file.expectedCounts() } })

    const created = await create()
    let kills = 0
    for (const share of [0.1, 0.5]) {
      await until(
        `${share} of the rows`,
        () => get(`/subscriber_imports/${created.id}`),
        (view) => view.stats.records_imported > rows * share,
      )
      await service.processes.engine!.stop('SIGKILL')
      kills += 1
      await service.start('engine')
    }
    const killedAt = Date.now()
    const view = await importEnd(service, created.id, 60_000)
    t.comment(`finished ${Date.now() - killedAt} ms after the last of ${kills} kills`)
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
