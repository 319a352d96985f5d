import { nextIds, type Database } from '../../../shared/database.ts'
import type { RequestedReactions } from '../../../shared/store/subscribers.ts'
import { globMatcher } from '../../../shared/values/glob.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sharedRead } from '../../shared-read.ts'
import type { SubscriberCreation } from './schemas.ts'

type Choice = Pick<
  SubscriberCreation,
  'skip_autoresponders' | 'autoresponder_filter' | 'autoresponder_exclude_reacted'
>

/** The list's on-subscription autoresponders that are to answer a request; undefined for none. Paused ones accrue. */
export async function planReactions(
  { database }: ControlPlane,
  listId: number,
  choice: Choice,
): Promise<RequestedReactions | undefined> {
  if (choice.skip_autoresponders) return undefined
  const matches =
    choice.autoresponder_filter === undefined ? () => true : globMatcher(choice.autoresponder_filter)
  const known = await onSubscription(database, listId)
  const autoresponderIds = known
    .filter(({ name, trigger_run_on_api: runs }) => runs && matches(name))
    .map(({ _id }) => _id)
    .sort((a, b) => a - b)
  if (autoresponderIds.length === 0) return undefined
  return {
    autoresponderIds,
    firstId: await nextIds(database.collections, 'reaction', autoresponderIds.length),
    excludeReacted: choice.autoresponder_exclude_reacted,
  }
}

const onSubscription = sharedRead(({ collections }: Database, listId: number) =>
  collections.autoresponders
    .find(
      { mailing_list_id: listId, trigger: 'subscription' },
      { projection: { name: 1, trigger_run_on_api: 1 } },
    )
    .toArray(),
)
