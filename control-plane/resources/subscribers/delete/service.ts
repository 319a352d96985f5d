import type { ControlPlane } from '../../../control-plane.ts'
import { referenceFilter, removeSubscribers } from '../../../store/subscribers.ts'
import { deletionDisabled, noSubscriber } from '../refusals.ts'
import { requireReference, type SubscriberList } from '../service.ts'

const maxRemoved = 10

/**
 * Removes the subscriber with an id, or up to ten subscribers with an email, lowest id first. Throws `not_found`, and
 * `validation_failed` where deletion is switched off.
 */
export async function deleteSubscribers(
  { database, settings }: ControlPlane,
  { list }: SubscriberList,
  text: string,
): Promise<{ subscriber_ids_removed: number[]; more_remaining: boolean }> {
  const reference = requireReference(list, text)
  if (settings.DISABLE_SUBSCRIBER_DELETION) {
    const kept = await database.collections.subscribers
      .find(referenceFilter(reference), { projection: { id: 1 } })
      .limit(maxRemoved)
      .toArray()
    if (kept.length === 0) throw noSubscriber(text)
    const ids = kept.map(({ id }) => id).sort((a, b) => a - b)
    throw deletionDisabled(ids)
  }
  const { ids, moreRemaining } = await removeSubscribers(
    database,
    list.organization_id,
    reference,
    maxRemoved,
  )
  if (ids.length === 0) throw noSubscriber(text)
  return { subscriber_ids_removed: ids, more_remaining: moreRemaining }
}
