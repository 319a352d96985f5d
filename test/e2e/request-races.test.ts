import t from 'tap'
import { seededRandom } from '../../bench/load/random.ts'
import { isDuplicateKey, openDatabase } from '../../shared/database.ts'
import type { SubscriberDocument } from '../../shared/schemas/subscriber.ts'
import { changeSubscriber, insertSubscriber, removeSubscribers } from '../../shared/store/subscribers.ts'
import { holdRow } from '../helpers/held-row.ts'
import {
  createList,
  importEnd,
  importText,
  startService,
  testMongodbUri,
  until,
  type Json,
} from '../helpers/service.ts'
import { subscriberDocument } from '../helpers/subscriber-document.ts'

/**
 * Requests that create, change and delete the very subscribers that an import is writing. Nothing may get lost: the
 * import writes column A, requests write B, and every figure must add up at the end.
 */

/** Long by hand: ROLLCALL_RACE_ROWS=200000 */
const rows = Number(process.env['ROLLCALL_RACE_ROWS'] ?? 6_000)
const address = (i: number) => `s${i}@example.com`
/** Subscribers that are not in the file, so that the import deactivates them. */
const absent = Math.floor(rows / 6)
const absentAddress = (i: number) => `x${i}@example.com`
/** Keeps the import from its end until there were races enough; the last one of all, so that batches before are written. */
const heldAddress = 'z@example.com'

t.test('requests race an import of the same subscribers', { timeout: 600_000 }, async (t) => {
  const service = await startService(t, ['control-plane', 'engine'], { ENGINE_WORKERS: '2' })
  const { collections } = service
  const list = await createList(service, [
    { name: 'A', field_type: 'number' },
    { name: 'B', field_type: 'number' },
  ])
  const [fieldA, fieldB] = (
    (await service.get<Json[]>(`/mailing_lists/${list.id}/custom_fields`)) as { id: number }[]
  ).map((field) => field.id)
  // Every second subscriber is there before.
  const existing = Array.from({ length: rows / 2 }, (_, i) => `${address(i * 2)},1\n`).join('')
  const options = { column_mapping: ['email', 'A'], file_format: { csv_has_headers: false } }
  const others = Array.from({ length: absent }, (_, i) => `${absentAddress(i)},1\n`).join('')
  await importText(service, list.id, existing + others, options)

  const database = await openDatabase({ uri: testMongodbUri(), name: service.settings['MONGODB_DATABASE']! })
  t.teardown(() => database.close())
  const letGo = await holdRow(service, `${list.id}:${heldAddress}`)
  const created = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...options,
      overwrite: true,
      deactivate_subscribers_not_in_import: true,
      overwrite_when_status: { active: true, unsubscribed: true },
      file_source: {
        type: 'json',
        content: [...Array.from({ length: rows }, (_, i) => address(i)), heldAddress]
          .map((email) => `${email},2\n`)
          .join(''),
      },
    },
  })

  const done = { created: 0, taken: 0, changed: 0, deleted: 0 }
  const lastB = new Map<string, number | null>()
  /** Made anew by a request after somebody deleted them: the import may have written the one before. */
  const madeAnew = new Set<string>()
  let ended = false
  let next = 1
  const requester = async (seed: number): Promise<void> => {
    const fraction = seededRandom(seed)
    while (!ended) {
      const random = Math.floor(fraction() * 2 ** 31)
      // Each requester has addresses of its own, so that it knows what the last value of B is.
      const i = (random % Math.floor(rows / 4)) * 4 + (seed - 1)
      const key = `${list.id}:${address(i)}`
      const b = next++
      const kind = random % 8
      if (kind === 7) {
        const other = `${list.id}:${absentAddress((random % Math.floor(absent / 4)) * 4 + (seed - 1))}`
        await changeSubscriber(database, 1, other, () => ({
          set: { [`custom_fields.${fieldB}`]: b },
          unset: [],
        }))
        lastB.set(other, b)
      } else if (kind === 0) {
        const document = subscriberDocument(list.id, address(i), 10_000_000 + b, { [fieldB!]: b })
        try {
          await insertSubscriber(database, 1, document)
          done.created += 1
          if (lastB.get(key) === null) madeAnew.add(key)
          lastB.set(key, b)
        } catch (error) {
          if (!isDuplicateKey(error)) throw error
          done.taken += 1
        }
      } else if (kind === 1) {
        if ((await removeSubscribers(database, 1, key, 1)).ids.length === 0) continue
        done.deleted += 1
        lastB.set(key, null)
      } else {
        const status = kind === 2 ? 'unsubscribed' : 'active'
        const set = { [`custom_fields.${fieldB}`]: b, status } as const
        if ((await changeSubscriber(database, 1, key, () => ({ set, unset: [] }))) === 'missing') continue
        done.changed += 1
        lastB.set(key, b)
      }
    }
  }
  const requests = [1, 2, 3, 4].map(requester)
  await until(
    'races',
    async () => done,
    ({ created, changed, deleted }) => created > 0 && changed > 20 && deleted > 5,
    50_000,
  )
  await letGo()
  const view = await importEnd(service, created.id, 300_000)
  ended = true
  await Promise.all(requests)
  t.comment(JSON.stringify(done))

  const { added, updated, failed } = view.stats.subscribers as Record<'added' | 'updated' | 'failed', number>
  t.equal(view.state, 'finished')
  t.equal(added + updated, rows + 1, 'every row was written')
  t.equal(failed, 0)
  const isAbsent = (entry: SubscriberDocument): boolean => entry.email.startsWith('x')
  const table = await collections.subscribers.find({ mailing_list_id: list.id }).toArray()
  t.equal(
    table.length,
    rows / 2 + absent + added + done.created - done.deleted,
    'nobody is missing, nobody is twice',
  )
  // Somebody whom a request made non-active before isn't deactivated; in the file is everybody but the absent.
  t.equal(view.stats.subscribers.deactivated, absent)
  t.ok(table.filter(isAbsent).every((entry) => entry.status === 'deactivated'))
  const wrongB = table.filter(
    ({ _id, custom_fields }) => lastB.has(_id) && (custom_fields[fieldB!] ?? null) !== lastB.get(_id),
  )
  t.same(wrongB, [], 'no change of a request is lost')
  // Who was created by a request after the import had written and somebody had deleted has no A.
  const missingA = table.filter(
    ({ _id, email, custom_fields }) =>
      custom_fields[fieldA!] !== 2 && !madeAnew.has(_id) && !email.startsWith('x'),
  )
  t.same(missingA, [], 'no change of the import is lost')
  const stripes = await collections.subscriberCounts.find({ mailing_list_id: list.id }).toArray()
  for (const status of ['active', 'unsubscribed', 'deactivated'] as const)
    t.equal(
      stripes.reduce((sum, stripe) => sum + stripe[status], 0),
      table.filter((entry) => entry.status === status).length,
      `the count of ${status}`,
    )
  const removed = (await service.call('GET', `/subscriber_imports/${view.id}/logs/added`)).text
  t.equal(removed.split('\n').length - 1, added, 'the log says who was added')
})
