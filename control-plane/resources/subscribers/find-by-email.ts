import type { Database } from '../../../shared/runtime/database.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { emailIdentity } from '../../../shared/values/email.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { TokenPaging } from '../../api/endpoint.ts'
import { batchedRead } from '../../api/batched-read.ts'
import { singleFlight } from '../../api/single-flight.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from '../../api/token-paging.ts'
import type { ControlPlane } from '../../control-plane.ts'

/**
 * An email over many lists, by list and then by id. Where the email is the identity it is a point read a list, which
 * needs no index beside that of `_id`; on lists with an alternate primary key it is a range of the index on emails.
 */

/** The lists to look in: one, those of an organization, or all. */
export type ListsToSearch = { _id: number } | { organization_id: number } | Record<string, never>

type SearchedList = Pick<
  MailingListDocument,
  '_id' | 'organization_id' | 'name' | 'primary_key_custom_field_id'
>
type Found = Pick<SubscriberDocument, '_id' | 'id' | 'mailing_list_id' | 'status' | 'email'>

export interface FoundInList {
  subscriber: Found
  list: SearchedList
}

interface Search {
  emailKey: string
  lists: SearchedList[]
}

/** Most lists of one query. */
const listsAtOnce = 500

/**
 * A page of the subscribers with an email, each with its list, by ids of lists and then of subscribers; nobody where
 * the email isn't one. They are counted only for pages without a token. Throws `invalid_request` for a token of another
 * search.
 */
export async function findByEmail(
  deps: ControlPlane,
  { email, lists: scopeOfLists }: { email: string; lists: ListsToSearch },
  query: TokenPageQuery,
): Promise<{ found: FoundInList[]; paging: TokenPaging }> {
  const { collections } = deps.database
  const emailKey = emailIdentity(email.trim())
  const scope = `${emailKey} in ${JSON.stringify(scopeOfLists)}`
  const start = pageStart(deps, query, scope)
  const lists = emailKey === null ? [] : await listsToSearch(deps.database, JSON.stringify(scopeOfLists))
  const search = { emailKey: emailKey ?? '', lists }
  const counts = start.skip === 0 ? null : await countMatches(collections, search)
  const from = { ...skipLists(search, counts ?? [], start.skip), after: readPosition(start.after) }
  const matches = await firstMatches(collections, from, query.per_page + 1)
  const page = matches.slice(0, query.per_page)
  const lastOfPage = page.at(-1)
  const last = matches.length > query.per_page ? `${lastOfPage!.mailing_list_id}:${lastOfPage!.id}` : null
  const total = async () => {
    if (counts === null && last === null) return matches.length
    return (counts ?? (await countMatches(collections, search))).reduce((sum, count) => sum + count, 0)
  }
  const byId = new Map(lists.map((list) => [list._id, list]))
  return {
    found: page.map((subscriber) => ({ subscriber, list: byId.get(subscriber.mailing_list_id)! })),
    paging: tokenPaging(deps, query, {
      scope,
      last,
      total: await total(),
    }),
  }
}

/** Of those whose lists these are, by id. */
export async function organizationNames(
  { database }: ControlPlane,
  found: readonly FoundInList[],
): Promise<Map<number, string>> {
  const ids = [...new Set(found.map(({ list }) => list.organization_id))]
  const organizations = await database.collections.organizations
    .find({ _id: { $in: ids } }, { projection: { name: 1 } })
    .toArray()
  return new Map(organizations.map(({ _id, name }) => [_id, name]))
}

/** By id. Asked for with the scope as JSON. */
const listsToSearch = singleFlight(
  async ({ collections }: Database, scope: string): Promise<SearchedList[]> => {
    const lists = await collections.mailingLists
      .find(
        { ...(JSON.parse(scope) as ListsToSearch), is_remote_list: false },
        { projection: { organization_id: 1, name: 1, primary_key_custom_field_id: 1 }, batchSize: 5_000 },
      )
      .toArray()
    return lists.sort((a, b) => a._id - b._id)
  },
)

type Position = { listId: number; id: number } | null

function readPosition(text: string | null): Position {
  if (text === null) return null
  const [listId, id] = text.split(':').map(Number)
  return { listId: listId!, id: id! }
}

const fields = { id: 1, mailing_list_id: 1, status: 1, email: 1 } as const

