import type { Filter, FindCursor } from 'mongodb'
import {
  reactionsOfSubscriber,
  type AutoresponderDocument,
  type ReactionDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { TokenPaging } from '../../api/endpoint.ts'
import { pageStart, tokenPaging } from '../../api/token-paging.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { SubscriberList } from '../subscribers/service.ts'
import { shownStates, type ReactionQuery, type ReactionView, type ShownState } from './schemas.ts'
import { toView } from './view.ts'

interface ReactionFilter {
  listId: number
  subscriberId: number | undefined
  autoresponderId: number | undefined
  states: readonly ShownState[]
}

/** One page of the list's reactions, by id. */
export async function listReactions(
  deps: ControlPlane,
  { list, zone }: SubscriberList,
  { subscriber_id: subscriberId, autoresponder_id: autoresponderId, state, ...query }: ReactionQuery,
): Promise<{ data: ReactionView[]; paging: TokenPaging }> {
  const { collections } = deps.database
  const filter = { listId: list._id, subscriberId, autoresponderId, states: state ?? shownStates }
  const scope = `reactions ${JSON.stringify(filter)}`
  const { skip, after } = pageStart(deps, query, scope)
  const autoresponders = await collections.autoresponders
    .find({ mailing_list_id: filter.listId }, { projection: { paused: 1 } })
    .toArray()
  const paused = new Set(autoresponders.filter((entry) => entry.paused).map(({ _id }) => _id))
  const searches = buildSearches(filter, autoresponders)
  const [total, found] = await Promise.all([
    query.page_token === undefined ? count(collections, searches) : null,
    readFirst(collections, searches, { after, skip, max: query.per_page + 1 }),
  ])
  const page = found.slice(0, query.per_page)
  const last = found.length > query.per_page ? page.at(-1) : undefined
  return {
    data: page.map((reaction) =>
      toView(reaction, shownState(reaction.state, paused.has(reaction.autoresponder_id)), zone),
    ),
    paging: tokenPaging(deps, query, { scope, last: last === undefined ? null : String(last.id), total }),
  }
}

type State = ReactionDocument['state']
const storedStates: readonly State[] = ['queued', 'due', 'sent', 'dropped']

/** The state of a reaction as replies show it. `isPaused`: its autoresponder is paused. */
const shownState = (state: State, isPaused: boolean): ShownState =>
  isPaused && (state === 'queued' || state === 'due') ? 'held' : state

/** The index keeps an autoresponder's reactions in one state sorted by id; the server merges at most this many ranges. */
const maxMergedRanges = 200

/** Disjoint searches that together find every reaction, each with an index in the order of ids. */
function buildSearches(
  { listId, subscriberId, autoresponderId, states }: ReactionFilter,
  autoresponders: readonly Pick<AutoresponderDocument, '_id' | 'paused'>[],
): Filter<ReactionDocument>[] {
  const selected = autoresponders.filter(
    ({ _id }) => autoresponderId === undefined || _id === autoresponderId,
  )
  return [true, false].flatMap((isPaused): Filter<ReactionDocument>[] => {
    const stored = storedStates.filter((state) => states.includes(shownState(state, isPaused)))
    const ids = selected.filter(({ paused }) => paused === isPaused).map(({ _id }) => _id)
    if (stored.length === 0 || ids.length === 0) return []
    const search = (autoresponderIds: number[]): Filter<ReactionDocument> => ({
      mailing_list_id: listId,
      autoresponder_id: { $in: autoresponderIds },
      state: { $in: stored },
    })
    // The reactions of one subscriber are few and adjacent in the index of `_id`, so one search suffices.
    if (subscriberId !== undefined) return [{ ...search(ids), _id: reactionsOfSubscriber(subscriberId) }]
    const searches: Filter<ReactionDocument>[] = []
    const idsPerSearch = Math.floor(maxMergedRanges / stored.length)
    for (let i = 0; i < ids.length; i += idsPerSearch) searches.push(search(ids.slice(i, i + idsPerSearch)))
    return searches
  })
}

const chooseIndex = (search: Filter<ReactionDocument>) =>
  search._id === undefined ? ({ autoresponder_id: 1, state: 1, id: 1 } as const) : ({ _id: 1 } as const)

async function count({ reactions }: Collections, searches: Filter<ReactionDocument>[]): Promise<number> {
  const counts = await Promise.all(
    searches.map((search) => {
      const { mailing_list_id: _implied, ...withoutList } = search
      // The autoresponders imply the list. Without it, the index of autoresponders answers without reading documents.
      return reactions.countDocuments(search._id === undefined ? withoutList : search, {
        hint: chooseIndex(search),
      })
    }),
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
        { hint: chooseIndex(search), batchSize: max },
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

/** Merges cursors that are sorted by id. One batch of each cursor is in memory. */
async function mergeById(
  cursors: FindCursor<ReactionDocument>[],
  skip: number,
  max: number,
): Promise<ReactionDocument[]> {
  const heads = await Promise.all(cursors.map((cursor) => cursor.next()))
  const merged: ReactionDocument[] = []
  for (let passed = 0; merged.length < max; passed += 1) {
    let first: { i: number; reaction: ReactionDocument } | null = null
    for (const [i, reaction] of heads.entries())
      if (reaction !== null && (first === null || reaction.id < first.reaction.id)) first = { i, reaction }
    if (first === null) break
    if (passed >= skip) merged.push(first.reaction)
    heads[first.i] = (await cursors[first.i]?.next()) ?? null
  }
  return merged
}
