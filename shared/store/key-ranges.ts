import type { Collection, Document, Filter } from 'mongodb'

/**
 * Keyset pagination: reads a collection, or a range of it, with one query for each bounded number of documents. One
 * query over all of it could examine any number of documents, and its socket times out after 60 s. A longer timeout
 * would only move that bound, and a dead connection would be noticed later. `$limit` before `$match` would send a key
 * for each document, wanted or not. The at most 12,000 chunks of an import are read by one query: counting, closing and
 * deleting them takes 80, 310 and 230 ms.
 */

/** Each document may cost a seek of a slow disk, some 10 ms: 20 s of the 60 s. */
export const documentsPerQuery = 2_000

interface KeyRange<K> {
  $gte: K
  $lt: K
}

/**
 * Splits a range of `_id` into consecutive ranges with a bounded number of documents. The last one ends where the
 * given one does. Each boundary is read from the index when it is needed, so later writes move the later boundaries.
 */
export async function* keyRanges<T extends Document & { _id: K }, K>(
  collection: Collection<T>,
  { $gte: first, $lt: end }: KeyRange<K>,
): AsyncGenerator<KeyRange<K>> {
  let from = first
  for (;;) {
    const boundary = await collection
      .find({ _id: { $gte: from, $lt: end } } as Filter<T>, { projection: { _id: 1 } })
      .sort({ _id: 1 })
      .skip(documentsPerQuery)
      .limit(1)
      .next()
    yield { $gte: from, $lt: boundary === null ? end : boundary._id }
    if (boundary === null) return
    from = boundary._id
  }
}

/** Deletes the documents of a range of `_id`. After a failure a second call deletes the rest. */
export async function deleteRange<T extends Document & { _id: K }, K>(
  collection: Collection<T>,
  range: KeyRange<K>,
): Promise<void> {
  for await (const _id of keyRanges(collection, range)) await collection.deleteMany({ _id } as Filter<T>)
}