interface SearchFrom {
  search: Search
  after: Position
  /** So many matches are passed over; they lie in the first lists that one query asks for. */
  skip: number
}

/** Passes over lists as long as all of their matches are to be skipped: reading these would take as long as they are many. */
function skipLists(
  { emailKey, lists }: Search,
  counts: readonly number[],
  skip: number,
): { search: Search; skip: number } {
  let passed = 0
  while (passed < counts.length && skip >= counts[passed]!) {
    skip -= counts[passed]!
    passed += 1
  }
  return { search: { emailKey, lists: lists.slice(passed * listsAtOnce) }, skip }
}

/** The first matches from there, `most` at most. Holds no more than these and one for each list of a query. */
async function firstMatches(
  { subscribers }: Collections,
  { search: { emailKey, lists }, after, skip }: SearchFrom,
  max: number,
): Promise<Found[]> {
  let matches: Found[] = []
  const started = lists.find((list) => list._id === after?.listId)
  if (after !== null && started !== undefined && !isByEmail(started)) {
    matches = await subscribers
      .find(
        { mailing_list_id: started._id, email_key: emailKey, id: { $gt: after.id } },
        { projection: fields },
      )
      .sort({ id: 1 })
      .limit(max)
      .toArray()
  }
  const ahead = lists.filter((list) => list._id > (after?.listId ?? 0))
  for (let first = 0; first < ahead.length && matches.length < max; first += listsAtOnce) {
    const { keys, others } = splitLists(ahead.slice(first, first + listsAtOnce), emailKey)
    const toSkip = first === 0 ? skip : 0
    // However the two kinds lie among each other, this many of the others are before the page.
    const ofOthers = Math.max(0, toSkip - keys.length)
    const found = await Promise.all([
      keys.length === 0 ? [] : subscribersByKeys(subscribers, { emailKey, keys }),
      others.length === 0
        ? []
        : subscribers
            .find({ mailing_list_id: { $in: others }, email_key: emailKey }, { projection: fields })
            .sort({ mailing_list_id: 1, id: 1 })
            .skip(ofOthers)
            .limit(max + toSkip - ofOthers)
            .toArray(),
    ])
    const merged = found.flat().sort((a, b) => a.mailing_list_id - b.mailing_list_id || a.id - b.id)
    matches = matches.concat(merged.slice(toSkip - ofOthers))
  }
  return matches.slice(0, max)
}

interface PointReads {
  emailKey: string
  /** `_id`s, all of that email. */
  keys: string[]
}

/** Searches that come at one moment are one query: most of what a small one costs is the way to the database. */
async function subscribersByKeys(
  subscribers: Collections['subscribers'],
  reads: PointReads,
): Promise<readonly Found[]> {
  return (await foundByReads(subscribers, reads)) ?? []
}

const foundByReads = batchedRead(
  async (
    subscribers: Collections['subscribers'],
    searches: PointReads[],
  ): Promise<Map<PointReads, Found[]>> => {
    const keys =
      searches.length === 1 ? searches[0]!.keys : [...new Set(searches.flatMap((search) => search.keys))]
    const found = await subscribers
      .find({ _id: { $in: keys } }, { projection: fields, batchSize: 5_000 })
      .toArray()
    if (searches.length === 1) return new Map([[searches[0]!, found]])
    const byEmail = new Map<string, Found[]>()
    for (const subscriber of found) {
      const emailKey = subscriber._id.slice(subscriber._id.indexOf(':') + 1)
      const same = byEmail.get(emailKey)
      if (same === undefined) byEmail.set(emailKey, [subscriber])
      else same.push(subscriber)
    }
    return new Map(searches.map((search) => [search, withKeys(byEmail.get(search.emailKey) ?? [], search)]))
  },
  ({ keys }) => keys.length,
)

/** Two searches for one email may be for different lists. */
function withKeys(found: Found[], { keys }: PointReads): Found[] {
  const wanted = new Set(keys)
  return found.filter(({ _id }) => wanted.has(_id))
}

/** How many matches the lists of each query have. */
async function countMatches({ subscribers }: Collections, { emailKey, lists }: Search): Promise<number[]> {
  const totals: number[] = []
  for (let first = 0; first < lists.length; first += listsAtOnce) {
    const { keys, others } = splitLists(lists.slice(first, first + listsAtOnce), emailKey)
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
