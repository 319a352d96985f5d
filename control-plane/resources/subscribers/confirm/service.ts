import { clock } from '../../../../shared/runtime/clock.ts'
import type { PendingSubscriberDocument } from '../../../../shared/contract/schemas/confirmation.ts'
import type { FieldValue } from '../../../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import { emailIdentity } from '../../../../shared/values/email.ts'
import { subscriberKey } from '../../../../shared/values/identity.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { findPendingSubscriber, removePending } from '../../../store/pending-subscribers.ts'
import { writeSubscriber } from '../../../store/write-subscriber.ts'
import { readIdentity } from '../check-values/service.ts'
import { checkedAgainst, listWithContext, writeRefusal, type SubscriberList } from '../service.ts'
import { planReactions } from '../trigger-autoresponders/choice.ts'
import { subscriberTransition } from '../../../../shared/values/subscriber-transition.ts'

const tokenShape = /^[\w-]{32}$/

/**
 * Adds the subscriber whose confirmation mail has this token, as its request wanted. False when nothing is added: the token
 * is unknown, used or expired, the list has the identity by now, or the subscriber limit is reached. In the last case
 * the link stays valid until it expires. `ip` is the visitor's, null where it is unknown.
 */
export async function confirm(
  deps: ControlPlane,
  { token, ip }: { token: string; ip: string | null },
): Promise<boolean> {
  if (!tokenShape.test(token)) return false
  const { collections, ids } = deps.database
  const find = () => findPendingSubscriber(collections, token)
  const { outcome } = await writeSubscriber(deps, {
    found: await find(),
    findAgain: find,
    async plan(pending) {
      if (pending === null) return 'missing'
      const [context, form] = await Promise.all([
        listWithContext(deps, pending.mailing_list_id),
        collections.confirmationForms.findOne(
          { _id: pending.confirmation_form_id },
          { projection: { _id: 1 } },
        ),
      ])
      if (context === null || form === null) return 'missing'
      const subscriber = confirmedSubscriber(pending, context, ip)
      if (subscriber === null) return 'missing'
      const { autoresponder_filter: filter, ...others } = pending.autoresponders
      const [id, reactions] = await Promise.all([
        ids.allocate('subscriber'),
        subscriber.status === 'active'
          ? planReactions(deps, context, { ...others, autoresponder_filter: filter ?? undefined })
          : undefined,
      ])
      return {
        ...checkedAgainst(context),
        create: () => ({ subscriber: { ...subscriber, id }, reactions }),
        // The token was used a moment ago, or a newer request has replaced what was read of it.
        alongside: async (session) =>
          (await removePending(collections, session, pending)) ? undefined : 'outdated',
      }
    },
  })
  if (outcome === 'outdated') throw writeRefusal(outcome, token)
  return outcome === 'done'
}

/** The document for the list as it is now: its fields may have changed since the request. Null without an identity. */
function confirmedSubscriber(
  { subscriber: { email, status, format, custom_fields } }: PendingSubscriberDocument,
  context: SubscriberList,
  ip: string | null,
): Omit<SubscriberDocument, 'id'> | null {
  const { list, fields, primaryKey } = context
  const emailKey = emailIdentity(email)
  if (emailKey === null) return null
  const values = new Map<number, FieldValue>()
  for (const { field } of fields) {
    const value = custom_fields[field.id]
    if (value !== undefined) values.set(field.id, value)
  }
  const identity = readIdentity(emailKey, values, context)
  if (identity === undefined) return null
  const now = clock.now()
  return {
    _id: subscriberKey(list._id, identity),
    mailing_list_id: list._id,
    email,
    ...(primaryKey === null ? {} : { email_key: emailKey }),
    status,
    created_at: now,
    subscribe_time: now,
    ...(ip === null ? {} : { subscribe_ip: ip }),
    ...(subscriberTransition(null, status).removal === 'begins' ? { remove_time: now } : {}),
    ...(list.has_format ? { format: format ?? 'both' } : {}),
    ...(list.has_confirmed ? { confirmed: true, confirm_time: now } : {}),
    custom_fields: Object.fromEntries(values),
  }
}
