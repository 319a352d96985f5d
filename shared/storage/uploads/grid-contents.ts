import { ObjectId } from 'mongodb'
import { removeGridFile } from '../gridfs/grid-bucket.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import { allObjectIds, keyRanges } from '../../store/key-ranges.ts'
import { hourMs } from '../../values/durations.ts'

/**
 * Removal of upload contents in the database (bucket `uploads`, by `_id` in hexadecimal). Contents of finished files
 * never change. A content without a name is detached, and removed when no import has pinned it. All functions throw
 * the database's errors; `removeForgotten` later completes a removal that broke off.
 */

/** Removes the unfinished upload of a name. False when the name has another unfinished upload, or none. */
export async function dropUnfinished(collections: Collections, _id: string, token: string): Promise<boolean> {
  const before = await collections.uploadNames.findOneAndUpdate(
    { _id, 'unfinished.token': token },
    { $set: { unfinished: null } },
  )
  const unfinished = before?.unfinished ?? null
  if (unfinished === null) return false
  await collections.uploadNames.deleteOne({ _id, finished: null, unfinished: null })
  await detachAndRemove(collections, unfinished.content)
  return true
}

/** Detaches a content without a name, and removes it when it isn't pinned. */
export async function detachAndRemove(collections: Collections, content: string): Promise<void> {
  const _id = new ObjectId(content)
  await collections.uploads.files.updateOne({ _id }, { $set: { detached: true } })
  await removeUnused(collections, _id)
}

/** Removes a content that is detached and not pinned. A detached content can't be pinned again. */
export async function removeUnused({ uploads }: Collections, content: ObjectId): Promise<void> {
  const unused = await uploads.files.findOne({ _id: content, detached: true, pinned_by: [] })
  if (unused !== null) await removeGridFile(uploads, content)
}

const forgottenMs = hourMs

/** Removes contents without a name, which processes have left that were killed between two writes. */
export async function removeForgotten(collections: Collections): Promise<void> {
  const { uploads, uploadNames } = collections
  const before = { $subtract: ['$$NOW', forgottenMs] }
  for await (const range of keyRanges(uploads.files, allObjectIds)) {
    const contents = await uploads.files
      .find({ _id: range, $expr: { $lt: ['$uploadDate', before] } }, { projection: { _id: 1 } })
      .toArray()
    for (const { _id } of contents) {
      const content = _id.toHexString()
      // In a snapshot, because publishing moves a content from one of the two indexes to the other.
      const named = await uploadNames.countDocuments(
        { $or: [{ 'finished.content': content }, { 'unfinished.content': content }] },
        { limit: 1, readConcern: { level: 'snapshot' } },
      )
      if (named === 0) await detachAndRemove(collections, content)
    }
  }
}
