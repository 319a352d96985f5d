import type { Filter } from 'mongodb'
import type { Database } from '../../../shared/runtime/database.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { countSubscribers } from '../../../shared/store/subscriber-counts.ts'
import type { SubscriberAddress } from '../../store/subscribers.ts'
import { emailIdentity } from '../../../shared/values/email.ts'
import type { TokenPaging } from '../../api/endpoint.ts'
import { batchedRead } from '../../api/batched-read.ts'
import { JsonRecords, largeBytes, maxPageBytes, PageReader, type PageCall } from '../../api/json-page.ts'
import { nextPiece, pieceBytes } from '../../api/pieces.ts'
import { singleFlight } from '../../api/single-flight.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from '../../api/token-paging.ts'
import { addressOfEmail, type SubscriberList } from './list-context.ts'
import { toView } from './view.ts'

/** Subscribers of one list, by point reads or by a range of its index on ids. */

const idText = /^[1-9]\d{0,15}$/

/** What a path's id or email names; null when it is neither. */
export function addressOf(list: MailingListDocument, text: string): SubscriberAddress | null {
  if (idText.test(text))
    return Number.isSafeInteger(Number(text)) ? { listId: list._id, id: Number(text) } : null
  const emailKey = emailIdentity(text.trim())
  return emailKey === null ? null : addressOfEmail(list, emailKey)
}

/** One page of the list, by id. */
export async function listSubscribers(
  call: PageCall,
  context: SubscriberList,
  query: TokenPageQuery,
): Promise<{ data: JsonRecords; paging: TokenPaging }> {
  const { deps } = call
  const { list } = context
  const scope = `subscribers of list ${list._id}`
  const { skip, after } = pageStart(deps, query, scope)
  const reader = new PageReader<SubscriberDocument>({
    call,
    max: query.per_page,
    views: (documents) => documents.map((document) => toView(document, context)),
  })
  const cursor = deps.database.collections.subscribers
    .find({ mailing_list_id: list._id, ...(after === null ? {} : { id: { $gt: Number(after) } }) })
    .sort({ id: 1 })
    .skip(skip)
    .limit(reader.limit)
  const [total] = await Promise.all([countOnce(deps.database, list._id), reader.read(cursor)])
  const last = reader.last === null ? null : String(reader.last.id)
  return { data: reader.data, paging: tokenPaging(deps, query, { scope, last, total }) }
}

/** Pages of one list that are read at the same moment share the count. */
const countOnce = singleFlight(countSubscribers)

const maxNamed = 100
/** An email on a list with another primary key may be that of any number of subscribers. */
const maxMatches = 500

/**
 * The subscribers that a comma-separated path segment names, in its order, each once; what names nobody is left out.
 * Throws `requested_too_many` for more than 100 names, more than 500 subscribers, or 8 MB of several.
 */
