import { clock } from '../../../../shared/runtime/clock.ts'
import type { FieldValue } from '../../../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import { isGrownTooLarge, valuesBytes } from '../../../../shared/store/value-bytes.ts'
import { subscriberKey } from '../../../../shared/values/identity.ts'
import type { Call } from '../../../api/endpoint.ts'
import type { RequestError } from '../../../api/request-error.ts'
import { refuseAll } from '../../../api/validation.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { putPendingSubscriber } from '../../../store/pending-subscribers.ts'
import { writeSubscriber } from '../../../store/write-subscriber.ts'
import { readEmail, readIdentity, readValues, type SubscriberValues } from '../check-values/service.ts'
import { customFieldsTooLarge, noConfirmationForm, requiredField } from '../refusals.ts'
import type { SubscriberCreation, SubscriberView } from '../schemas.ts'
import { checkedAgainst, subscriberListInPath, writeRefusal, type SubscriberList } from '../service.ts'
import { planReactions } from '../trigger-autoresponders/choice.ts'
import { toView } from '../view.ts'
import { subscriberTransition } from '../../../../shared/values/subscriber-transition.ts'

/**
 * Adds a subscriber, or asks it to confirm first. Resolves to its view, or to null when it was asked. Throws `not_found`
 * (confirmation form), `validation_failed` (values, an identity that is taken, a subscriber limit), and 503 where the
 * list keeps changing.
 */
export async function createSubscriber(
  call: Call<unknown, SubscriberCreation, SubscriberList>,
): Promise<SubscriberView | null> {
  const { deps, body } = call
  if (body.confirmation_form_id !== undefined) {
    await requestConfirmation(deps, call.record, body, body.confirmation_form_id)
    return null
  }
  const result = await writeSubscriber(deps, {
    found: call.record,
    findAgain: () => subscriberListInPath.find(call),
    async plan(context) {
      const subscriber = newSubscriber(body, context)
      const [id, reactions] = await Promise.all([
        deps.database.ids.allocate('subscriber'),
        subscriber.status === 'active' ? planReactions(deps, context, body) : undefined,
      ])
      return { ...checkedAgainst(context), create: () => ({ subscriber: { ...subscriber, id }, reactions }) }
    },
  })
  if (result.outcome !== 'done') throw writeRefusal(result.outcome, body.email)
  return toView(result.after, result.found)
}

/** The document of a new subscriber, without its id. Throws `validation_failed` with all problems of the body. */
export function newSubscriber(
  body: SubscriberCreation,
  context: SubscriberList,
): Omit<SubscriberDocument, 'id'> {
  const { list, primaryKey } = context
  const problems: RequestError[] = []
  const email = readEmail(body.email, problems)
  const values = readValues(body, { context, problems })
  const fields = newFields(body, values, context, problems)
  const customFields = Object.fromEntries(fields)
  if (isGrownTooLarge(0, valuesBytes(customFields))) problems.push(customFieldsTooLarge())
  refuseAll(problems)
  const identity = readIdentity(email.key, fields, context)
  if (identity === undefined) throw new Error(`the primary key of list ${list._id} is not required`)
  const now = clock.now()
  const hasLeft = subscriberTransition(null, body.status).removal === 'begins'
  const confirmTime = body.confirmed ? (values.confirmTime ?? now) : undefined
  return {
    _id: subscriberKey(list._id, identity),
    mailing_list_id: list._id,
    email: email.address,
    ...(primaryKey === null ? {} : { email_key: email.key }),
    status: body.status,
    created_at: now,
    subscribe_time: values.subscribeTime ?? now,
    ...(typeof values.subscribeIp === 'string' ? { subscribe_ip: values.subscribeIp } : {}),
    ...(hasLeft ? { remove_time: values.removeTime ?? now } : {}),
    ...(hasLeft && typeof values.removeIp === 'string' ? { remove_ip: values.removeIp } : {}),
    ...(list.has_format ? { format: body.email_format ?? 'both' } : {}),
    ...(list.has_confirmed ? { confirmed: body.confirmed } : {}),
    ...(list.has_confirmed && confirmTime !== undefined ? { confirm_time: confirmTime } : {}),
    custom_fields: customFields,
  }
}

/** By the field's id: values of the body, or defaults where it wants them. */
function newFields(
  { apply_custom_field_defaults: appliesDefaults }: SubscriberCreation,
  { fields, faultyFields }: SubscriberValues,
  context: SubscriberList,
  problems: RequestError[],
): Map<number, FieldValue> {
  const customFields = new Map<number, FieldValue>()
  for (const { field } of context.fields) {
    const value = fields.get(field.id) ?? (appliesDefaults ? field.default : null)
    if (value !== null) customFields.set(field.id, value)
    else if (field.required && !faultyFields.has(field.id)) problems.push(requiredField(field.name))
  }
  return customFields
}

/**
 * Asks a subscriber to follow the link in a mail before it is added. It is checked now as if it were added now. Throws
 * `not_found` for the form, `validation_failed` for values and for an identity that is taken.
 */
async function requestConfirmation(
  { database }: ControlPlane,
  context: SubscriberList,
  body: SubscriberCreation,
  formId: number,
): Promise<void> {
  const { collections } = database
  const { list } = context
  const form = await collections.confirmationForms.findOne({ _id: formId, mailing_list_id: list._id })
  if (form === null) throw noConfirmationForm(formId)
  const { _id, email, email_key, status, format, custom_fields } = newSubscriber(body, context)
  if ((await collections.subscribers.findOne({ _id }, { projection: { _id: 1 } })) !== null)
    throw writeRefusal('identity_exists', email)
  await putPendingSubscriber(database, list.organization_id, {
    _id,
    mailing_list_id: list._id,
    confirmation_form_id: form._id,
    subscriber: {
      email,
      ...(email_key === undefined ? {} : { email_key }),
      status,
      ...(format === undefined ? {} : { format }),
      custom_fields,
    },
    autoresponders: {
      skip_autoresponders: body.skip_autoresponders,
      autoresponder_filter: body.autoresponder_filter ?? null,
      autoresponder_exclude_reacted: body.autoresponder_exclude_reacted,
    },
  })
}
