import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { DeliveryMessageDocument } from '../../shared/contract/schemas/delivery.ts'

/** Writes of `delivery_messages`. A message that is stored by now is a duplicate key, whose error passes through. */
export async function writeDeliveryMessages(
  { deliveryMessages }: Collections,
  { added, changed }: { added: DeliveryMessageDocument[]; changed: readonly DeliveryMessageDocument[] },
  session: ClientSession,
): Promise<void> {
  if (added.length > 0) await deliveryMessages.insertMany(added, { session, ordered: false })
  if (changed.length > 0)
    await deliveryMessages.bulkWrite(
      changed.map((message) => ({ replaceOne: { filter: { _id: message._id }, replacement: message } })),
      { session, ordered: false },
    )
}
