import type { ClientSession } from 'mongodb'
import { databaseTime, type Database } from '../../shared/runtime/database.ts'
import { reactionsOfSubscriber } from '../../shared/contract/schemas/autoresponder.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { queueReactions, type AnsweringAutoresponder } from '../../shared/store/reactions.ts'

/** The autoresponders that a request wants to react to its write of a subscriber. */
export interface RequestedReactions {
  autoresponders: readonly AnsweringAutoresponder[]
  /** IANA name of the organization's zone. */
  zone: string
  /** The first of as many ids as there are autoresponders, allocated for the reactions. */
  firstId: number
  /** No reaction is queued where one of the autoresponders has a reaction to this subscriber queued already. */
  excludeReacted: boolean
  /** Replacements for the texts of their mails, keys as the request has them. */
  fields?: Record<string, string>
  rawFields?: Record<string, string>
}

/** What `recordTriggered` is told after the commit. */
export interface QueuedReactions {
  autoresponderIds: number[]
  when: { zone: string; at: Date }
}

/** Inside the write's transaction: queues the reactions if the subscriber is active. Undefined when none is queued. */
export async function queueRequested(
  {
    database: { db, collections },
    session,
    organizationId,
  }: { database: Database; session: ClientSession; organizationId: number },
  requested: RequestedReactions,
  subscriber: SubscriberDocument,
): Promise<QueuedReactions | undefined> {
  if (requested.autoresponders.length === 0 || subscriber.status !== 'active') return undefined
  const { autoresponders, zone, firstId, excludeReacted, fields, rawFields } = requested
  const causedAt = await databaseTime(db)
  if (excludeReacted) {
    const reacted = await collections.reactions.findOne(
      {
        _id: reactionsOfSubscriber(subscriber.id),
        autoresponder_id: { $in: autoresponders.map(({ _id }) => _id) },
      },
      { session, projection: { _id: 1 } },
    )
    if (reacted !== null) return undefined
  }
  const queued = await queueReactions(
    collections,
    session,
    autoresponders.map((autoresponder, i) => ({
      id: firstId + i,
      cause: 'request',
      organizationId,
      subscriber,
      autoresponder,
      zone,
      causedAt,
      ...(fields === undefined ? {} : { fields }),
      ...(rawFields === undefined ? {} : { rawFields }),
    })),
  )
  if (queued.length === 0) return undefined
  return {
    autoresponderIds: queued.map((reaction) => reaction.autoresponder_id),
    when: { zone, at: causedAt },
  }
}
