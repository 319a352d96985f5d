import { Readable } from 'node:stream'
import { ObjectId } from 'mongodb'
import type { Database } from '../../runtime/database.ts'
import { inTransaction } from '../../runtime/transactions.ts'
import {
  copyGridFile,
  createGridFile,
  gridFileSize,
  removeStrayPieces,
  streamGridFile,
  truncateGridFile,
} from '../gridfs/grid-bucket.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { UploadNameDocument } from '../../contract/schemas/upload.ts'
import { gridFile } from '../staging/grid-staging.ts'
import { keyRanges } from '../../store/key-ranges.ts'
import { isUploadLocked } from '../../store/upload-locks.ts'
import { dropUnfinished, removeForgotten, removeNameless, removeUnused } from './grid-contents.ts'
import { GridUpload } from './grid-upload.ts'
import { fileNameProblem } from './upload-names.ts'
import {
  UploadChanged,
  type ResumeOptions,
  type UploadEntry,
  type Uploads,
  type UploadStore,
} from './upload-store.ts'

type GridDatabase = Pick<Database, 'sessions' | 'collections'>

/**
 * Upload directories in the database. Each name has a document (`upload_names`) with the ids of its finished and its
 * unfinished content. grid-upload.ts has the upload in progress, grid-contents.ts the removal of contents.
 */
export function gridUploads(database: GridDatabase): Uploads {
  const { collections } = database
  const { uploads: bucket, uploadNames } = collections
  return {
    directory: (organizationId) => gridDirectory(database, organizationId),
    async pin({ organizationId, name, importId, signal }) {
      let last: string | null = null
      for (let tries = 0; tries < maxPinTries; tries += 1) {
        signal?.throwIfAborted()
        const { finished = null } = (await uploadNames.findOne({ _id: nameId(organizationId, name) })) ?? {}
        if (finished === null) return null
        const { matchedCount } = await bucket.files.updateOne(
          { _id: new ObjectId(finished.content), detached: false },
          { $addToSet: { pinned_by: importId } },
        )
        if (matchedCount === 1)
          return { reference: finished.content, fingerprint: finished.content, is_settled: true }
        // A file that was replaced meanwhile has another content. Only attempts with the same content are counted.
        if (finished.content !== last) tries = 0
        last = finished.content
      }
      // The content of the name is missing, as after a restore of only some of the collections.
      return null
    },
    // Another engine may have begun the import with the same pin, so it stays until the import ends.
    releasePin: () => Promise.resolve(),
    async openPin(_organizationId, { reference }) {
      const content = new ObjectId(reference)
      const entry = await bucket.files.findOne({ _id: content })
      if (entry === null || entry.length === null) return null
      const file = gridFile(bucket, content, entry.length)
      return {
        ...file,
        staged: () => Promise.resolve(null),
        fingerprint: () => Promise.resolve(reference),
        isQuiet: () => Promise.resolve(true),
        content: (signal) => streamGridFile(bucket, content, { end: file.size, signal }),
      }
    },
    async unpin(importId) {
      const pinned = await bucket.files.find({ pinned_by: importId }).toArray()
      for (const { _id } of pinned) {
        await bucket.files.updateOne({ _id }, { $pull: { pinned_by: importId } })
        await removeUnused(collections, _id)
      }
    },
    async listPinned() {
      const ids = await bucket.files.distinct('pinned_by', { 'pinned_by.0': { $exists: true } })
      return ids.filter((id) => id !== undefined)
    },
    async purge({ olderThanMs }) {
      const before = { $subtract: ['$$NOW', olderThanMs] }
      let removed = 0
      for await (const range of keyRanges(uploadNames, allNameIds)) {
        const old = await uploadNames
          .find({
            _id: range,
            unfinished: { $ne: null },
            $expr: { $lt: ['$unfinished.touched_at', before] },
          })
          .toArray()
        for (const { _id, unfinished } of old) {
          if (unfinished === null) continue
          if (await isUploadLocked(collections, _id)) continue
          if (await dropUnfinished(collections, _id, unfinished.token)) removed += 1
        }
      }
      await removeForgotten(collections)
      await removeStrayPieces(bucket)
      return removed
    },
  }
}

