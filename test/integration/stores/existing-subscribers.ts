import t from 'tap'
import { findExisting } from '../../../engine/stages/write/existing-subscribers.ts'
import { errorMessage } from '../../../shared/contract/errors.ts'
import { findValueSizes, isDocumentTooLarge, valueBytes } from '../../../shared/store/value-bytes.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'

/** What a batch finds of its existing subscribers, in one reply of the server or in several. */

const subscriber = (number: number, more: object) => ({
  _id: `7:s${number}@example.com`,
  id: number,
  mailing_list_id: 7,
  email: `s${number}@example.com`,
  status: number % 2 === 0 ? ('active' as const) : ('bounced' as const),
  created_at: new Date(),
  subscribe_time: new Date(),
  custom_fields: {},
  ...more,
})

t.test('subscribers are found with what is asked of them', async (t) => {
  const { database } = await databaseAndFolder(t)
  const { client, collections } = database
  const large = 'ä'.repeat(30_000)
  await collections.subscribers.insertMany([
    subscriber(1, { confirmed: true, reactivations: 3 }),
    ...Array.from({ length: 300 }, (_, i) => subscriber(1_000 + i, { custom_fields: { 5: large, 6: i } })),
  ])
  const session = client.startSession()
  t.teardown(() => session.endSession())
  const find = (keys: string[], projection: Record<string, 1>) =>
    session.withTransaction(() => findExisting(database, session, keys, projection))

  const some = await find(['7:s1@example.com', '7:nobody@example.com'], {
    id: 1,
    status: 1,
    confirmed: 1,
    reactivations: 1,
  })
  t.match(some.get('7:s1@example.com'), { id: 1, status: 'bounced', confirmed: true, reactivations: 3 })
  t.equal(some.size, 1)
  t.same([...(await find(['7:s1@example.com'], { _id: 1 })).keys()], ['7:s1@example.com'])

  const keys = Array.from({ length: 300 }, (_, i) => `7:s${1_000 + i}@example.com`)
  const all = await find(keys, { id: 1, 'custom_fields.5': 1, 'custom_fields.6': 1 })
  t.same([...all.keys()].sort(), keys, 'more than the 16 MB of a reply')
  t.same(all.get(keys[299]!)!.custom_fields, { 5: large, 6: 299 })
  const few = await find(keys.slice(0, 20), { id: 1, 'custom_fields.5': 1 })
  t.same(few.get(keys[7]!)!.custom_fields, { 5: large })
  t.equal(few.size, 20)
})

t.test('the database measures values as the service does, and says which one is too large', async (t) => {
  const { database } = await databaseAndFolder(t)
  const { collections } = database
  const values = { 5: 'ä'.repeat(70_000), 61: 7, 62: 2 ** 40, 63: true, 64: ['a', 'bc'] }
  await collections.subscribers.insertOne(subscriber(1, { custom_fields: values }))
  const sizes = await findValueSizes(collections, ['7:s1@example.com', '7:nobody@example.com'])
  t.same(
    [...sizes].map(([key, bytes]) => [key, Object.fromEntries(bytes)]),
    [
      [
        '7:s1@example.com',
        Object.fromEntries(Object.entries(values).map(([id, value]) => [id, valueBytes(Number(id), value)])),
      ],
    ],
  )

  await collections.subscribers.updateOne({ id: 1 }, { $set: { 'custom_fields.5': 'x'.repeat(9_000_000) } })
  const write = collections.subscribers.updateOne(
    { id: 1 },
    { $set: { 'custom_fields.6': 'x'.repeat(9_000_000) } },
  )
  const error: unknown = await write.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  t.ok(isDocumentTooLarge(error))
  t.match(errorMessage(error), /BSON|larger/)
  t.notMatch(errorMessage(error), /example\.com|7:/, 'the message names no subscriber')
  const taken: unknown = await collections.subscribers.insertOne(subscriber(1, {})).catch((e: unknown) => e)
  t.match(errorMessage(taken), /E11000/)
  t.notMatch(errorMessage(taken), /example\.com|7:/)
})
