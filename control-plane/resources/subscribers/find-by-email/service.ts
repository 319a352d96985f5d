import type { Collections } from '../../../../shared/contract/schemas/collections.ts'
import { emailIdentity } from '../../../../shared/values/email.ts'
import { subscriberKey } from '../../../../shared/values/identity.ts'
import type { Call, TokenPaging } from '../../../api/endpoint.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from '../../../api/token-paging.ts'
import {
  foundProjection,
  type FoundSubscriber,
  type ListsToSearch,
  type SearchedList,
} from '../../../store/shared-reads.ts'
import { toFoundView, type FoundView } from './view.ts'

/**
 * Finds an email on many lists, sorted by list and then by id. Where the email is the identity, that takes one point
 * read for each list, which needs no index beside that of `_id`. On lists with another primary key it is a range of the
 * index on emails.
 */

export interface FoundInList {
  subscriber: FoundSubscriber
  list: SearchedList
}

interface Search {
  emailKey: string
  lists: SearchedList[]
}

type SearchCall = Pick<
  Call<TokenPageQuery, unknown>,
  'deps' | 'caller' | 'params' | 'query' | 'releaseSlot' | 'changeSlot'
>

const maxListsPerQuery = 500
/** A search on more lists needs one of the slots for searches. */
const maxListsInSlot = 256

/**
 * A page of the subscribers with the email in the path, each with its list and, if wanted, that list's organization. It
 * is empty where the text isn't an email. `lists` are read unless they are known. Where there are more than its records,
 * all matches are counted. Throws `invalid_request` for a token of another search.
 */
export async function findByEmail(
  call: SearchCall,
  listFilter: ListsToSearch,
  { withOrganizations = false, lists: known }: { withOrganizations?: boolean; lists?: SearchedList[] } = {},
): Promise<{ data: FoundView[]; paging: TokenPaging }> {
  const { deps, params, query } = call
  const { collections } = deps.database
  const emailKey = emailIdentity((params['email'] ?? '').trim())
  const listFilterJson = JSON.stringify(listFilter)
  const scope = `${emailKey} in ${listFilterJson}`
  const start = pageStart(deps, query, scope)
  const lists = emailKey === null ? [] : (known ?? (await readLists(call, listFilter)))
  const search = { emailKey: emailKey ?? '', lists }
  const counts = start.skip === 0 ? null : await countMatches(collections, search)
  const from = { ...skipLists(search, counts ?? [], start.skip), after: readPosition(start.after) }
  const matches = await firstMatches(deps, from, query.per_page + 1)
  const page = matches.slice(0, query.per_page)
  const lastOfPage = page.at(-1)
  const last =
    lastOfPage !== undefined && matches.length > query.per_page
      ? `${lastOfPage.mailing_list_id}:${lastOfPage.id}`
      : null
  const isWholeCounted = counts === null && start.after === null && last === null
  const total = isWholeCounted
    ? matches.length
    : (counts ?? (await countMatches(collections, search))).reduce((sum, count) => sum + count, 0)
  const byId = new Map(lists.map((list) => [list._id, list]))
  const found = page.flatMap((subscriber) => {
    const list = byId.get(subscriber.mailing_list_id)
    return list === undefined ? [] : [{ subscriber, list }]
  })
  const names = withOrganizations ? await organizationNames(collections, found) : undefined
  return {
    data: found.map((match) => toFoundView(match, names)),
    paging: tokenPaging(deps, query, { scope, last, total }),
  }
}

/** The lists, with the slot that a search on so many needs. While it waits for them it has none. */
async function readLists(call: SearchCall, filter: ListsToSearch): Promise<SearchedList[]> {
  const { organizationId } = call.caller
  call.releaseSlot()
  const lists = await call.deps.reads.listsToSearch(JSON.stringify({ organizationId, filter }))
  await call.changeSlot(lists.length > maxListsInSlot ? 'searches' : 'requests')
  return lists
}

