import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/** The queue of an autoresponder's messages, or of an organization's confirmations: a negative number. */
export const queueOf = {
  autoresponder: (autoresponderId: number): number => autoresponderId,
  confirmations: (organizationId: number): number => -organizationId,
}

/**
 * A message that is to be mailed. It holds who gets what, not the texts: those are read when it is handed out. Removed
 * when it is acknowledged or dropped.
 */
export const outboxDocument = z.object({
  /** Drawn from the reactions' ids: of a reaction it is the reaction's own. */
  _id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  kind: z.enum(['autoresponder', 'confirmation']),
  /** What it waits in line with, see queueOf: messages of a paused autoresponder hold up no others. */
  queue: integer(),
  autoresponder_id: id().nullable(),
  subscriber_id: id().nullable(),
  /** `_id` of the reaction; null for a confirmation. */
  reaction: z.string().nullable(),
  /** `_id` of the pending subscriber; null for a reaction. */
  pending_subscriber: z.string().nullable(),
  due_at: instant(),
  /** ready: nobody has it; taken: handed out, until its lease runs out. */
  state: z.enum(['ready', 'taken']),
  /** Whose it is; null while nobody has had it. */
  lease_token: z.string().nullable(),
  leased_until: instant().nullable(),
})
export type OutboxDocument = z.infer<typeof outboxDocument>
