import { cleared, type NewSubscriber, type SubscriberUpdate } from '../../../shared/csv/row-decision.ts'
import type { FieldDefinition } from '../../../shared/contract/schemas/custom-field.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { TextBytes } from '../../../shared/values/text-bytes.ts'
import type { BsonWriter } from './bson/bson-writer.ts'

/** Makes the function that writes new subscribers, as documents of shared/contract/schemas/subscriber.ts. */
export function subscriberWriter(
  mailingListId: number,
  fields: readonly FieldDefinition[],
): (writer: BsonWriter, identity: TextBytes, subscriber: NewSubscriber) => void {
  const elementNames = fields.map((field) => String(field.id))
  const keyPrefix = subscriberKey(mailingListId, '')
  return (writer, identity, subscriber) => {
    const document = writer.begin()
    writer.string('_id', identity, keyPrefix)
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
    for (let i = 0; i < elementNames.length; i += 1) {
      const value = subscriber.values[i]
      if (value !== null && value !== undefined) writer.value(elementNames[i]!, value)
    }
    writer.end(values)
    writer.end(document)
  }
}

/**
 * Makes the function that writes a subscriber's update as a statement of the `update` command; an empty update writes
 * none. With `isForced` there is always a statement, so that a concurrent deletion conflicts with it.
 */
export function updateWriter(
  mailingListId: number,
  fields: readonly FieldDefinition[],
): (writer: BsonWriter, identity: TextBytes, update: SubscriberUpdate, isForced: boolean) => void {
  const paths = fields.map((field) => `custom_fields.${field.id}`)
  const keyPrefix = subscriberKey(mailingListId, '')
  return (writer, identity, update, isForced) => {
    const { values } = update
    const statement = writer.begin()
    // The filter `{_id}` alone keeps the server on its fast path; the transaction's snapshot replaces every other
    // guard.
    const filter = writer.beginObject('q')
    writer.string('_id', identity, keyPrefix)
    writer.end(filter)
    const changes = writer.beginObject('u')
    const set = writer.beginObject('$set')
    writeBuiltInFields(writer, update)
    for (let i = 0; i < paths.length; i += 1) {
      const value = values[i]!
      if (value !== null && value !== cleared) writer.value(paths[i]!, value)
    }
    writer.endFilled('$set', set)
    const unset = writer.beginObject('$unset')
    if (update.forgetsRemoval) {
      writer.string('remove_time', '')
      writer.string('remove_ip', '')
    }
    if (update.forgetsConfirmation) writer.string('confirm_time', '')
    for (let i = 0; i < paths.length; i += 1) if (values[i] === cleared) writer.string(paths[i]!, '')
    writer.endFilled('$unset', unset)
    if (isForced) {
      const increment = writer.beginObject('$inc')
      writer.number('reaction_requests', 1)
      writer.end(increment)
    }
    if (!writer.endFilled('u', changes)) {
      writer.cancel(statement)
      return
    }
    writer.end(statement)
  }
}

function writeBuiltInFields(writer: BsonWriter, update: SubscriberUpdate): void {
  if (update.email !== null) writer.string('email', update.email)
  if (update.emailKey !== null) writer.string('email_key', update.emailKey)
  if (update.status !== null) writer.string('status', update.status)
  if (update.subscribeTime !== null) writer.date('subscribe_time', update.subscribeTime)
  if (update.subscribeIp !== null) writer.string('subscribe_ip', update.subscribeIp)
  if (update.removeTime !== null) writer.date('remove_time', update.removeTime)
  if (update.removeIp !== null) writer.string('remove_ip', update.removeIp)
  if (update.reactivations !== null) writer.number('reactivations', update.reactivations)
  if (update.format !== null) writer.string('format', update.format)
  if (update.confirmed !== null) writer.boolean('confirmed', update.confirmed)
  if (update.confirmTime !== null) writer.date('confirm_time', update.confirmTime)
}
