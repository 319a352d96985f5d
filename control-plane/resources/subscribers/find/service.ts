import type { Filter } from 'mongodb'
import type { RequestError } from '../../../api/request-error.ts'
import type { MailingListDocument } from '../../../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import type { RecordOfPath, TokenPaging } from '../../../api/endpoint.ts'
import {
  pieceBytes,
  JsonRecords,
  largeBytes,
  maxPageBytes,
  PageReader,
  type PageCall,
} from '../../../api/json-page.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from '../../../api/token-paging.ts'
import type { SubscriberReference } from '../../../store/subscribers.ts'
import {
  maxMatches,
  maxNames,
  noneOfThem,
  noSubscriber,
  subscribersTooLarge,
  tooManyMatches,
  tooManyNames,
} from '../refusals.ts'
import { isUnique, parseReference, readAhead, subscriberListInPath, type SubscriberList } from '../service.ts'
import { toView } from '../view.ts'

/** Subscribers of one list: pages by a range of its index on ids, named ones by point reads. */

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
  const [total] = await Promise.all([deps.reads.subscriberCount(list._id), reader.read(cursor)])
  const last = reader.last === null ? null : String(reader.last.id)
  return { data: reader.data, paging: tokenPaging(deps, query, { scope, last, total }) }
}

interface SubscribersInPath {
  context: SubscriberList
  find: ReturnType<typeof readAhead>
}

/** The list that the path names, and what finds a subscriber there. */
export const subscribersInPath: RecordOfPath<SubscribersInPath> = {
  refusals: subscriberListInPath.refusals,
  async find(call) {
    const find = readAhead(call)
    return { context: await subscriberListInPath.find(call), find }
  },
}

/**
 * The subscribers that a comma-separated path segment names, in its order, each once, without names that no subscriber
 * has. Throws `not_found` where no subscriber has any of the names, `requested_too_many` for more than 100 names, more
 * than 500 subscribers, or 8 MB of several.
 */
export async function namedSubscribers(
  { deps, acquireLargeReply }: PageCall,
  { context, find }: SubscribersInPath,
  segment: string,
): Promise<JsonRecords> {
  const { list } = context
  // Decoded before the split: many clients encode the comma, and no reference contains one.
  const names = decodeURIComponent(segment)
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (names.length > maxNames) throw tooManyNames(names.length)
  const references = names.map((name) => parseReference(list, name)).filter((reference) => reference !== null)
  const [only] = references
  if (references.length === 1 && only !== undefined && isUnique(only)) {
    const subscriber = await find(only)
    if (subscriber === null) throw noneOf(names, segment)
    return new JsonRecords([JSON.stringify(toView(subscriber, context))])
  }
  const { subscribers } = deps.database.collections
  const found: FoundJson[] = []
  let bytes = 0
  let pausedAt = 0
  for (const filter of filtersByIndex(list, references)) {
    const cursor = subscribers.find(filter).limit(maxMatches + 1)
    while (await cursor.hasNext())
      for (const subscriber of cursor.readBufferedDocuments()) {
        const { _id, id, email_key } = subscriber
        const text = JSON.stringify(toView(subscriber, context))
        bytes += Buffer.byteLength(text)
        if (bytes > maxPageBytes && found.length > 0) throw subscribersTooLarge()
        found.push({ _id, id, email_key, text })
        if (bytes > largeBytes) await acquireLargeReply()
        if (bytes - pausedAt < pieceBytes) continue
        pausedAt = bytes
        await deps.pacer.nextPiece()
      }
  }
  if (new Set(found.map(({ id }) => id)).size > maxMatches) throw tooManyMatches(list._id)
  if (found.length === 0) throw noneOf(names, segment)
  return new JsonRecords(inOrderOfNames(found, references))
}

const noneOf = (names: readonly string[], segment: string): RequestError =>
  names.length < 2 ? noSubscriber(names[0] ?? segment) : noneOfThem(names.length)

/** A subscriber's parts that references name, and its view as JSON. */
type FoundJson = Pick<SubscriberDocument, '_id' | 'id' | 'email_key'> & { text: string }

function inOrderOfNames(found: FoundJson[], references: SubscriberReference[]): string[] {
  found.sort((a, b) => a.id - b.id)
  const texts = new Map<number, string>()
  for (const reference of references) {
    for (const subscriber of found)
      if (isMeantBy(subscriber, reference)) texts.set(subscriber.id, subscriber.text)
  }
  return [...texts.values()]
}

function isMeantBy(subscriber: FoundJson, reference: SubscriberReference): boolean {
  if (typeof reference === 'string') return subscriber._id === reference
  return 'id' in reference ? subscriber.id === reference.id : subscriber.email_key === reference.emailKey
}

/** A filter for each index that the references need. */
function filtersByIndex(
  { _id: listId }: MailingListDocument,
  references: SubscriberReference[],
): Filter<SubscriberDocument>[] {
  const keys: string[] = []
  const ids: number[] = []
  const emailKeys: string[] = []
  for (const reference of references) {
    if (typeof reference === 'string') keys.push(reference)
    else if ('id' in reference) ids.push(reference.id)
    else emailKeys.push(reference.emailKey)
  }
  return [
    ...(keys.length === 0 ? [] : [{ _id: { $in: keys } }]),
    ...(ids.length === 0 ? [] : [{ mailing_list_id: listId, id: { $in: ids } }]),
    ...(emailKeys.length === 0 ? [] : [{ mailing_list_id: listId, email_key: { $in: emailKeys } }]),
  ]
}