export async function namedSubscribers(
  { deps: { database }, acquireLargeReply }: PageCall,
  context: SubscriberList,
  segment: string,
): Promise<JsonRecords> {
  const { list } = context
  // Decoded first: many clients encode the comma, and no address holds one.
  const names = decodeURIComponent(segment)
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (names.length > maxNamed)
    throw new RequestError(
      'requested_too_many',
      `${names.length} subscribers are asked for, and ${maxNamed} are possible at once`,
    )
  const addresses = names.map((name) => addressOf(list, name)).filter((address) => address !== null)
  const [only] = addresses
  if (addresses.length === 1 && isPoint(only!)) {
    const subscriber = await subscriberAt(database, only)
    return new JsonRecords(subscriber === null ? [] : [JSON.stringify(toView(subscriber, context))])
  }
  const { subscribers } = database.collections
  const filters = filtersOf(list, addresses)
  const found: Named[] = []
  let bytes = 0
  let pausedAt = 0
  for (const filter of filters) {
    const cursor = subscribers.find(filter).limit(maxMatches + 1)
    while (await cursor.hasNext())
      for (const subscriber of cursor.readBufferedDocuments()) {
        const { _id, id, email_key } = subscriber
        const text = JSON.stringify(toView(subscriber, context))
        bytes += Buffer.byteLength(text)
        if (bytes > maxPageBytes && found.length > 0)
          throw new RequestError(
            'requested_too_many',
            `what is asked for has more than ${maxPageBytes} bytes in all: ask for fewer subscribers at once`,
          )
        found.push({ _id, id, email_key, text })
        if (bytes > largeBytes) await acquireLargeReply(maxPageBytes)
        if (bytes - pausedAt < pieceBytes) continue
        pausedAt = bytes
        await nextPiece()
      }
  }
  if (new Set(found.map(({ id }) => id)).size > maxMatches)
    throw new RequestError(
      'requested_too_many',
      `more than ${maxMatches} subscribers have what is asked for, and ${maxMatches} are possible at once: go through them by pages of /mailing_lists/${list._id}/subscribers_by_email/:email`,
    )
  found.sort((a, b) => a.id - b.id)
  const named = new Map<number, string>()
  for (const address of addresses) {
    for (const subscriber of found) if (isAt(subscriber, address)) named.set(subscriber.id, subscriber.text)
  }
  return new JsonRecords([...named.values()])
}

/** A subscriber by what addresses name, and as JSON. */
type Named = Pick<SubscriberDocument, '_id' | 'id' | 'email_key'> & { text: string }

export const isPoint = (address: SubscriberAddress): address is PointAddress =>
  typeof address === 'string' || 'id' in address

type PointAddress = string | { listId: number; id: number }

/** Who is at an address where there is one at most. */
export const subscriberAt = (
  database: Database,
  address: PointAddress,
): Promise<SubscriberDocument | null> =>
  typeof address === 'string'
    ? subscriberByKey(database, address)
    : subscriberById(database, `${address.listId}:${address.id}`)

const subscriberByKey = batchedRead(async ({ collections }: Database, keys: string[]) => {
  const found = await collections.subscribers.find({ _id: { $in: keys } }).toArray()
  return new Map(found.map((subscriber) => [subscriber._id, subscriber]))
})

/** Asked for as `<list id>:<id>`. */
const subscriberById = batchedRead(async ({ collections }: Database, keys: string[]) => {
  const idsByList = new Map<number, number[]>()
  for (const key of keys) {
    const [listId, id] = key.split(':').map(Number) as [number, number]
    const ids = idsByList.get(listId)
    if (ids === undefined) idsByList.set(listId, [id])
    else ids.push(id)
  }
  const ranges = [...idsByList].map(([listId, ids]) => ({ mailing_list_id: listId, id: { $in: ids } }))
  const found = await collections.subscribers
    .find(ranges.length === 1 ? ranges[0]! : { $or: ranges })
    .toArray()
  return new Map(found.map((subscriber) => [`${subscriber.mailing_list_id}:${subscriber.id}`, subscriber]))
})

/** One filter for each index that they need. */
function filtersOf(
  { _id: listId }: MailingListDocument,
  addresses: SubscriberAddress[],
): Filter<SubscriberDocument>[] {
  const keys: string[] = []
  const ids: number[] = []
  const emailKeys: string[] = []
  for (const address of addresses) {
    if (typeof address === 'string') keys.push(address)
    else if ('id' in address) ids.push(address.id)
    else emailKeys.push(address.emailKey)
  }
  return [
    ...(keys.length === 0 ? [] : [{ _id: { $in: keys } }]),
    ...(ids.length === 0 ? [] : [{ mailing_list_id: listId, id: { $in: ids } }]),
    ...(emailKeys.length === 0 ? [] : [{ mailing_list_id: listId, email_key: { $in: emailKeys } }]),
  ]
}

function isAt(subscriber: Named, address: SubscriberAddress): boolean {
  if (typeof address === 'string') return subscriber._id === address
  return 'id' in address ? subscriber.id === address.id : subscriber.email_key === address.emailKey
}
