import type { Collection, Document, Filter, WithId } from 'mongodb'
import type { TokenPaging } from './endpoint.ts'
import { PageReader, type JsonRecords, type PageCall } from './json-page.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from './token-paging.ts'

interface PageOptions<T extends Document> {
  query: TokenPageQuery
  /** Identifies the list and its filters. A token that was made for another scope is refused. */
  scope: string
  /** Sorts by id, or by another key and then by id. */
  sort: { _id: 1 | -1 } | Record<string, 1>
  projection?: Record<string, 0 | 1>
  /** Documents in a batch of the database, where one document may be large. */
  batchSize?: number
  /** Converts documents to the records of the reply, in the same order. */
  views: (documents: WithId<T>[]) => readonly object[] | Promise<readonly object[]>
}

export interface Page {
  data: JsonRecords
  paging: TokenPaging
}

/**
 * Reads one page of a collection as JSON, with its paging. A token has the last id; in an order other than by id it has
 * the number of records before. Throws `invalid_request` for a token of another list.
 */
export async function readPage<T extends Document & { _id: number }>(
  call: PageCall,
  collection: Collection<T>,
  filter: Filter<T>,
  { query, scope, sort, projection, batchSize, views }: PageOptions<T>,
): Promise<Page> {
  const { skip, after } = pageStart(call.deps, query, scope)
  const byId = '_id' in sort && Object.keys(sort).length === 1
  const skipped = byId ? skip : skip + Number(after ?? 0)
  const reader = new PageReader<WithId<T>>({ call, max: query.per_page, views })
  const cursor = collection.find(filter).sort(sort).skip(skipped).limit(reader.limit)
  if (byId && after !== null)
    cursor.filter({ $and: [filter, { _id: { [sort['_id'] === 1 ? '$gt' : '$lt']: Number(after) } }] })
  if (projection !== undefined) cursor.project(projection)
  if (batchSize !== undefined) cursor.batchSize(batchSize)
  const [total] = await Promise.all([collection.countDocuments(filter), reader.read(cursor)])
  const position = byId ? reader.last?._id : skipped + reader.count
  const last = reader.hasMore ? String(position) : null
  return { data: reader.data, paging: tokenPaging(call.deps, query, { scope, last, total }) }
}
