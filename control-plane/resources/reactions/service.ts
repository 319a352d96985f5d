import type { Filter, FindCursor } from 'mongodb'
import {
  contentExpression,
  reactionsOfSubscriber,
  type ReactionDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import { reactionsIndex, type Collections } from '../../../shared/contract/schemas/collections.ts'
import { databaseTime } from '../../../shared/runtime/database.ts'
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
  const { db, collections } = deps.database
  const filter = { listId: list._id, subscriberId, autoresponderId, states: state ?? shownStates }
  const scope = `reactions ${JSON.stringify(filter)}`
  const { skip, after } = pageStart(deps, query, scope)
  const [now, autoresponders] = await Promise.all([
    databaseTime(db),
    collections.autoresponders
      .find<{ _id: number; paused: boolean; hasContent: boolean }>(
        { mailing_list_id: filter.listId },
        { projection: { paused: 1, hasContent: contentExpression } },
      )
      .toArray(),
  ])
  const kinds = new Map(
    autoresponders.map(({ _id, paused, hasContent }): [number, Kind] => [
      _id,
      paused ? 'paused' : hasContent ? 'sending' : 'withoutContent',
    ]),
  )
  const searches = buildSearches(filter, kinds, now)
  const [total, found] = await Promise.all([
    query.page_token === undefined ? count(collections, searches) : null,
    readFirst(collections, searches, { after, skip, max: query.per_page + 1 }),
  ])
  const page = found.slice(0, query.per_page)
  const last = found.length > query.per_page ? page.at(-1) : undefined
  return {
    data: page.map((reaction) =>
      toView(reaction, shownState(reaction, kinds.get(reaction.autoresponder_id), now), zone),
    ),
    paging: tokenPaging(deps, query, { scope, last: last === undefined ? null : String(last.id), total }),
  }
}

/** The states that a queued reaction is shown in: before its due time, and from then on. */
const statesWhileQueued = {
  paused: ['held', 'held'],
  sending: ['queued', 'due'],
  withoutContent: ['queued', 'dropped'],
} as const
/** What an autoresponder does with its reactions. */
type Kind = keyof typeof statesWhileQueued

function shownState(
  { state, due_at: dueAt }: ReactionDocument,
  kind: Kind = 'paused',
  now: Date,
): ShownState {
  if (state !== 'queued') return state
  return statesWhileQueued[kind][dueAt > now ? 0 : 1]
}

/** The stored states and due times of the reactions that such an autoresponder shows in these states. */
function filterStates(kind: Kind, states: readonly ShownState[], now: Date): Filter<ReactionDocument>[] {
  const [before, after] = statesWhileQueued[kind].map((state) => states.includes(state))
  const stored: ReactionDocument['state'][] = (['sent', 'dropped'] as const).filter((state) =>
    states.includes(state),
  )
  if (before && after) stored.push('queued')
  const filters: Filter<ReactionDocument>[] = stored.length === 0 ? [] : [{ state: { $in: stored } }]
  if (before !== after) filters.push({ state: 'queued', due_at: before ? { $gt: now } : { $lte: now } })
  return filters
}

/** The index keeps an autoresponder's reactions in one state sorted by id; the server merges at most this many ranges. */
const maxMergedRanges = 200
/** With up to three states in a search. */
const idsPerSearch = Math.floor(maxMergedRanges / 3)

/** Disjoint searches that together find every reaction, each with an index in the order of ids. */
function buildSearches(
  { listId, subscriberId, autoresponderId, states }: ReactionFilter,
  kinds: ReadonlyMap<number, Kind>,
  now: Date,
): Filter<ReactionDocument>[] {
  const selected = [...kinds].filter(([id]) => autoresponderId === undefined || id === autoresponderId)
  return [...Map.groupBy(selected, ([, kind]) => kind)].flatMap(
    ([kind, ofKind]): Filter<ReactionDocument>[] => {
      const ids = ofKind.map(([id]) => id)
      const search = (autoresponderIds: number[]): Filter<ReactionDocument>[] =>
        filterStates(kind, states, now).map((filter) => ({
          mailing_list_id: listId,
          autoresponder_id: { $in: autoresponderIds },
          ...filter,
        }))
      // The reactions of one subscriber are few and adjacent in the index of `_id`.
      if (subscriberId !== undefined)
        return search(ids).map((each) => ({ ...each, _id: reactionsOfSubscriber(subscriberId) }))
      const searches: Filter<ReactionDocument>[] = []
      for (let i = 0; i < ids.length; i += idsPerSearch)
        searches.push(...search(ids.slice(i, i + idsPerSearch)))
      return searches
    },
  )
}

const chooseIndex = (search: Filter<ReactionDocument>) =>
  search._id === undefined ? reactionsIndex : ({ _id: 1 } as const)

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
