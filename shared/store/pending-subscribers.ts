import { randomBytes } from 'node:crypto'
import type { Collections } from '../schemas/collections.ts'
import type { PendingSubscriberDocument } from '../schemas/confirmation.ts'

const dayMs = 24 * 3_600_000
export const confirmableForMs = 7 * dayMs
/** A second mail to the same identity isn't sent earlier. */
const mailPauseMs = 600_000

type Asked = Omit<PendingSubscriberDocument, 'token' | 'mailed_at' | 'expires_at'>

/**
 * Notes who is asked to confirm, in place of an earlier request for the same identity. `isMailDue`: not within 10
 * minutes of the mail before; the link in that one stands for the new request then.
 */
export async function putPendingSubscriber(
  { pendingSubscribers }: Collections,
  asked: Asked,
): Promise<{ pending: PendingSubscriberDocument; isMailDue: boolean }> {
  const token = randomBytes(24).toString('base64url')
  const isFresh = { $gt: ['$mailed_at', { $subtract: ['$$NOW', mailPauseMs] }] }
  const { _id, ...rest } = asked
  const pending = await pendingSubscribers.findOneAndUpdate(
    { _id },
    [
      {
        // Values come from users: none of them may be taken for an expression.
        $set: {
          ...Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, { $literal: value }])),
          token: { $cond: [isFresh, '$token', token] },
          mailed_at: { $cond: [isFresh, '$mailed_at', '$$NOW'] },
          expires_at: { $add: ['$$NOW', confirmableForMs] },
        },
      },
    ],
    { upsert: true, returnDocument: 'after' },
  )
  return { pending: pending!, isMailDue: pending!.token === token }
}
