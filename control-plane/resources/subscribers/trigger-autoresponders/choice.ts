import { type Database } from '../../../../shared/runtime/database.ts'
import {
  delayProjection,
  type AutoresponderDocument,
} from '../../../../shared/contract/schemas/autoresponder.ts'
import type { AnsweringAutoresponder } from '../../../../shared/store/reactions.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import type { RequestedReactions } from '../../../store/requested-reactions.ts'
import { globMatcher } from '../../autoresponders/glob.ts'
import type { SubscriberCreation } from '../schemas.ts'
import type { SubscriberList } from '../service.ts'
import { maxEntries, noAutoresponderNamed, noAutoresponderWithId, tooManyEntries } from './refusals.ts'
import type { Triggering } from './schemas.ts'

/** The list's autoresponders that react to a request. Paused ones too: their mails are sent after the pause. */

export type Triggered = AnsweringAutoresponder & Pick<AutoresponderDocument, 'name'>

const projection = { name: 1, ...delayProjection } as const

/** Those that the entries name or have the id of, sorted by id. Throws `not_found` when an entry matches none. */
export async function findNamed(
  { collections }: Database,
  listId: number,
  { autoresponder_names: names = [], autoresponder_ids: ids = [] }: Triggering,
): Promise<Triggered[]> {
  const entries = Math.max(names.length, ids.length)
  if (entries > maxEntries) throw tooManyEntries(entries)
  const candidates = await collections.autoresponders
    .find<Triggered>(
      { mailing_list_id: listId, ...(ids.length > 0 ? { _id: { $in: ids } } : {}) },
      { projection },
    )
    .sort({ _id: 1 })
    .toArray()
  const matchers = [
    ...names.map((pattern) => {
      const matchesName = globMatcher(pattern.trim())
      return { entry: pattern, matches: ({ name }: Triggered) => matchesName(name) }
    }),
    ...ids.map((id) => ({ entry: id, matches: ({ _id }: Triggered) => _id === id })),
  ]
  const unmatched = matchers.filter(({ matches }) => !candidates.some(matches)).map(({ entry }) => entry)
  if (unmatched.length > 0)
    throw (ids.length > 0 ? noAutoresponderWithId : noAutoresponderNamed)(listId, unmatched)
  return candidates.filter((autoresponder) => matchers.some(({ matches }) => matches(autoresponder)))
}

/** Those that every subscription by a request triggers, sorted by id. */
export async function findOnSubscription({ reads }: ControlPlane, listId: number): Promise<Triggered[]> {
  const found = await reads.onSubscription(listId)
  return found.filter(({ trigger_run_on_api: runs }) => runs).sort((a, b) => a._id - b._id)
}

type Filter = Pick<
  SubscriberCreation,
  'skip_autoresponders' | 'autoresponder_filter' | 'autoresponder_exclude_reacted'
>

/** What a creation, or an update that acts as one, queues; undefined for nothing. */
export async function planReactions(
  deps: ControlPlane,
  { list: { _id: listId }, zone }: SubscriberList,
  filter: Filter,
): Promise<RequestedReactions | undefined> {
  if (filter.skip_autoresponders) return undefined
  const matches =
    filter.autoresponder_filter === undefined ? () => true : globMatcher(filter.autoresponder_filter)
  const onSubscription = await findOnSubscription(deps, listId)
  const autoresponders = onSubscription.filter(({ name }) => matches(name))
  if (autoresponders.length === 0) return undefined
  return {
    autoresponders,
    zone,
    firstId: await deps.database.ids.allocate('reaction', autoresponders.length),
    excludeReacted: filter.autoresponder_exclude_reacted,
  }
}
