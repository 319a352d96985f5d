import { clock } from '../../../shared/runtime/clock.ts'
import type { FieldValue } from '../../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { isGrownTooLarge, valuesBytes, valuesTooLarge } from '../../../shared/store/value-bytes.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import { refuseProblems } from '../../api/validation.ts'
import { identityOf, readGiven } from './given-values.ts'
import type { SubscriberList } from './list-context.ts'
import type { SubscriberCreation } from './schemas.ts'

/** The document that a creation asks for, but for its id. Throws what is wrong with it. */
export function newSubscriber(
  given: SubscriberCreation,
  context: SubscriberList,
): Omit<SubscriberDocument, 'id'> {
  const { list, fields, primaryKey } = context
  const problems: string[] = []
  const values = readGiven(given, { context, problems })
  const customFields: Record<string, FieldValue> = {}
  for (const { field } of fields) {
    const value = values.fields.get(field.id) ?? (given.apply_custom_field_defaults ? field.default : null)
    if (value !== null) customFields[field.id] = value
    else if (field.required && !values.faultyFields.has(field.id))
      problems.push(`custom_fields.${field.name} is required`)
  }
  if (isGrownTooLarge(0, valuesBytes(customFields))) problems.push(valuesTooLarge)
  refuseProblems(problems)
  const identity = identityOf(
    {
      emailKey: values.emailKey,
      fields: new Map(fields.map(({ field }) => [field.id, customFields[field.id] ?? null])),
    },
    context,
  )!
  const now = clock.now()
  const removal =
    given.status === 'active'
      ? {}
      : { remove_time: values.removeTime ?? now, ...present('remove_ip', values.removeIp) }
  const confirmTime = given.confirmed ? (values.confirmTime ?? now) : undefined
  return {
    _id: subscriberKey(list._id, identity),
    mailing_list_id: list._id,
    email: values.email!,
    ...(primaryKey === null ? {} : { email_key: values.emailKey! }),
    status: given.status,
    created_at: now,
    subscribe_time: values.subscribeTime ?? now,
    ...present('subscribe_ip', values.subscribeIp),
    ...removal,
    ...(list.has_format ? { format: given.email_format ?? 'both' } : {}),
    ...(list.has_confirmed ? { confirmed: given.confirmed, ...present('confirm_time', confirmTime) } : {}),
    custom_fields: customFields,
  }
}

function present<Key extends string, Value>(
  key: Key,
  value: Value | null | undefined,
): Partial<Record<Key, Value>> {
  return value === undefined || value === null ? {} : ({ [key]: value } as Record<Key, Value>)
}
