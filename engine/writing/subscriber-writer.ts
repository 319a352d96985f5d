import type { FieldDefinition } from '../../shared/schemas/custom-field.ts'
import type { NewSubscriber } from '../../shared/rows/row-decision.ts'
import type { BsonWriter } from './bson-writer.ts'

/** Makes the function that writes new subscribers as documents: shared/schemas/subscriber.ts, key by key. */
export function subscriberWriter(
  mailingListId: number,
  fields: readonly FieldDefinition[],
): (writer: BsonWriter, subscriber: NewSubscriber) => void {
  const fieldKeys = fields.map((field) => String(field.id))
  return (writer, subscriber) => {
    const document = writer.begin()
    writer.string('_id', subscriber.key)
    writer.number('id', subscriber.id)
    writer.number('mailing_list_id', mailingListId)
    writer.string('email', subscriber.email)
    if (subscriber.emailKey !== null) writer.string('email_key', subscriber.emailKey)
    writer.string('status', subscriber.status)
    writer.date('created_at', subscriber.createdAt)
    writer.date('subscribe_time', subscriber.subscribeTime)
    if (subscriber.subscribeIp !== null) writer.string('subscribe_ip', subscriber.subscribeIp)
    if (subscriber.removeTime !== null) writer.date('remove_time', subscriber.removeTime)
    if (subscriber.removeIp !== null) writer.string('remove_ip', subscriber.removeIp)
    if (subscriber.format !== null) writer.string('format', subscriber.format)
    if (subscriber.confirmed !== null) writer.boolean('confirmed', subscriber.confirmed)
    if (subscriber.confirmTime !== null) writer.date('confirm_time', subscriber.confirmTime)
    const values = writer.beginObject('custom_fields')
    for (let i = 0; i < fieldKeys.length; i += 1) {
      const value = subscriber.values[i]
      if (value !== null && value !== undefined) writer.value(fieldKeys[i]!, value)
    }
    writer.end(values)
    writer.end(document)
    writer.documents += 1
  }
}
