import { putPendingSubscriber } from '../../store/pending-subscribers.ts'
import { missing } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { SubscriberList } from './list-context.ts'
import { newSubscriber } from './new-subscriber.ts'
import { takenProblem } from './outcomes.ts'
import type { SubscriberCreation } from './schemas.ts'

/**
 * Asks a subscriber to follow the link in a mail before it is added. Checked now, as if it were added now. Throws
 * `not_found` for the form, `validation_failed` for values and for an identity that is taken.
 */
export async function requestConfirmation(
  { database }: ControlPlane,
  context: SubscriberList,
  given: SubscriberCreation,
  formId: number,
): Promise<void> {
  const { collections } = database
  const { list } = context
  const form = await collections.confirmationForms.findOne({ _id: formId, mailing_list_id: list._id })
  if (form === null) throw missing('confirmation form', formId)
  const { _id, email, email_key, status, format, custom_fields } = newSubscriber(given, context)
  if ((await collections.subscribers.findOne({ _id }, { projection: { _id: 1 } })) !== null)
    throw takenProblem()
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
      skip_autoresponders: given.skip_autoresponders,
      autoresponder_filter: given.autoresponder_filter ?? null,
      autoresponder_exclude_reacted: given.autoresponder_exclude_reacted,
    },
  })
}
