import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/** Queues of the outbox. Those of confirmations are negative, so that they never equal the id of an autoresponder. */
export const outboxQueue = {
  autoresponder: (autoresponderId: number): number => autoresponderId,
  confirmations: (organizationId: number): number => -organizationId,
}

/**
 * A message to be mailed. It refers to its recipient and its mail; texts are read when it is handed out. It is removed
 * when it is acknowledged or dropped.
 */
export const outboxDocument = z.object({
  /** From the counter of reactions; the message of a reaction has the id of the reaction. */
  _id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  kind: z.enum(['autoresponder', 'confirmation']),
  /** See `outboxQueue`. Queues are separate so that messages of a paused autoresponder delay no others. */
  queue: integer(),
  autoresponder_id: id().nullable(),
  subscriber_id: id().nullable(),
  /** `_id` of the reaction; null for a confirmation. */
  reaction: z.string().nullable(),
  /** `_id` of the pending subscriber; null for a reaction. */
  pending_subscriber: z.string().nullable(),
  due_at: instant(),
  /** ready: not handed out. taken: handed out, until its lease expires. */
  state: z.enum(['ready', 'taken']),
  /** Token of the last lease; null before the first one. */
  lease_token: z.string().nullable(),
  leased_until: instant().nullable(),
  /** Beginning of the last lease; absent before it. */
  leased_at: instant().optional(),
})
export type OutboxDocument = z.infer<typeof outboxDocument>
