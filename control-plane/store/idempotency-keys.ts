import type { ClientSession } from 'mongodb'
import type { IdempotencyDocument } from '../../shared/contract/schemas/bookkeeping.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { dayMs } from '../../shared/values/durations.ts'

/** Replies to creations of imports, by the Idempotency-Key of their requests. Each is kept for a day. */

/** Null when there is none, or it has expired. */
export function findReply({ idempotencyKeys }: Collections, id: string): Promise<IdempotencyDocument | null> {
  return idempotencyKeys.findOne({ _id: id, $expr: { $gt: ['$expires_at', '$$NOW'] } })
}

/** Replaces one that has expired. Throws a duplicate key error when another import's is there. */
export async function insertReply(
  { idempotencyKeys }: Collections,
  session: ClientSession,
  { _id, import_id, ...rest }: Omit<IdempotencyDocument, 'expires_at'>,
): Promise<void> {
  await idempotencyKeys.deleteOne({ _id, $expr: { $lte: ['$expires_at', '$$NOW'] } }, { session })
  // A pipeline, for `$$NOW`. With another import's reply the filter matches nothing, and the upsert is refused.
  await idempotencyKeys.updateOne(
    { _id, import_id },
    [
      {
        $set: {
          ...literals(rest),
          expires_at: { $add: ['$$NOW', dayMs] },
        },
      },
    ],
    { upsert: true, session },
  )
}

/** A pipeline takes a text that begins with `$` for a path. */
const literals = (values: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { $literal: value }]))
