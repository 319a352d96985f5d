import type { ClientSession } from 'mongodb'
import type { z } from 'zod'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { databaseTime, type Database } from '../../../shared/runtime/database.ts'
import { conflictTimeoutMs, inTransaction } from '../../../shared/runtime/transactions.ts'
import { isDuplicateKey } from '../../../shared/runtime/driver-errors.ts'
import { reactionsOfSubscriber } from '../../../shared/contract/schemas/autoresponder.ts'
import { deliveryMessageKey, tokenEventKey, toldEventKey } from '../../../shared/contract/schemas/delivery.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { recordTriggered } from '../../../shared/store/reactions.ts'
import { parseApiTime } from '../../../shared/values/date-time.ts'
import type { UnsubscribeToken } from '../../api/signed-token.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { recordEvents, type ReportedEvent } from './record.ts'
import type { deliveryEventsView, DeliveryEvent, RecordedEvent } from './schemas.ts'
import { readEventAutoresponders } from './event-autoresponders.ts'
import { toView } from './view.ts'

/** Records the events of a call, all or none. */
export async function recordDeliveryEvents(
  deps: ControlPlane,
  caller: Caller,
  events: readonly DeliveryEvent[],
): Promise<z.infer<typeof deliveryEventsView>> {
  const { database } = deps
  const now = await databaseTime(database.db)
  const reported = await readAccessible(deps, caller, events, now)
  const { triggered, ...counts } = await retryOnDuplicateEvent(() =>
    inTransaction(database, (session) => recordEvents(database, session, reported)),
  )
  for (const [zone, autoresponders] of Map.groupBy(triggered, ([, zone]) => zone))
    await recordTriggered(
      database,
      autoresponders.map(([id]) => id),
      { zone, at: now },
    )
  return toView(counts, events.length - reported.length)
}

/** Leaves out the events of autoresponders that don't exist or that the caller can't access. */
async function readAccessible(
  deps: ControlPlane,
  caller: Caller,
  events: readonly DeliveryEvent[],
  now: Date,
): Promise<ReportedEvent[]> {
  const ids = new Set(events.flatMap(({ autoresponder_id: id }) => id ?? []))
  const [autoresponders, callerZone] = await Promise.all([
    readEventAutoresponders(deps, caller, [...ids]),
    deps.reads.timeZone(caller.organizationId),
  ])
  return events.flatMap((event): ReportedEvent[] => {
    const { autoresponder_id: autoresponderId, subscriber_id: subscriberId } = event
    if (autoresponderId === null || subscriberId === null) {
      const { organizationId } = caller
      return [{ event: toRecorded(event, { organizationId, zone: callerZone, now }), recipient: null }]
    }
    const autoresponder = autoresponders.get(autoresponderId)
    if (autoresponder === undefined) return []
    const recorded = toRecorded(event, { ...autoresponder, now })
    return [{ event: recorded, recipient: { autoresponder, subscriberId } }]
  })
}

function toRecorded(
  { id, occurred_at: text, ...rest }: DeliveryEvent,
  { organizationId, zone, now }: { organizationId: number; zone: string; now: Date },
): RecordedEvent {
  const occurredAt = parseApiTime(text, zone)
  if (occurredAt === null) throw new Error(`the schema accepted ${JSON.stringify(text)}, which is no time`)
  return {
    _id: toldEventKey(organizationId, id),
    organization_id: organizationId,
    ...rest,
    occurred_at: occurredAt,
    created_at: now,
  }
}

/**
 * Records an unsubscription by the token of a message as an event of the message, once. It runs in the transaction that
 * has changed the subscriber's status. Only messages of autoresponders have statistics.
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
  const event: RecordedEvent = {
    _id: tokenEventKey(organizationId, key),
    organization_id: organizationId,
    type: 'unsubscribed',
    occurred_at: now,
    message_id: messageId,
    autoresponder_id: autoresponderId,
    subscriber_id: subscriberId,
    created_at: now,
  }
  const autoresponder = { id: autoresponderId, organizationId, listId, zone, answering: [] }
  await recordEvents(database, session, [
    { event, recipient: { autoresponder, subscriberId }, hasMoved: true },
  ])
}

/**
 * Retries after a duplicate key, for up to 20 s. Concurrent calls with the same event, or with first events of the same
 * message, insert the same key: one commits, and the retry of the other finds the document.
 */
export async function retryOnDuplicateEvent<T>(record: () => Promise<T>): Promise<T> {
  const deadline = clock.monotonicMs() + conflictTimeoutMs
  for (;;) {
    try {
      return await record()
    } catch (error) {
      if (!isDuplicateKey(error) || clock.monotonicMs() > deadline) throw error
    }
  }
}
