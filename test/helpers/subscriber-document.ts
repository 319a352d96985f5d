import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import type { SubscriberPlan } from '../../control-plane/store/write-subscriber.ts'

/** An active subscriber as a request that creates it writes it. */
export function subscriberDocument(
  listId: number,
  email: string,
  id: number,
  custom_fields: SubscriberDocument['custom_fields'] = {},
): SubscriberDocument {
  const now = new Date()
  return {
    _id: `${listId}:${email}`,
    id,
    mailing_list_id: listId,
    email,
    status: 'active',
    created_at: now,
    subscribe_time: now,
    custom_fields,
  }
}

/** The plan of a request that adds it. */
export const additionOf = (
  organizationId: number,
  subscriber: SubscriberDocument,
  more: Partial<SubscriberPlan> = {},
): SubscriberPlan => ({
  organizationId,
  listId: subscriber.mailing_list_id,
  create: () => ({ subscriber }),
  ...more,
})
