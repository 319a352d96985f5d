import t from 'tap'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { claimMessages } from '../../../shared/store/outbox.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { gatedDatabase } from '../../helpers/gated-database.ts'
import { storedReaction } from '../../helpers/stored-reaction.ts'

const { database } = await databaseAndFolder(t)
const { collections } = database
await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))

/** A second caller, whose commands can be stopped. */
const { database: stopped, gate } = await gatedDatabase(t, database.db.databaseName)

t.test('a message that another caller leases after it was read is leased once', async (t) => {
  const due = new Date(0)
  await collections.reactions.insertOne(storedReaction({ due_at: due }))
  const claim = (by: typeof collections, token: string) =>
    claimMessages(by, [{ queue: 1, dueAt: due }], {
      now: new Date(),
      limit: 10,
      lease: { token, seconds: 60 },
    })
  const isStopped = gate.watch((command) => command['update'] === 'reactions')
  const late = claim(stopped.collections, 'late')
  await isStopped
  const first = await claim(collections, 'first')
  gate.release()
  t.same(
    first?.map(({ id, lease }) => [id, lease?.token]),
    [[1, 'first']],
  )
  t.same(await late, [])
  t.match(await collections.reactions.findOne({ id: 1 }), { lease: { token: 'first' } })
})