/** Attempts to pin one content. */
const maxPinTries = 3

const nameId = (organizationId: number, name: string): string => `${organizationId}/${name}`
/** All ids begin with a digit, and ":" follows "9". */
const allNameIds = { $gte: '0', $lt: ':' }

function gridDirectory(database: GridDatabase, organizationId: number): UploadStore {
  const { collections } = database
  const { uploads: bucket, uploadNames } = collections
  const toNameId = (name: string) => nameId(organizationId, name)
  const readDocument = (name: string) => uploadNames.findOne({ _id: toNameId(name) })
  const readSize = (content: string) => gridFileSize(bucket, new ObjectId(content))
  return {
    prepare: () => Promise.resolve(),
    async list() {
      const documents = await uploadNames
        .find({ organization_id: organizationId, finished: { $ne: null } })
        .sort({ name: 1 })
        .toArray()
      return documents.map(finishedEntry).filter((entry) => entry !== null)
    },
    async find(name) {
      return finishedEntry(await readDocument(name))
    },
    async findUnfinished(name) {
      const { unfinished = null } = (await readDocument(name)) ?? {}
      if (unfinished === null) return null
      return { name, size: await readSize(unfinished.content), modifiedAt: unfinished.touched_at }
    },
    async listUnfinished() {
      const entries: UploadEntry[] = []
      const documents = uploadNames.find({ organization_id: organizationId, unfinished: { $ne: null } })
      for await (const { name, unfinished } of documents)
        if (unfinished !== null)
          entries.push({ name, size: await readSize(unfinished.content), modifiedAt: unfinished.touched_at })
      return entries
    },
    async open(name) {
      const { finished = null } = (await readDocument(name)) ?? {}
      if (finished === null) return null
      const { size, modified_at: modifiedAt } = finished
      const content = new ObjectId(finished.content)
      return {
        ...gridFile(bucket, content, size),
        modifiedAt,
        version: finished.content,
        stream: ({ start = 0, end = size } = {}) =>
          Readable.from(streamGridFile(bucket, content, { start, end }), { objectMode: false }),
      }
    },
    async remove(name) {
      const isFinished = { _id: toNameId(name), finished: { $ne: null } }
      const before =
        (await uploadNames.findOneAndDelete({ ...isFinished, unfinished: null })) ??
        (await uploadNames.findOneAndUpdate(isFinished, { $set: { finished: null } }))
      const content = before?.finished?.content
      if (content === undefined) return false
      await removeNameless(collections, content)
      return true
    },
    async removeUnfinished(name) {
      const { unfinished = null } = (await readDocument(name)) ?? {}
      if (unfinished !== null) await dropUnfinished(collections, toNameId(name), unfinished.token)
    },
    async rename(from, to) {
      if (from === to) return finishedEntry(await readDocument(from)) !== null
      const replaced = await inTransaction(database, async (session) => {
        const source = await uploadNames.findOneAndUpdate(
          { _id: toNameId(from), finished: { $ne: null } },
          { $set: { finished: null } },
          { session },
        )
        if (source === null) return undefined
        await uploadNames.deleteOne({ _id: source._id, finished: null, unfinished: null }, { session })
        const target = await uploadNames.findOneAndUpdate(
          { _id: toNameId(to) },
          {
            $set: { finished: source.finished },
            $setOnInsert: { organization_id: organizationId, name: to, unfinished: null },
          },
          { session, upsert: true },
        )
        return target?.finished?.content ?? null
      })
      if (typeof replaced === 'string') await removeNameless(collections, replaced)
      return replaced !== undefined
    },
    async setTime(name, time) {
      const { matchedCount } = await uploadNames.updateOne(
        { _id: toNameId(name), finished: { $ne: null } },
        { $set: { 'finished.modified_at': time } },
      )
      return matchedCount === 1
    },
    async beginOrResume(options) {
      return beginOrResume(collections, organizationId, toNameId(options.name), options)
    },
    async count() {
      const finished = new Map<string, number>()
      const unfinished = new Map<string, number>()
      // In a snapshot, because a rename moves a file from one name to another: it would be missed, or counted twice.
      const documents = await uploadNames
        .find({ organization_id: organizationId }, { readConcern: { level: 'snapshot' } })
        .toArray()
      for (const document of documents) {
        if (document.finished !== null) finished.set(document.name, document.finished.size)
        if (document.unfinished !== null)
          unfinished.set(document.name, await readSize(document.unfinished.content))
      }
      return { finished, unfinished }
    },
    async countPinned(importIds) {
      const [sum] = await bucket.files
        .aggregate<{ bytes: number }>([
          { $match: { pinned_by: { $in: importIds }, detached: true } },
          { $group: { _id: null, bytes: { $sum: '$length' } } },
        ])
        .toArray()
      return sum?.bytes ?? 0
    },
  }
}

