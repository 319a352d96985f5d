import type { Database } from '../../../shared/runtime/database.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import {
  delayProjection,
  type AutoresponderDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { Answering } from '../../../shared/store/reactions.ts'
import { globMatcher } from '../autoresponders/glob.ts'
import type { Triggering } from './trigger-schemas.ts'

/** An autoresponder that a call triggers. */
export type Chosen = Answering & Pick<AutoresponderDocument, 'name'>

const projection = { name: 1, ...delayProjection } as const
const maxEntries = 100

/**
 * The list's autoresponders that the entries match, each once, by id; whatever triggers them otherwise, paused ones too.
 * Throws `not_found` when an entry matches none.
 */
export async function chooseAutoresponders(
  { collections }: Database,
  listId: number,
  { autoresponder_names: names = [], autoresponder_ids: ids = [] }: Triggering,
): Promise<Chosen[]> {
  const entries = Math.max(names.length, ids.length)
  if (entries > maxEntries)
    throw new RequestError(
      'requested_too_many',
      `${entries} autoresponders are asked for, and ${maxEntries} entries are possible at once`,
    )
  const known = await collections.autoresponders
    .find<Chosen>(
      { mailing_list_id: listId, ...(ids.length > 0 ? { _id: { $in: ids } } : {}) },
      { projection },
    )
    .sort({ _id: 1 })
    .toArray()
  const matchers = [
    ...names.map((name) => ({ shown: JSON.stringify(name), matches: named(name) })),
    ...ids.map((id) => ({ shown: String(id), matches: (one: Chosen) => one._id === id })),
  ]
  const vain = matchers.filter(({ matches }) => !known.some(matches)).map(({ shown }) => shown)
  if (vain.length > 0)
    throw new RequestError('not_found', `mailing list ${listId} has no autoresponder ${vain.join(', ')}`)
  return known.filter((one) => matchers.some(({ matches }) => matches(one)))
}

function named(pattern: string): (autoresponder: Chosen) => boolean {
  const matches = globMatcher(pattern.trim())
  return ({ name }) => matches(name)
}

/** What answers a creation by a request anyway. */
export function onSubscriptionOf({ collections }: Database, listId: number): Promise<Chosen[]> {
  return collections.autoresponders
    .find<Chosen>(
      { mailing_list_id: listId, trigger: 'subscription', trigger_run_on_api: true },
      { projection },
    )
    .toArray()
}
