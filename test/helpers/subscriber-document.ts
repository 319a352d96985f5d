import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'

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
