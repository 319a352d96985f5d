import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { DeliveryEventDocument } from '../../shared/contract/schemas/delivery.ts'

/** Writes of `delivery_events`. An event that is stored already is a duplicate key, whose error passes through. */
export async function insertDeliveryEvents(
  { deliveryEvents }: Collections,
  events: DeliveryEventDocument[],
  session: ClientSession,
): Promise<void> {
  if (events.length > 0) await deliveryEvents.insertMany(events, { session, ordered: false })
}