/** Begins or resumes an upload: gives the unfinished content the token, or creates a new content. */
async function beginOrResume(
  collections: Collections,
  organizationId: number,
  _id: string,
  { name, token, wasAbandoned, keep, signal }: ResumeOptions,
): Promise<GridUpload> {
  const { uploads: bucket, uploadNames } = collections
  if (fileNameProblem(name) !== null) throw new Error(`not a valid name of an upload: ${name}`)
  // From here on the former session of the upload can't publish it.
  const before = await uploadNames.findOneAndUpdate(
    { _id, unfinished: { $ne: null } },
    { $set: { 'unfinished.token': token } },
  )
  const { unfinished = null } = before ?? {}
  const base = keep === 0 ? null : (unfinished ?? (await uploadNames.findOne({ _id }))?.finished ?? null)
  // A former session may still write to an abandoned content, and a finished content never changes: both are copied.
  const isResumed = base !== null && base === unfinished && !wasAbandoned
  const content = isResumed
    ? new ObjectId(base.content)
    : await createGridFile(bucket, { filename: _id, pinned_by: [], detached: false })
  try {
    const isWhole =
      base === null ||
      isResumed ||
      (await copyGridFile(bucket, { from: new ObjectId(base.content), to: content, signal }))
    // The file may have been replaced since the upload was requested.
    if (!isWhole || (await gridFileSize(bucket, content)) < (keep ?? 0))
      throw new UploadChanged(`${JSON.stringify(name)} was changed or removed while the upload began`)
    if (keep !== null && keep > 0) await truncateGridFile(bucket, content, keep)
  } catch (error) {
    if (!isResumed) await removeNameless(collections, content.toHexString())
    throw error
  }
  // Where another session was faster, an insert fails on the duplicate key, and an update matches nothing.
  const filter = unfinished === null ? { _id, unfinished: null } : { _id, 'unfinished.token': token }
  const { matchedCount, upsertedCount } = await uploadNames.updateOne(
    filter,
    [
      {
        $set: {
          organization_id: organizationId,
          name: { $literal: name },
          finished: { $ifNull: ['$finished', null] },
          unfinished: { content: content.toHexString(), token, touched_at: '$$NOW' },
        },
      },
    ],
    { upsert: unfinished === null },
  )
  if (matchedCount + upsertedCount === 0) {
    if (!isResumed) await removeNameless(collections, content.toHexString())
    throw new UploadChanged(`the upload of ${JSON.stringify(name)} was taken over while it began`)
  }
  if (unfinished !== null && !isResumed) await removeNameless(collections, unfinished.content)
  const size = await gridFileSize(bucket, content)
  return new GridUpload({
    collections,
    nameId: _id,
    token,
    content,
    size,
    isCopy: base !== null && base !== unfinished,
  })
}

function finishedEntry(document: UploadNameDocument | null): UploadEntry | null {
  if (document === null || document.finished === null) return null
  const { size, modified_at: modifiedAt } = document.finished
  return { name: document.name, size, modifiedAt }
}
