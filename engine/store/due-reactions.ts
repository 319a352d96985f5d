import type { ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { runInTransaction } from '../../shared/runtime/transactions.ts'
import type { ReactionDocument } from '../../shared/contract/schemas/autoresponder.ts'
import { buildReactionMessage } from '../../shared/store/outbox.ts'

/** The fields of a due reaction that its message is made of. */
export const dueReactionFields = {
  id: 1,
  organization_id: 1,
  mailing_list_id: 1,
  autoresponder_id: 1,
  subscriber_id: 1,
  due_at: 1,
} as const

export type DueReaction = Pick<ReactionDocument, '_id' | keyof typeof dueReactionFields>

/**
 * Marks reactions as due and inserts their messages into the outbox, in one transaction. Reactions that aren't queued any
 * more, because they were dropped or another engine moved them, are left out. Resolves to the number of moved ones.
 */
export async function moveReactions(
  { collections: { reactions, outbox } }: Database,
  session: ClientSession,
  due: readonly DueReaction[],
): Promise<number> {
  // Reading them outside of the transaction is cheaper, and nearly always all of them are still queued.
  let areAllQueued = true
  for (;;) {
    const moved = await runInTransaction(session, async (transaction) => {
      const keys = due.map(({ _id }) => _id)
      const queued = areAllQueued
        ? due
        : await reactions
            .find<DueReaction>(
              { _id: { $in: keys }, state: 'queued' },
              { session: transaction, projection: dueReactionFields, hint: { _id: 1 } },
            )
            .toArray()
      if (queued.length === 0) return 0
      // Without the hint the server tries every index that has the state, at twice the cost.
      const { modifiedCount } = await reactions.updateMany(
        { _id: { $in: queued.map(({ _id }) => _id) }, state: 'queued' },
        { $set: { state: 'due' } },
        { session: transaction, hint: { _id: 1 }, bypassDocumentValidation: true },
      )
      if (modifiedCount !== queued.length) {
        await transaction.abortTransaction()
        return null
      }
      await outbox.insertMany(queued.map(buildReactionMessage), {
        session: transaction,
        bypassDocumentValidation: true,
      })
      return queued.length
    })
    if (moved !== null) return moved
    areAllQueued = false
  }
}

/** Drops due reactions whose autoresponder has no mail to send. Resolves to the number of dropped ones. */
export async function dropReactions(
  { collections: { reactions } }: Database,
  due: readonly DueReaction[],
): Promise<number> {
  if (due.length === 0) return 0
  const { modifiedCount } = await reactions.updateMany(
    { _id: { $in: due.map(({ _id }) => _id) }, state: 'queued' },
    { $set: { state: 'dropped' } },
    { hint: { _id: 1 } },
  )
  return modifiedCount
}
