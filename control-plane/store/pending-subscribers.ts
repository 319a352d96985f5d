import { randomBytes } from 'node:crypto'
import { inTransaction, isDuplicateKey, nextIds, type Database } from '../../shared/runtime/database.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { PendingSubscriberDocument } from '../../shared/contract/schemas/confirmation.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { putConfirmation } from '../../shared/store/outbox.ts'
import { insertSubscriber, type InsertOptions, type SubscriberWrite } from './subscribers.ts'

/** Who is to follow the link in his mail before he is added. A mail and what it asks for are written together. */

const dayMs = 24 * 3_600_000
const confirmableForMs = 7 * dayMs
/** A second mail to the same identity isn't sent earlier. */
const mailPauseMs = 600_000

type Asked = Omit<PendingSubscriberDocument, 'token' | 'mailed_at' | 'message_id' | 'expires_at'>

/**
 * Notes who is asked to confirm, in place of an earlier request for the same identity, and puts the mail into the
 * outbox. Within 10 minutes of the mail before there is no second one: its link stands for the new request then. Later
 * the mail before is taken back, unless it was handed out already, and its link ends.
 */
export async function putPendingSubscriber(
  database: Database,
  organizationId: number,
  asked: Asked,
): Promise<void> {
  const messageId = await nextIds(database.collections, 'reaction')
  const put = () => putOnce(database, organizationId, asked, messageId)
  await put().catch((error: unknown) => {
    // Of two first requests for an identity one comes second, and finds it there the next time.
    if (!isDuplicateKey(error)) throw error
    return put()
  })
}

function putOnce(database: Database, organizationId: number, asked: Asked, messageId: number): Promise<void> {
  const { collections } = database
  const { pendingSubscribers, outbox } = collections
  const { _id, ...rest } = asked
  const token = randomBytes(24).toString('base64url')
  const isFresh = { $gt: ['$mailed_at', { $subtract: ['$$NOW', mailPauseMs] }] }
  return inTransaction(database, async (session) => {
    const before = await pendingSubscribers.findOne({ _id }, { session, projection: { message_id: 1 } })
    const after = await pendingSubscribers.findOneAndUpdate(
      { _id },
      [
        {
          // Values come from users: none of them may be taken for an expression.
          $set: {
            ...Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, { $literal: value }])),
            token: { $cond: [isFresh, '$token', token] },
            mailed_at: { $cond: [isFresh, '$mailed_at', '$$NOW'] },
            message_id: { $cond: [isFresh, '$message_id', messageId] },
            expires_at: { $add: ['$$NOW', confirmableForMs] },
          },
        },
      ],
      { upsert: true, returnDocument: 'after', session },
    )
    if (after!.message_id !== messageId) return
    if (before !== null) await outbox.deleteOne({ _id: before.message_id, state: 'ready' }, { session })
    await putConfirmation(
      collections,
      {
        id: messageId,
        organizationId,
        listId: asked.mailing_list_id,
        pendingSubscriber: _id,
        dueAt: after!.mailed_at,
      },
      session,
    )
  })
}

/** Who may still follow the link with this token. */
export function findPendingSubscriber(
  { pendingSubscribers }: Collections,
  token: string,
): Promise<PendingSubscriberDocument | null> {
  return pendingSubscribers.findOne({ token, ...stillConfirmable })
}

/** By the database's clock: the server removes expired ones a minute late. */
export const stillConfirmable = { $expr: { $gt: ['$expires_at', '$$NOW'] } }

/**
 * Adds a pending subscriber as `subscriber`. Only one visit of a link does. `missing` is a link that was used, has expired,
 * or belongs to a newer request. With any outcome but `done` nothing is changed, so the link stays valid.
 */
export function addConfirmed(
  database: Database,
  organizationId: number,
  { pending, subscriber }: { pending: PendingSubscriberDocument; subscriber: SubscriberDocument },
  options: InsertOptions,
): Promise<SubscriberWrite> {
  const { pendingSubscribers, outbox } = database.collections
  const { _id, token, expires_at, message_id } = pending
  return insertSubscriber(database, organizationId, subscriber, {
    ...options,
    claim: async (session) => {
      // Each request for the identity moves the expiry: another one is a request that this visit didn't read.
      const { deletedCount } = await pendingSubscribers.deleteOne(
        { _id, token, expires_at, ...stillConfirmable },
        { session },
      )
      if (deletedCount === 1) await outbox.deleteOne({ _id: message_id, state: 'ready' }, { session })
      return deletedCount === 1
    },
  })
}
