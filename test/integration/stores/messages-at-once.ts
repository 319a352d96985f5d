import t from 'tap'
import type { OutboxDocument } from '../../../shared/contract/schemas/outbox.ts'
import { ensureSchema } from '../../../shared/runtime/database.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { claimMessages } from '../../../shared/store/outbox.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { gatedDatabase } from '../../helpers/gated-database.ts'

const { database } = await databaseAndFolder(t)
const { collections } = database
await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))

/** A second caller, whose commands can be stopped. */
const { database: stopped, gate } = await gatedDatabase(t, database.db.databaseName)

t.test('a message that another caller leases after it was read is leased once', async (t) => {
  const due = new Date(0)
  const message: OutboxDocument = {
    ...{
      _id: 1,
      organization_id: 1,
      mailing_list_id: 1,
      kind: 'autoresponder',
      queue: 1,
      autoresponder_id: 1,
    },
    ...{ subscriber_id: 1, reaction: '1:1:request 1', pending_subscriber: null, due_at: due },
    ...{ state: 'ready', lease_token: null, leased_until: null },
  }
  await collections.outbox.insertOne(message)
  const claim = (by: typeof collections, token: string) =>
    claimMessages(by, [{ queue: 1, dueAt: due }], { limit: 10, lease: { token, seconds: 60 } })
  const isStopped = gate.watch((command) => command['update'] === 'outbox')
  const late = claim(stopped.collections, 'late')
  await isStopped
  const first = await claim(collections, 'first')
  gate.release()
  t.same(
    first?.map(({ _id, lease_token: token }) => [_id, token]),
    [[1, 'first']],
  )
  t.same(await late, [])
  t.match(await collections.outbox.findOne({ _id: 1 }), { state: 'taken', lease_token: 'first' })
})
