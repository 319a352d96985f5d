import { ObjectId } from 'mongodb'
import { removeGridFile } from '../gridfs/grid-bucket.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import { allObjectIds, keyRanges } from '../../store/key-ranges.ts'

/**
 * The contents of uploads in the database (bucket `uploads`, by `_id` in hexadecimal), and their end. Contents of
 * finished files never change. One that no name leads to any more is detached, and removed when no import has it
 * pinned. All of it throws the database's errors; what was left half done is found by `removeForgotten` later.
 */

/** Takes the unfinished upload away from its name; false when it isn't that one any more. */
export async function dropUnfinished(collections: Collections, _id: string, token: string): Promise<boolean> {
  const before = await collections.uploadNames.findOneAndUpdate(
    { _id, 'unfinished.token': token },
    { $set: { unfinished: null } },
  )
  if (before === null) return false
  await collections.uploadNames.deleteOne({ _id, finished: null, unfinished: null })
  await detachAndRemove(collections, before.unfinished!.content)
  return true
}

/** Ends a content that no name leads to any more. */
export async function detachAndRemove(collections: Collections, content: string): Promise<void> {
  const _id = new ObjectId(content)
  await collections.uploads.files.updateOne({ _id }, { $set: { detached: true } })
  await removeUnused(collections, _id)
}

/** Removes a content that is detached and not pinned; what is detached can't be pinned any more. */
export async function removeUnused({ uploads }: Collections, content: ObjectId): Promise<void> {
  const unused = await uploads.files.findOne({ _id: content, detached: true, pinned_by: [] })
  if (unused !== null) await removeGridFile(uploads, content)
}

const forgottenMs = 3_600_000

/** Ends contents to which nothing leads, because whoever moved their name was killed right after. */
export async function removeForgotten(collections: Collections): Promise<void> {
  const { uploads, uploadNames } = collections
  const before = { $subtract: ['$$NOW', forgottenMs] }
  for await (const range of keyRanges(uploads.files, allObjectIds)) {
    const contents = await uploads.files
      .find({ _id: range, $expr: { $lt: ['$uploadDate', before] } }, { projection: { _id: 1 } })
      .toArray()
    for (const { _id } of contents) {
      const content = _id.toHexString()
      // In a snapshot: a file that is published moves from one of the two indexes to the other.
      const named = await uploadNames.countDocuments(
        { $or: [{ 'finished.content': content }, { 'unfinished.content': content }] },
        { limit: 1, readConcern: { level: 'snapshot' } },
      )
      if (named === 0) await detachAndRemove(collections, content)
    }
  }
}
