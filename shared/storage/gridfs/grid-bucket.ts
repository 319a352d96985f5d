import { ObjectId, type Collection } from 'mongodb'
import type { GridFileDocument, GridPieceDocument } from '../../contract/schemas/grid-file.ts'
import { allObjectIds, keyRanges } from '../../store/key-ranges.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'

/**
 * Files in the database that grow at their end and are read from any position (shared/contract/schemas/grid-file.ts).
 * A file has one writer at a time. Where there are two all the same, a unique index on the offsets makes one of them
 * fail.
 *
 * A piece is what was appended at once, with its offset as `n`. In GridFS all pieces have one size: the last one would be
 * written again with every append, and 24 extents of 64 KB would bring four times their bytes. Its tools don't read these
 * files. An import of 200,000 rows takes 1.38 times as long as from disk (1.31 to 1.45).
 */
export interface GridBucket {
  files: Collection<GridFileDocument>
  pieces: Collection<GridPieceDocument>
}

/** Maximum size of a piece. With 64 KiB writes are slower, with 1 MiB a read of 64 KB takes 14 ms in place of 7 (2 cores). */
const maxPieceBytes = 256 * 1024
/** Maximum bytes of one insert command, which must end long before its socket times out. */
const maxInsertBytes = 4 * binaryMegabyte
/** Maximum bytes of one delete command. */
const maxDeleteBytes = 256 * binaryMegabyte

/** Creates the entry of a file before its pieces, because pieces without an entry are removed. */
export async function createGridFile(
  { files }: GridBucket,
  entry: Omit<GridFileDocument, '_id' | 'uploadDate' | 'length'>,
): Promise<ObjectId> {
  const _id = new ObjectId()
  await files.updateOne(
    { _id },
    { $setOnInsert: { length: null, ...entry }, $currentDate: { uploadDate: true } },
    { upsert: true },
  )
  return _id
}

/** The present size of the file in bytes. */
export async function gridFileSize({ pieces }: GridBucket, file: ObjectId): Promise<number> {
  const last = await pieces
    .find({ files_id: file }, { projection: { end: 1 } })
    .sort({ n: -1 })
    .limit(1)
    .next()
  return last?.end ?? 0
}

/** Appends the buffers from the offset on, in order; resolves to the new end. */
export async function appendToGridFile(
  { pieces }: GridBucket,
  file: ObjectId,
  offset: number,
  buffers: Uint8Array[],
): Promise<number> {
  let end = offset
  let unsent: GridPieceDocument[] = []
  let unsentBytes = 0
  const send = async () => {
    if (unsent.length > 0) await pieces.insertMany(unsent, { ordered: true })
    unsent = []
    unsentBytes = 0
  }
  for (const buffer of buffers) {
    for (let at = 0; at < buffer.length; at += maxPieceBytes) {
      const data = buffer.subarray(at, at + maxPieceBytes)
      unsent.push({ _id: new ObjectId(), files_id: file, n: end, end: end + data.length, data })
      end += data.length
      unsentBytes += data.length
      if (unsentBytes >= maxInsertBytes) await send()
    }
  }
  await send()
  return end
}

/**
 * Reads into the target from the position on. Resolves to the bytes read, which are fewer only at the end of the
 * file.
 */
export async function readGridFile(
  { pieces }: GridBucket,
  file: ObjectId,
  target: Uint8Array,
  position: number,
): Promise<number> {
  const end = position + target.length
  let read = 0
  const cursor = pieces
    .find(
      // The index finds at most one piece too many, which `end` excludes before it is sent.
      { files_id: file, n: { $gt: position - maxPieceBytes, $lt: end }, end: { $gt: position } },
      { projection: { _id: 0, n: 1, end: 1, data: 1 } },
    )
    .sort({ n: 1 })
  for await (const piece of cursor) {
    const from = Math.max(piece.n, position)
    if (from !== position + read) throw new Error(`file ${file.toHexString()} has a gap before byte ${from}`)
    const bytes = toBuffer(piece).subarray(from - piece.n, end - piece.n)
    target.set(bytes, read)
    read += bytes.length
  }
  return read
}