/** The names of the organizations that the lists belong to, by id. */
async function organizationNames(
  { organizations }: Collections,
  found: readonly FoundInList[],
): Promise<Map<number, string>> {
  const ids = [...new Set(found.map(({ list }) => list.organization_id))]
  const named = await organizations.find({ _id: { $in: ids } }, { projection: { name: 1 } }).toArray()
  return new Map(named.map(({ _id, name }) => [_id, name]))
}

type Position = { listId: number; id: number } | null

function readPosition(text: string | null): Position {
  if (text === null) return null
  const [listId = NaN, id = NaN] = text.split(':').map(Number)
  return { listId, id }
}

interface SearchFrom {
  search: Search
  after: Position
  /** Matches to skip; they are all in the lists of the first query. */
  skip: number
}

/**
 * Leaves out the lists of whole queries whose matches are all skipped: to read them would take time by their number.
 */
function skipLists(
  { emailKey, lists }: Search,
  counts: readonly number[],
  skip: number,
): { search: Search; skip: number } {
  let queries = 0
  for (const count of counts) {
    if (skip < count) break
    skip -= count
    queries += 1
  }
  return { search: { emailKey, lists: lists.slice(queries * maxListsPerQuery) }, skip }
}

/**
 * The first matches from a position, `max` at most. Memory is bounded by these and one match for each list of a query.
 */
async function firstMatches(
  { database, reads }: ControlPlane,
  { search: { emailKey, lists }, after, skip }: SearchFrom,
  max: number,
): Promise<FoundSubscriber[]> {
  const { subscribers } = database.collections
  let matches: FoundSubscriber[] = []
  const started = lists.find((list) => list._id === after?.listId)
  if (after !== null && started !== undefined && !isByEmail(started)) {
    matches = await subscribers
      .find(
        { mailing_list_id: started._id, email_key: emailKey, id: { $gt: after.id } },
        { projection: foundProjection },
      )
      .sort({ id: 1 })
      .limit(max)
      .toArray()
  }
  const ahead = lists.filter((list) => list._id > (after?.listId ?? 0))
  for (let first = 0; first < ahead.length && matches.length < max; first += maxListsPerQuery) {
    const { keys, others } = splitLists(ahead.slice(first, first + maxListsPerQuery), emailKey)
    const toSkip = first === 0 ? skip : 0
    // However point reads and ranges interleave, at least this many matches of the ranges come before the page.
    const skippedOfRanges = Math.max(0, toSkip - keys.length)
    const found = await Promise.all([
      keys.length === 0 ? [] : reads.foundByEmail({ emailKey, keys }),
      others.length === 0
        ? []
        : subscribers
            .find({ mailing_list_id: { $in: others }, email_key: emailKey }, { projection: foundProjection })
            .sort({ mailing_list_id: 1, id: 1 })
            .skip(skippedOfRanges)
            .limit(max + toSkip - skippedOfRanges)
            .toArray(),
    ])
    const merged = found
      .flatMap((matches) => matches ?? [])
      .sort((a, b) => a.mailing_list_id - b.mailing_list_id || a.id - b.id)
    matches = matches.concat(merged.slice(toSkip - skippedOfRanges))
  }
  return matches.slice(0, max)
}

/** The number of matches of each query's lists. */
async function countMatches({ subscribers }: Collections, { emailKey, lists }: Search): Promise<number[]> {
  const totals: number[] = []
  for (let first = 0; first < lists.length; first += maxListsPerQuery) {
    const { keys, others } = splitLists(lists.slice(first, first + maxListsPerQuery), emailKey)
    const counts = await Promise.all([
      keys.length === 0 ? 0 : subscribers.countDocuments({ _id: { $in: keys } }),
      others.length === 0
        ? 0
        : subscribers.countDocuments({ mailing_list_id: { $in: others }, email_key: emailKey }),
    ])
    totals.push(counts[0] + counts[1])
  }
  return totals
}

const isByEmail = (list: SearchedList): boolean => list.primary_key_custom_field_id === null

function splitLists(lists: SearchedList[], emailKey: string): { keys: string[]; others: number[] } {
  return {
    keys: lists.filter(isByEmail).map((list) => subscriberKey(list._id, emailKey)),
    others: lists.filter((list) => !isByEmail(list)).map((list) => list._id),
  }
}
