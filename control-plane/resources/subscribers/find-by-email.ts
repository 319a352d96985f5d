import type { Database } from '../../../shared/database.ts'
import type { Collections } from '../../../shared/schemas/collections.ts'
import type { MailingListDocument } from '../../../shared/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../../shared/schemas/subscriber.ts'
import { emailIdentity } from '../../../shared/values/email.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { TokenPaging } from '../../api/endpoint.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from '../../api/token-paging.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sharedRead } from '../../shared-read.ts'

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

export async function findByEmail(
  deps: ControlPlane,
  { email, lists: scopeOfLists }: { email: string; lists: ListsToSearch },
  query: TokenPageQuery,
): Promise<{ found: FoundInList[]; paging: TokenPaging }> {
  const { collections } = deps.database
  const emailKey = emailIdentity(email.trim())
  const scope = `${emailKey} in ${JSON.stringify(scopeOfLists)}`
  const start = pageStart(deps, query, scope)
  const position = readPosition(start.after)
  const lists = emailKey === null ? [] : await listsToSearch(deps.database, JSON.stringify(scopeOfLists))
  const search = { emailKey: emailKey ?? '', lists }
  const most = start.skip + query.per_page + 1
  const found = (await firstMatches(collections, search, position, most)).slice(start.skip)
  const page = found.slice(0, query.per_page)
  const lastOfPage = page.at(-1)
  const last = found.length > query.per_page ? `${lastOfPage!.mailing_list_id}:${lastOfPage!.id}` : null
  const isWhole = start.skip === 0 && last === null
  const total =
    query.page_token !== undefined ? null : isWhole ? found.length : await countMatches(collections, search)
  const byId = new Map(lists.map((list) => [list._id, list]))
  return {
    found: page.map((subscriber) => ({ subscriber, list: byId.get(subscriber.mailing_list_id)! })),
    paging: tokenPaging(deps, query, { scope, last, total }),
  }
}

/** By id. Asked for with the scope as JSON. */
const listsToSearch = sharedRead(
  async ({ collections }: Database, scope: string): Promise<SearchedList[]> => {
    const lists = await collections.mailingLists
      .find(
        { ...(JSON.parse(scope) as ListsToSearch), is_remote_list: false },
        { projection: { organization_id: 1, name: 1, primary_key_custom_field_id: 1 } },
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

/** The first matches after a position, `most` at most. */
async function firstMatches(
  { subscribers }: Collections,
  { emailKey, lists }: Search,
  after: Position,
  most: number,
): Promise<Found[]> {
  const matches: Found[] = []
  const started = lists.find((list) => list._id === after?.listId)
  if (after !== null && started !== undefined && !isByEmail(started)) {
    const rest = await subscribers
      .find(
        { mailing_list_id: started._id, email_key: emailKey, id: { $gt: after.id } },
        { projection: fields },
      )
      .sort({ id: 1 })
      .limit(most)
      .toArray()
    matches.push(...rest)
  }
  const ahead = lists.filter((list) => list._id > (after?.listId ?? 0))
  for (let first = 0; first < ahead.length && matches.length < most; first += listsAtOnce) {
    const { keys, others } = splitLists(ahead.slice(first, first + listsAtOnce), emailKey)
    const found = await Promise.all([
      keys.length === 0 ? [] : subscribers.find({ _id: { $in: keys } }, { projection: fields }).toArray(),
      others.length === 0
        ? []
        : subscribers
            .find({ mailing_list_id: { $in: others }, email_key: emailKey }, { projection: fields })
            .sort({ mailing_list_id: 1, id: 1 })
            .limit(most)
            .toArray(),
    ])
    matches.push(...found.flat().sort((a, b) => a.mailing_list_id - b.mailing_list_id || a.id - b.id))
  }
  return matches.slice(0, most)
}

async function countMatches({ subscribers }: Collections, { emailKey, lists }: Search): Promise<number> {
  let total = 0
  for (let first = 0; first < lists.length; first += listsAtOnce) {
    const { keys, others } = splitLists(lists.slice(first, first + listsAtOnce), emailKey)
    const counts = await Promise.all([
      keys.length === 0 ? 0 : subscribers.countDocuments({ _id: { $in: keys } }),
      others.length === 0
        ? 0
        : subscribers.countDocuments({ mailing_list_id: { $in: others }, email_key: emailKey }),
    ])
    total += counts[0] + counts[1]
  }
  return total
}

const isByEmail = (list: SearchedList): boolean => list.primary_key_custom_field_id === null

function splitLists(lists: SearchedList[], emailKey: string): { keys: string[]; others: number[] } {
  return {
    keys: lists.filter(isByEmail).map((list) => subscriberKey(list._id, emailKey)),
    others: lists.filter((list) => !isByEmail(list)).map((list) => list._id),
  }
}
