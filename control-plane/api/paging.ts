import type { Collection, Document, Filter, Sort } from 'mongodb'
import type { Paging } from './endpoint.ts'

export interface PageQuery {
  page: number
  per_page: number
}

/** One page of a collection, with the figures that go with it. */
export async function readPage<T extends Document>(
  collection: Collection<T>,
  filter: Filter<T>,
  options: PageQuery & { sort: Sort },
): Promise<{ documents: T[]; paging: Paging }> {
  const [total, documents] = await Promise.all([
    collection.countDocuments(filter),
    collection
      .find(filter)
      .sort(options.sort)
      .skip(options.page * options.per_page)
      .limit(options.per_page)
      .toArray(),
  ])
  return { documents: documents as T[], paging: pagingOf(total, options) }
}

export function pagingOf(total: number, { page, per_page }: PageQuery): Paging {
  return { page, per_page, num_records: total, num_pages: Math.ceil(total / per_page) }
}
