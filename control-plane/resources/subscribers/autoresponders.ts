import { nextIds, type Database } from '../../../shared/runtime/database.ts'
import { delayProjection } from '../../../shared/contract/schemas/autoresponder.ts'
import type { RequestedReactions } from '../../store/requested-reactions.ts'
import { singleFlight } from '../../api/single-flight.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { globMatcher } from '../autoresponders/glob.ts'
import type { SubscriberList } from './list-context.ts'
import type { SubscriberCreation } from './schemas.ts'

type Choice = Pick<
  SubscriberCreation,
  'skip_autoresponders' | 'autoresponder_filter' | 'autoresponder_exclude_reacted'
>

/** The list's on-subscription autoresponders that are to answer a request; undefined for none. Paused ones accrue. */
export async function planReactions(
  { database }: ControlPlane,
  { list: { _id: listId }, zone }: SubscriberList,
  choice: Choice,
): Promise<RequestedReactions | undefined> {
  if (choice.skip_autoresponders) return undefined
  const matches =
    choice.autoresponder_filter === undefined ? () => true : globMatcher(choice.autoresponder_filter)
  const known = await onSubscription(database, listId)
  const autoresponders = known
    .filter(({ name, trigger_run_on_api: runs }) => runs && matches(name))
    .sort((a, b) => a._id - b._id)
  if (autoresponders.length === 0) return undefined
  return {
    autoresponders,
    zone,
    firstId: await nextIds(database.collections, 'reaction', autoresponders.length),
    excludeReacted: choice.autoresponder_exclude_reacted,
  }
}

const onSubscription = singleFlight(({ collections }: Database, listId: number) =>
  collections.autoresponders
    .find(
      { mailing_list_id: listId, trigger: 'subscription' },
      { projection: { name: 1, trigger_run_on_api: 1, ...delayProjection } },
    )
    .toArray(),
)
