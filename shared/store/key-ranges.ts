import { ObjectId, type Collection, type Document, type Filter } from 'mongodb'

/**
 * Walks by key: a collection, or a range of it, in pieces of a bounded number of documents, each with a query of its
 * own. One query over all of it would examine any number of documents, and past 60 s its socket is given up.
 */

/** Each of them may cost a seek of a slow disk, some 10 ms: 20 s of the 60. */
export const documentsPerQuery = 2_000

export interface KeyRange<K> {
  $gte: K
  $lt: K
}

/** All but the very last one, which nobody draws. */
export const allObjectIds: KeyRange<ObjectId> = {
  $gte: new ObjectId('0'.repeat(24)),
  $lt: new ObjectId('f'.repeat(24)),
}

/**
 * Cuts a range of `_id` into ranges that follow each other and hold a bounded number of documents. The last one ends
 * where the given one does. Only the index is read, a border at a time: what is added or removed meanwhile moves the
 * borders to come.
 */
export async function* keyRanges<T extends Document & { _id: K }, K>(
  collection: Collection<T>,
  { $gte: first, $lt: end }: KeyRange<K>,
): AsyncGenerator<KeyRange<K>> {
  let from = first
  for (;;) {
    const border = await collection
      .find({ _id: { $gte: from, $lt: end } } as Filter<T>, { projection: { _id: 1 } })
      .sort({ _id: 1 })
      .skip(documentsPerQuery)
      .limit(1)
      .next()
    yield { $gte: from, $lt: border === null ? end : border._id }
    if (border === null) return
    from = border._id
  }
}

/** Deletes the documents of a range of `_id`. One that breaks off and begins anew goes on with those that are left. */
export async function deleteRange<T extends Document & { _id: K }, K>(
  collection: Collection<T>,
  range: KeyRange<K>,
): Promise<void> {
  for await (const _id of keyRanges(collection, range)) await collection.deleteMany({ _id } as Filter<T>)
}
