import type { Collection, Document, Filter, FindCursor } from 'mongodb'
import type { Paging } from './endpoint.ts'
import { PageReader, type JsonRecords, type PageCall } from './json-page.ts'
import { pageStart, tokenPaging, type TokenPageQuery } from './token-paging.ts'

export interface PageOptions<T> {
  query: TokenPageQuery
  /** What the list is of and how it is filtered: a token for another one is refused. */
  scope: string
  /** By ids, or by another key and then by ids. */
  sort: { _id: 1 | -1 } | Record<string, 1>
  projection?: Record<string, 0 | 1>
  /** Documents that the database sends at once, where one may be large. */
  batchSize?: number
  /** The documents as they are shown, in their order. */
  views: (documents: T[]) => readonly object[] | Promise<readonly object[]>
}

export interface Page {
  data: JsonRecords
  paging: Paging
}

/**
 * One page of a collection as JSON, with the figures that go with it. Tokens name the last id, or where the order is
 * another one, how many records came before. Throws `invalid_request` for a token of another list.
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
  const comparison = { _id: { [sort['_id'] === 1 ? '$gt' : '$lt']: Number(after) } } as unknown as Filter<T>
  const rest = byId && after !== null ? ({ $and: [filter, comparison] } as Filter<T>) : filter
  const reader = new PageReader<T>({ call, max: query.per_page, views })
  const cursor = collection
    .find(rest)
    .sort(sort)
    .skip(skipped)
    .limit(reader.limit) as unknown as FindCursor<T>
  if (projection !== undefined) cursor.project(projection)
  if (batchSize !== undefined) cursor.batchSize(batchSize)
  const [total] = await Promise.all([collection.countDocuments(filter), reader.read(cursor)])
  const position = byId ? reader.last?._id : skipped + reader.count
  const last = reader.hasMore ? String(position) : null
  return { data: reader.data, paging: countedPaging(call, query, { scope, last, total }) }
}

/** Where the records are counted on each page, also on one by a token. */
export const countedPaging = (
  { deps }: PageCall,
  query: TokenPageQuery,
  position: { scope: string; last: string | null; total: number },
): Paging => tokenPaging(deps, query, position) as Paging
