import { clock } from '../../../shared/runtime/clock.ts'
import { isDuplicateKey, nextIds } from '../../../shared/runtime/database.ts'
import type { PendingSubscriberDocument } from '../../../shared/contract/schemas/confirmation.ts'
import type { FieldValue } from '../../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { addConfirmed, findPendingSubscriber } from '../../store/pending-subscribers.ts'
import { emailIdentity } from '../../../shared/values/email.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { planReactions } from './autoresponders.ts'
import { identityOf } from './given-values.ts'
import { listWithContext, type SubscriberList } from './list-context.ts'
import { retryOnListChange } from './outcomes.ts'

const tokenShape = /^[\w-]{32}$/

/**
 * Adds who follows the link with this token, as he was asked for. False when nobody can be added by it: it is unknown,
 * was used or has expired, the identity is on the list by now, or the subscriber limit leaves no place (then the link
 * stays good until it expires). `ip` is the visitor's, as far as it is known.
 */
export async function confirm(
  deps: ControlPlane,
  { token, ip }: { token: string; ip: string | null },
): Promise<boolean> {
  if (!tokenShape.test(token)) return false
  const { database } = deps
  return retryOnListChange(async () => {
    const pending = await findPendingSubscriber(database.collections, token)
    const context = pending && (await listWithContext(database, pending.mailing_list_id))
    if (pending === null || context === null) return { done: false }
    const planned = confirmedSubscriber(pending, context, ip)
    if (planned === null) return { done: false }
    const { list } = context
    const { autoresponder_filter: filter, ...choice } = pending.autoresponders
    const [id, reactions] = await Promise.all([
      nextIds(database.collections, 'subscriber'),
      planned.status === 'active'
        ? planReactions(deps, context, { ...choice, autoresponder_filter: filter ?? undefined })
        : undefined,
    ])
    try {
      const outcome = await addConfirmed(
        database,
        list.organization_id,
        { pending, subscriber: { ...planned, id } },
        { listRevision: list.revision, ...(reactions === undefined ? {} : { reactions }) },
      )
      return outcome === 'list_changed' || outcome === 'missing' ? 'again' : { done: outcome === 'done' }
    } catch (error) {
      if (isDuplicateKey(error)) return { done: false }
      throw error
    }
  })
}

/**
 * The document on the list as it is now, which may have got other fields since the request; null when it has no value
 * for what tells subscribers apart there.
 */
function confirmedSubscriber(
  { subscriber: { email, status, format, custom_fields } }: PendingSubscriberDocument,
  context: SubscriberList,
  ip: string | null,
): Omit<SubscriberDocument, 'id'> | null {
  const { list, fields, primaryKey } = context
  const emailKey = emailIdentity(email)!
  const known = fields
    .map(({ field }) => [field.id, custom_fields[field.id]] as const)
    .filter((entry): entry is [number, FieldValue] => entry[1] !== undefined)
  const identity = identityOf({ emailKey, fields: new Map(known) }, context)
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
    ...(status === 'active' ? {} : { remove_time: now }),
    ...(list.has_format ? { format: format ?? 'both' } : {}),
    ...(list.has_confirmed ? { confirmed: true, confirm_time: now } : {}),
    custom_fields: Object.fromEntries(known),
  }
}
