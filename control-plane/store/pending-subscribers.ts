import { randomBytes } from 'node:crypto'
import type { ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { inTransaction } from '../../shared/runtime/transactions.ts'
import { isDuplicateKey } from '../../shared/runtime/driver-errors.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { PendingSubscriberDocument } from '../../shared/contract/schemas/confirmation.ts'
import { queueConfirmation, withdrawConfirmation } from '../../shared/store/reactions.ts'
import { dayMs } from '../../shared/values/durations.ts'

/**
 * Pending subscribers have to follow the link in a mail before they are added. A pending subscriber and the mail are
 * written in one transaction: a process that is killed between two writes would leave one without a mail, and a repeated
 * request sends none for 10 minutes. They are no subscribers with a status of their own, because an address that a
 * stranger typed would then take the identity before its owner agrees.
 */

const confirmableForMs = 7 * dayMs
/** Minimum time between two mails to the same identity. */
const mailPauseMs = 600_000

type ConfirmationRequest = Omit<
  PendingSubscriberDocument,
  'token' | 'mailed_at' | 'message_id' | 'expires_at'
>

/**
 * Stores a request for a confirmation, in place of an earlier one for the same identity, and queues the mail. Within 10 minutes of the previous mail no second one is sent, and its link stands for the new request. Later
 * the previous mail is withdrawn unless it was handed out already, and its link becomes invalid.
 */
export async function putPendingSubscriber(
  database: Database,
  organizationId: number,
  request: ConfirmationRequest,
): Promise<void> {
  const messageId = await database.ids.allocate('reaction')
  const put = () => putOnce(database, organizationId, request, messageId)
  await put().catch((error: unknown) => {
    // Of two concurrent first requests for an identity, one fails; its second try finds the other's document.
    if (!isDuplicateKey(error)) throw error
    return put()
  })
}

function putOnce(
  database: Database,
  organizationId: number,
  request: ConfirmationRequest,
  messageId: number,
): Promise<void> {
  const { collections } = database
  const { pendingSubscribers } = collections
  const { _id, ...rest } = request
  const token = randomBytes(24).toString('base64url')
  const isFresh = { $gt: ['$mailed_at', { $subtract: ['$$NOW', mailPauseMs] }] }
  return inTransaction(database, async (session) => {
    const before = await pendingSubscribers.findOne({ _id }, { session, projection: { message_id: 1 } })
    const after = await pendingSubscribers.findOneAndUpdate(
      { _id },
      [
        {
          // The values come from users and must not be read as expressions.
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
    if (after?.message_id !== messageId) return
    if (before !== null) await withdrawConfirmation(collections, session, before.message_id)
    await queueConfirmation(collections, session, {
      id: messageId,
      organizationId,
      listId: request.mailing_list_id,
      pendingSubscriber: _id,
      dueAt: after.mailed_at,
    })
  })
}

/** Finds the pending subscriber whose link with this token is still valid. */
export function findPendingSubscriber(
  { pendingSubscribers }: Collections,
  token: string,
): Promise<PendingSubscriberDocument | null> {
  return pendingSubscribers.findOne({ token, ...stillConfirmable })
}

/** Compares by the database's clock, because the server removes expired documents up to a minute late. */
export const stillConfirmable = { $expr: { $gt: ['$expires_at', '$$NOW'] } }

/**
 * Inside the transaction that adds it as a subscriber: removes a pending subscriber as it was read, and its mail. Only one
 * visit of a link does. False for a link that was used, has expired, or belongs to a newer request.
 */
export async function removePending(
  collections: Collections,
  session: ClientSession,
  { _id, token, expires_at, message_id }: PendingSubscriberDocument,
): Promise<boolean> {
  // Each request for the identity changes the expiry, so a different one means a request that this visit didn't read.
  const { deletedCount } = await collections.pendingSubscribers.deleteOne(
    { _id, token, expires_at, ...stillConfirmable },
    { session },
  )
  if (deletedCount === 1) await withdrawConfirmation(collections, session, message_id)
  return deletedCount === 1
}
