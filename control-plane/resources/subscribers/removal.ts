import { RequestError } from '../../../shared/contract/errors.ts'
import { filterOf, removeSubscribers } from '../../store/subscribers.ts'
import { missing } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { addressOf } from './find.ts'
import type { SubscriberList } from './list-context.ts'

const maxConcurrent = 10

/**
 * Removes the subscriber with an id, or up to ten of those with an email, lowest id first. Throws `not_found`, and
 * `validation_failed` where deletion is switched off.
 */
export async function deleteSubscribers(
  { database, settings }: ControlPlane,
  { list }: SubscriberList,
  text: string,
): Promise<{ subscriber_ids_removed: number[]; more_remaining: boolean }> {
  const address = addressOf(list, text)
  if (address === null) throw missing('subscriber', text)
  if (settings.DISABLE_SUBSCRIBER_DELETION) {
    const kept = await database.collections.subscribers
      .find(filterOf(address), { projection: { id: 1 } })
      .limit(maxConcurrent)
      .toArray()
    if (kept.length === 0) throw missing('subscriber', text)
    const ids = kept.map(({ id }) => id).sort((a, b) => a - b)
    throw new RequestError(
      'validation_failed',
      `subscriber ${ids.join(', ')} can't be deleted: the directive disable_subscriber_deletion is enabled`,
    )
  }
  const { ids, moreRemaining } = await removeSubscribers(
    database,
    list.organization_id,
    address,
    maxConcurrent,
  )
  if (ids.length === 0) throw missing('subscriber', text)
  return { subscriber_ids_removed: ids, more_remaining: moreRemaining }
}
