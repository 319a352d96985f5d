import t from 'tap'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { activeSubscribers, countSubscribers } from '../../../shared/store/subscriber-counts.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'

/** Sums over many stripes of a list, while transactions move subscribers from one stripe to another. */

t.test('the sum of a list is one that was, however many stripes it has', async (t) => {
  const { database } = await databaseAndFolder(t)
  const { collections } = database
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const stripes = 400
  await collections.subscriberCounts.insertMany(
    Array.from({ length: stripes }, (_, i) => ({
      ...{ _id: `1:a${i}`, organization_id: 1, mailing_list_id: 1 },
      ...{ active: 100, bounced: 0, unsubscribed: 0, scomp: 0, deactivated: 0 },
    })),
  )
  let isDone = false
  const move = async (worker: number): Promise<void> => {
    for (let i = worker; !isDone; i += 4) {
      // From the beginning of the index to its end, and back.
      const [from, to] = [i % stripes, stripes - 1 - (i % stripes)]
      await database.client.withSession((session) =>
        session.withTransaction(async () => {
          await collections.subscriberCounts.updateOne(
            { _id: `1:a${from}` },
            { $inc: { active: -1 } },
            { session },
          )
          await collections.subscriberCounts.updateOne(
            { _id: `1:a${to}` },
            { $inc: { active: 1 } },
            { session },
          )
        }),
      )
    }
  }
  const moving = Promise.all([0, 1, 2, 3].map(move))
  const sums = new Set<number>()
  for (let i = 0; i < 300; i += 1) {
    sums.add(await countSubscribers(database, 1))
    sums.add(await activeSubscribers(collections, undefined, 1))
  }
  isDone = true
  await moving
  t.same([...sums], [stripes * 100])
})
