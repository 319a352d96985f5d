import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { SubscriberView } from './schemas.ts'
import type { SubscriberList } from './service.ts'

/** A subscriber document as a reply, without what the list doesn't use. */
export function toView(
  subscriber: SubscriberDocument,
  { list, fields, zone }: SubscriberList,
): SubscriberView {
  const { created_at, subscribe_time, remove_time, confirm_time } = subscriber
  return {
    id: subscriber.id,
    mailing_list_id: subscriber.mailing_list_id,
    email: subscriber.email,
    created_at: formatInstant(created_at, zone),
    created_at_epoch: epoch(created_at),
    ...(list.has_format ? { email_format: subscriber.format ?? 'both' } : {}),
    status: subscriber.status,
    subscribe_time: formatInstant(subscribe_time, zone),
    subscribe_time_epoch: epoch(subscribe_time),
    subscribe_ip: subscriber.subscribe_ip ?? null,
    custom_fields: Object.fromEntries(
      fields.map(({ field: { id, name, field_type: type } }) => [
        name,
        { name, type, value: subscriber.custom_fields[id] ?? null },
      ]),
    ),
    remove_time: remove_time === undefined ? null : formatInstant(remove_time, zone),
    remove_time_epoch: remove_time === undefined ? null : epoch(remove_time),
    remove_ip: subscriber.remove_ip ?? null,
    ...(list.has_confirmed
      ? {
          confirmed: subscriber.confirmed ?? false,
          confirm_time: confirm_time === undefined ? null : formatInstant(confirm_time, zone),
          confirm_time_epoch: confirm_time === undefined ? null : epoch(confirm_time),
        }
      : {}),
  }
}

const epoch = (instant: Date): number => Math.floor(instant.getTime() / 1000)
