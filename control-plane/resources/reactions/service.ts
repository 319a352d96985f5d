import type { Filter, FindCursor } from 'mongodb'
import {
  reactionsOfSubscriber,
  type AutoresponderDocument,
  type ReactionDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { TokenPaging } from '../../api/endpoint.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from '../../api/token-paging.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { ShownState } from './schemas.ts'

export interface ReactionFilter {
  listId: number
  subscriberId: number | undefined
  autoresponderId: number | undefined
  states: readonly ShownState[]
}

export type ShownReaction = ReactionDocument & { shownState: ShownState }

/** One page of the list's reactions, by id. */
export async function listReactions(
  deps: ControlPlane,
  filter: ReactionFilter,
  query: TokenPageQuery,
): Promise<{ reactions: ShownReaction[]; paging: TokenPaging }> {
  const { collections } = deps.database
  const scope = `reactions ${JSON.stringify(filter)}`
  const { skip, after } = pageStart(deps, query, scope)
  const autoresponders = await collections.autoresponders
    .find({ mailing_list_id: filter.listId }, { projection: { paused: 1 } })
    .toArray()
  const paused = new Set(autoresponders.filter((entry) => entry.paused).map(({ _id }) => _id))
  const searches = searchesOf(filter, autoresponders)
  const [total, found] = await Promise.all([
    query.page_token === undefined ? count(collections, searches) : null,
    readFirst(collections, searches, { after, skip, max: query.per_page + 1 }),
  ])
  const page = found.slice(0, query.per_page)
  const last = found.length > query.per_page ? String(page.at(-1)!.id) : null
  return {
    reactions: page.map((reaction) => ({
      ...reaction,
      shownState: isLeased(reaction, paused) ? 'held' : reaction.state,
    })),
    paging: tokenPaging(deps, query, { scope, last, total }),
  }
}

const isLeased = ({ state, autoresponder_id: id }: ReactionDocument, paused: ReadonlySet<number>): boolean =>
  (state === 'queued' || state === 'due') && paused.has(id)

type State = ReactionDocument['state']

/** The stored states in which a reaction shows as one of these. */
function storedStates(states: readonly ShownState[], isPaused: boolean): State[] {
  const stored: State[] = []
  if (states.includes(isPaused ? 'held' : 'queued')) stored.push('queued')
  if (states.includes(isPaused ? 'held' : 'due')) stored.push('due')
  if (states.includes('sent')) stored.push('sent')
  if (states.includes('dropped')) stored.push('dropped')
  return stored
}

/** An autoresponder's reactions in a state lie in order of their ids; the server merges so many such rows of them. */
const maxMerged = 200

/** Searches that each have an index in the order of ids, and together find everything once. */
function searchesOf(
  { listId, subscriberId, autoresponderId, states }: ReactionFilter,
  autoresponders: readonly Pick<AutoresponderDocument, '_id' | 'paused'>[],
): Filter<ReactionDocument>[] {
  const asked = autoresponders.filter(({ _id }) => autoresponderId === undefined || _id === autoresponderId)
  return [true, false].flatMap((isPaused): Filter<ReactionDocument>[] => {
    const stored = storedStates(states, isPaused)
    const ids = asked.filter(({ paused }) => paused === isPaused).map(({ _id }) => _id)
    if (stored.length === 0 || ids.length === 0) return []
    const search = (some: number[]): Filter<ReactionDocument> => ({
      mailing_list_id: listId,
      autoresponder_id: { $in: some },
      state: { $in: stored },
    })
    // A subscriber's lie side by side, and are few.
    if (subscriberId !== undefined) return [{ ...search(ids), _id: reactionsOfSubscriber(subscriberId) }]
    const searches: Filter<ReactionDocument>[] = []
    const atOnce = Math.floor(maxMerged / stored.length)
    for (let i = 0; i < ids.length; i += atOnce) searches.push(search(ids.slice(i, i + atOnce)))
    return searches
  })
}

const indexOf = (search: Filter<ReactionDocument>) =>
  search._id === undefined ? ({ autoresponder_id: 1, state: 1, id: 1 } as const) : ({ _id: 1 } as const)

async function count({ reactions }: Collections, searches: Filter<ReactionDocument>[]): Promise<number> {
  const counts = await Promise.all(
    searches.map(({ mailing_list_id: listId, ...search }) =>
      // The autoresponders are the list's: without the list the index alone knows the answer.
      reactions.countDocuments(search._id === undefined ? search : { ...search, mailing_list_id: listId! }, {
        hint: indexOf(search),
      }),
    ),
  )
  return counts.reduce((sum, each) => sum + each, 0)
}

async function readFirst(
  { reactions }: Collections,
  searches: Filter<ReactionDocument>[],
  { after, skip, max }: { after: string | null; skip: number; max: number },
): Promise<ReactionDocument[]> {
  const [only] = searches
  const begin = (search: Filter<ReactionDocument>): FindCursor<ReactionDocument> =>
    reactions
      .find(
        { ...search, ...(after === null ? {} : { id: { $gt: Number(after) } }) },
        { hint: indexOf(search), batchSize: max },
      )
      .sort({ id: 1 })
  if (only === undefined) return []
  if (searches.length === 1) return begin(only).skip(skip).limit(max).toArray()
  const cursors = searches.map((search) => begin(search).limit(skip + max))
  try {
    return await mergeById(cursors, skip, max)
  } finally {
    await Promise.all(cursors.map((cursor) => cursor.close()))
  }
}

/** Holds one batch of each cursor. */
async function mergeById(
  cursors: FindCursor<ReactionDocument>[],
  skip: number,
  max: number,
): Promise<ReactionDocument[]> {
  const heads = await Promise.all(cursors.map((cursor) => cursor.next()))
  const merged: ReactionDocument[] = []
  for (let passed = 0; merged.length < max; passed += 1) {
    let min: number | null = null
    for (const [i, head] of heads.entries())
      if (head !== null && (min === null || head.id < heads[min]!.id)) min = i
    if (min === null) break
    if (passed >= skip) merged.push(heads[min]!)
    heads[min] = await cursors[min]!.next()
  }
  return merged
}
