import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/**
 * The callback of an ended import, to the URL that its creator gave. URL and secret are in the import. It is written
 * before the import is finalized and kept for a week after its end, so that operators can see its result.
 */
export const callbackDocument = z.object({
  /** `_id` of the import. */
  _id: id(),
  organization_id: id(),
  /** See callbackQueue. Queues are separate so that a slow receiver delays no other one. */
  queue: z.string(),
  /** The same in all attempts, so that a receiver can detect repeats. */
  webhook_id: z.string(),
  /** Request body, the same bytes in every attempt. */
  body: z.string(),
  /** waiting: for its next attempt, or for the end of the current one. */
  state: z.enum(['waiting', 'delivered', 'given_up']),
  /** Time of the next attempt; during an attempt, the time at which its lease expires. */
  due_at: instant(),
  /** Lease token of the current attempt; null between attempts. */
  token: z.string().nullable(),
  /** When the last attempt began. */
  tried_at: instant().nullable(),
  /** Failed attempts. An attempt that an engine's death broke off doesn't count and is made again. */
  failures: integer().min(0),
  /** Error of the last failed attempt. */
  problem: z.string().nullable(),
  ended_at: instant().nullable(),
})