/** Yields the bytes from `start` to `end`. */
export async function* streamGridFile(
  bucket: GridBucket,
  file: ObjectId,
  options: { start?: number; end: number; signal?: AbortSignal },
): AsyncGenerator<Buffer> {
  const { end, signal } = options
  for (let position = options.start ?? 0; position < end;) {
    signal?.throwIfAborted()
    const target = Buffer.allocUnsafeSlow(Math.min(binaryMegabyte, end - position))
    const read = await readGridFile(bucket, file, target, position)
    if (read < target.length) throw new Error(`file ${file.toHexString()} was removed while it was read`)
    yield target
    position += read
  }
}

/** Removes the bytes after the offset. */
export async function truncateGridFile(bucket: GridBucket, file: ObjectId, length: number): Promise<void> {
  const { pieces } = bucket
  const cut = await pieces.findOne({
    files_id: file,
    n: { $lt: length, $gt: length - maxPieceBytes },
    end: { $gt: length },
  })
  // Pieces go backwards from the end, so that a truncation that breaks off leaves no gap.
  await removePieces(bucket, file, length)
  if (cut === null) return
  const data = toBuffer(cut).subarray(0, length - cut.n)
  await pieces.updateOne({ _id: cut._id }, { $set: { end: length, data: Buffer.from(data) } })
}

/**
 * Copies the bytes of a file into an empty one, within the server. False when the copy is incomplete, because the
 * file was truncated or removed meanwhile. A file is detached before it is removed
 * (shared/storage/uploads/grid-contents.ts).
 */
export async function copyGridFile(
  bucket: GridBucket,
  { from, to, signal }: { from: ObjectId; to: ObjectId; signal?: AbortSignal | undefined },
): Promise<boolean> {
  const { files, pieces } = bucket
  const size = await gridFileSize(bucket, from)
  const count = (file: ObjectId) => pieces.countDocuments({ files_id: file, n: { $lt: size } })
  const expected = await count(from)
  for (let at = 0; at < size; at += maxCopyBytes) {
    signal?.throwIfAborted()
    await pieces
      .aggregate([
        { $match: { files_id: from, n: { $gte: at, $lt: Math.min(size, at + maxCopyBytes) } } },
        { $project: { _id: 0, files_id: { $literal: to }, n: 1, end: 1, data: 1 } },
        { $merge: { into: pieces.collectionName, whenMatched: 'fail' } },
      ])
      .toArray()
  }
  if ((await count(to)) !== expected || (await gridFileSize(bucket, to)) !== size) return false
  return (await files.countDocuments({ _id: from, detached: { $ne: true } })) === 1
}

/** Maximum bytes of one copy command. */
const maxCopyBytes = 64 * binaryMegabyte

/** Removes a file. Its entry goes last, so that a removal that broke off is found and repeated. */
export async function removeGridFile(bucket: GridBucket, file: ObjectId): Promise<void> {
  await removePieces(bucket, file, 0)
  await bucket.files.deleteOne({ _id: file })
}

async function removePieces(bucket: GridBucket, file: ObjectId, from: number): Promise<void> {
  const size = await gridFileSize(bucket, file)
  const last = Math.floor(Math.max(0, size - 1 - from) / maxDeleteBytes)
  for (let portion = last; portion >= 0; portion -= 1)
    await bucket.pieces.deleteMany({ files_id: file, n: { $gte: from + portion * maxDeleteBytes } })
}

/** Removes pieces without an entry, which a writer added to a file that was removed meanwhile. */
export async function removeStrayPieces({ files, pieces }: GridBucket): Promise<void> {
  for await (const range of keyRanges(files, allObjectIds)) {
    // Pieces are read before entries, because a new file gets its entry first. `distinct` makes one seek a file.
    const ids = await pieces.distinct('files_id', { files_id: range })
    const entries = await files.find({ _id: { $in: ids } }, { projection: { _id: 1 } }).toArray()
    const known = new Set(entries.map(({ _id }) => _id.toHexString()))
    for (const id of ids) if (!known.has(id.toHexString())) await removePieces({ files, pieces }, id, 0)
  }
}

const toBuffer = ({ data }: Pick<GridPieceDocument, 'data'>): Buffer =>
  Buffer.from(data.buffer, data.byteOffset, data.length)
