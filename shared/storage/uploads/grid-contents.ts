import { ObjectId } from 'mongodb'
import { removeGridFile } from '../gridfs/grid-bucket.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import { allObjectIds, keyRanges } from '../../store/key-ranges.ts'
import { hourMs } from '../../values/durations.ts'

/**
 * Removal of upload contents in the database (bucket `uploads`, by `_id` in hexadecimal). Contents of finished files
 * never change. A content without a name is detached, and removed when no import has pinned it. `removeForgotten` later
 * completes a removal that broke off.
 */

/** Removes the unfinished upload of a name. False when the name has another unfinished upload, or none. */
export async function dropUnfinished(collections: Collections, _id: string, token: string): Promise<boolean> {
  const { uploadNames } = collections
  const before =
    (await uploadNames.findOneAndDelete({ _id, 'unfinished.token': token, finished: null })) ??
    (await uploadNames.findOneAndUpdate({ _id, 'unfinished.token': token }, { $set: { unfinished: null } }))
  const content = before?.unfinished?.content
  if (content === undefined) return false
  await removeNameless(collections, content)
  return true
}

/**
 * To call when no name leads to the content any more. Its bytes are deleted while the caller continues. Never throws:
 * the change that took the name away is done and visible.
 */
export async function removeNameless(collections: Collections, content: string): Promise<void> {
  const _id = new ObjectId(content)
  const detaching = collections.uploads.files.updateOne({ _id }, { $set: { detached: true } })
  const isDetached = await detaching.then(
    () => true,
    () => false,
  )
  if (isDetached) void removeUnused(collections, _id).catch(() => undefined)
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
      if (named > 0) continue
      await uploads.files.updateOne({ _id }, { $set: { detached: true } })
      await removeUnused(collections, _id)
    }
  }
}
