import type { ClientSession } from 'mongodb'
import type { z } from 'zod'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import {
  databaseTime,
  inTransaction,
  isDuplicateKey,
  type Database,
} from '../../../shared/runtime/database.ts'
import { reactionsOfSubscriber } from '../../../shared/contract/schemas/autoresponder.ts'
import {
  deliveryMessageKey,
  tokenEventKey,
  toldEventKey,
  type DeliveryEventDocument,
} from '../../../shared/contract/schemas/delivery.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { noteTriggered } from '../../../shared/store/reactions.ts'
import { parseApiTime } from '../../../shared/values/date-time.ts'
import type { UnsubscribeToken } from '../../api/signed-token.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { recordEvents, type ToldEvent } from './record.ts'
import type { deliveryEventsView, GivenEvent } from './schemas.ts'
import { readSenders, zonesOf } from './senders.ts'

/** Takes what a sender tells: all of it counts, or nothing does. */
export async function recordDeliveryEvents(
  { database }: ControlPlane,
  caller: Caller,
  given: readonly GivenEvent[],
): Promise<z.infer<typeof deliveryEventsView>> {
  const now = await databaseTime(database.db)
  const told = await reachedEvents(database, caller, given, now)
  const { accepted, duplicates, ignored, triggered } = await untilNoneIsTaken(() =>
    inTransaction(database, (session) => recordEvents(database, session, told)),
  )
  for (const [zone, autoresponders] of Map.groupBy(triggered, ([, zone]) => zone))
    await noteTriggered(
      database.collections,
      autoresponders.map(([id]) => id),
      { zone, at: now },
    )
  return { accepted, duplicates, ignored: ignored + given.length - told.length }
}

/** Without those of autoresponders that the caller doesn't reach, or that are none. */
async function reachedEvents(
  database: Database,
  caller: Caller,
  given: readonly GivenEvent[],
  now: Date,
): Promise<ToldEvent[]> {
  const ids = new Set(given.flatMap(({ autoresponder_id: id }) => id ?? []))
  const [senders, zones] = await Promise.all([
    readSenders(database, caller, [...ids]),
    zonesOf(database.collections, [caller.organizationId]),
  ])
  return given.flatMap((event): ToldEvent[] => {
    const sender = event.autoresponder_id === null ? null : senders.get(event.autoresponder_id)
    if (sender === undefined) return []
    const organizationId = sender?.organizationId ?? caller.organizationId
    const zone = sender?.zone ?? zones.get(organizationId) ?? 'UTC'
    return [{ event: toDocument(event, { organizationId, zone, now }), sender }]
  })
}

function toDocument(
  { id, occurred_at: occurredAt, ...rest }: GivenEvent,
  { organizationId, zone, now }: { organizationId: number; zone: string; now: Date },
): DeliveryEventDocument {
  return {
    _id: toldEventKey(organizationId, id),
    organization_id: organizationId,
    ...rest,
    occurred_at: parseApiTime(occurredAt, zone)!,
    created_at: now,
  }
}

/**
 * Inside the transaction in which the token of a message made its subscriber unsubscribed: counts as the message's
 * event, once. A message that is no autoresponder's has no figures.
 */
export async function recordUnsubscription(
  database: Database,
  session: ClientSession,
  { list, zone, subscriberId, messageId }: { list: MailingListDocument; zone: string } & UnsubscribeToken,
): Promise<void> {
  const reaction = await database.collections.reactions.findOne(
    { _id: reactionsOfSubscriber(subscriberId), id: Number(messageId) },
    { session, projection: { autoresponder_id: 1 } },
  )
  if (reaction === null) return
  const { autoresponder_id: autoresponderId } = reaction
  const { _id: listId, organization_id: organizationId } = list
  const key = deliveryMessageKey(autoresponderId, subscriberId, messageId)
  const now = await databaseTime(database.db)
  const event: DeliveryEventDocument = {
    _id: tokenEventKey(organizationId, key),
    organization_id: organizationId,
    type: 'unsubscribed',
    occurred_at: now,
    message_id: messageId,
    autoresponder_id: autoresponderId,
    subscriber_id: subscriberId,
    created_at: now,
  }
  const sender = { id: autoresponderId, organizationId, listId, zone, triggers: [] }
  await recordEvents(database, session, [{ event, sender, hasMoved: true }])
}

/**
 * Calls that bring the same event, or the first events of a message, at one moment: one commits, the other is done
 * again and sees it.
 */
export async function untilNoneIsTaken<T>(record: () => Promise<T>): Promise<T> {
  const deadline = clock.monotonicMs() + timeoutMs
  for (;;) {
    try {
      return await record()
    } catch (error) {
      if (!isDuplicateKey(error) || clock.monotonicMs() > deadline) throw error
    }
  }
}

const timeoutMs = 20_000
