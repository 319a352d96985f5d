import type { ClientSession } from 'mongodb'
import { databaseTime, type Database } from '../../shared/runtime/database.ts'
import { reactionsOfSubscriber, type ReactionDocument } from '../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { noteTriggered, queueReactions, type Answering } from '../../shared/store/reactions.ts'
import type { SubscriberWrite } from './subscribers.ts'

/** The autoresponders that a request lets answer its write of a subscriber. */
export interface RequestedReactions {
  autoresponders: readonly Answering[]
  /** IANA name of the organization's zone. */
  zone: string
  /** The first of the ids that were allocated for the reactions. */
  firstId: number
  /** Nothing is queued when one of the autoresponders already has a reaction to this subscriber queued. */
  excludeReacted: boolean
  /** Replacements for the texts of their mails, with their keys as sent. */
  fields?: Record<string, string>
  rawFields?: Record<string, string>
}

type QueueRequested = (
  session: ClientSession,
  reaction: { organizationId: number; subscriber: SubscriberDocument },
) => Promise<void>

/**
 * Calls `write` with a function that queues the requested reactions in the transaction of the write. After the commit
 * they are recorded as triggered.
 */
export async function withRequestedReactions(
  database: Database,
  requested: RequestedReactions | undefined,
  write: (queueRequested: QueueRequested) => Promise<SubscriberWrite>,
): Promise<SubscriberWrite> {
  if (requested === undefined) return write(() => Promise.resolve())
  let queued: ReactionDocument[] = []
  let causedAt = new Date(0)
  const outcome = await write(async (session, { organizationId, subscriber }) => {
    queued = []
    if (requested.autoresponders.length === 0 || subscriber.status !== 'active') return
    causedAt = await databaseTime(database.db)
    queued = await queueFor(database.collections, session, {
      organizationId,
      subscriber,
      requested,
      causedAt,
    })
  })
  if (outcome === 'done' && queued.length > 0)
    await noteTriggered(
      database.collections,
      queued.map((reaction) => reaction.autoresponder_id),
      { zone: requested.zone, at: causedAt },
    )
  return outcome
}

/** Queues the reactions to an active subscriber. */
async function queueFor(
  collections: Collections,
  session: ClientSession,
  {
    organizationId,
    subscriber,
    requested,
    causedAt,
  }: {
    organizationId: number
    subscriber: SubscriberDocument
    requested: RequestedReactions
    causedAt: Date
  },
): Promise<ReactionDocument[]> {
  const { autoresponders, zone, firstId, excludeReacted, fields, rawFields } = requested
  if (excludeReacted) {
    const reacted = await collections.reactions.findOne(
      {
        _id: reactionsOfSubscriber(subscriber.id),
        autoresponder_id: { $in: autoresponders.map(({ _id }) => _id) },
      },
      { session, projection: { _id: 1 } },
    )
    if (reacted !== null) return []
  }
  return queueReactions(
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
}
