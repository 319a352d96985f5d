import type { ClientSession } from 'mongodb'
import { inTransactionOf, type Database } from '../../../shared/runtime/database.ts'
import type { ReactionDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import { messageOfReaction } from '../../../shared/store/outbox.ts'

/** What of a due reaction goes into its message. */
export type DueReaction = Pick<
  ReactionDocument,
  '_id' | 'id' | 'organization_id' | 'mailing_list_id' | 'autoresponder_id' | 'subscriber_id' | 'due_at'
>

export const dueReactionFields = {
  id: 1,
  organization_id: 1,
  mailing_list_id: 1,
  autoresponder_id: 1,
  subscriber_id: 1,
  due_at: 1,
} as const

/**
 * Makes reactions due and puts their messages into the outbox, in one transaction: both or neither. Those that aren't
 * queued any more (dropped, or moved by another engine) are left out. Resolves to how many were moved.
 */
export async function moveReactions(
  { collections: { reactions, outbox } }: Database,
  session: ClientSession,
  due: readonly DueReaction[],
): Promise<number> {
  // They were read outside, which is cheaper, and nearly always they are all still there.
  let areAllQueued = true
  for (;;) {
    const moved = await inTransactionOf(session, async (own) => {
      const keys = due.map(({ _id }) => _id)
      const still = areAllQueued
        ? due
        : await reactions
            .find<DueReaction>(
              { _id: { $in: keys }, state: 'queued' },
              { session: own, projection: dueReactionFields, hint: { _id: 1 } },
            )
            .toArray()
      if (still.length === 0) return 0
      // Without the hint the server tries every index that knows the state: twice the cost.
      const { modifiedCount } = await reactions.updateMany(
        { _id: { $in: still.map(({ _id }) => _id) }, state: 'queued' },
        { $set: { state: 'due' } },
        { session: own, hint: { _id: 1 }, bypassDocumentValidation: true },
      )
      if (modifiedCount !== still.length) {
        await own.abortTransaction()
        return null
      }
      await outbox.insertMany(still.map(messageOfReaction), { session: own, bypassDocumentValidation: true })
      return still.length
    })
    if (moved !== null) return moved
    areAllQueued = false
  }
}

/** Drops reactions that are due and have no mail to send. Resolves to how many there were. */
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
