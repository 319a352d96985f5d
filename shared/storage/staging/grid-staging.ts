import type { Filter, ObjectId } from 'mongodb'
import {
  appendToGridFile,
  createGridFile,
  gridFileSize,
  readGridFile,
  removeGridFile,
  removeStrayPieces,
  type GridBucket,
} from '../gridfs/grid-bucket.ts'
import type { GridFileDocument } from '../../contract/schemas/grid-file.ts'
import { inBlocks } from './in-blocks.ts'
import { parseImportId, type StagedFile, type StagedWriter, type Staging } from './staging.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'

/** Bytes of a file that are buffered before they are sent. */
const sendBytes = binaryMegabyte

/** Staging in the database, for processes that share no folder. */
export function gridStaging(bucket: GridBucket): Staging {
  const create = (name: string) => createGridFile(bucket, { filename: name, import_id: parseImportId(name) })
  const removeFiles = async (filter: Filter<GridFileDocument>) => {
    const entries = await bucket.files.find(filter, { projection: { _id: 1 } }).toArray()
    for (const { _id } of entries) await removeGridFile(bucket, _id)
  }
  return {
    async write(name, content) {
      const file = await create(`${name}.part`)
      try {
        let length = 0
        for await (const block of inBlocks(content, sendBytes))
          length = await appendToGridFile(bucket, file, length, [block])
        const before = await bucket.files.find({ filename: name }, { projection: { _id: 1 } }).toArray()
        await bucket.files.updateOne({ _id: file }, { $set: { filename: name, length } })
        for (const { _id } of before) await removeGridFile(bucket, _id)
        return length
      } catch (error) {
        // Without the database it stays under its `.part` name, which is never opened, until its import is finalized.
        await removeGridFile(bucket, file).catch(() => undefined)
        throw error
      }
    },
    async create(name) {
      return new GridWriter(bucket, await create(name))
    },
    async open(name) {
      const entry = await bucket.files.find({ filename: name }).sort({ _id: -1 }).limit(1).next()
      if (entry === null) return null
      return gridFile(bucket, entry._id, entry.length ?? (await gridFileSize(bucket, entry._id)))
    },
    remove: (name) => removeFiles({ filename: name }),
    removeImport: (importId, { keep = [] } = {}) =>
      removeFiles({ import_id: importId, filename: { $nin: keep } }),
    async listImports({ olderThanMs }) {
      const before = { $subtract: ['$$NOW', olderThanMs] }
      const old = await bucket.files
        .aggregate<{ _id: number }>([
          { $group: { _id: '$import_id', youngest: { $max: '$uploadDate' } } },
          { $match: { $expr: { $lt: ['$youngest', before] } } },
        ])
        .toArray()
      return old.map(({ _id }) => _id)
    },
    async size() {
      // A file that is being written has no length yet.
      const [sum] = await bucket.files
        .aggregate<{ bytes: number }>([{ $group: { _id: null, bytes: { $sum: '$length' } } }])
        .toArray()
      return sum?.bytes ?? 0
    },
    sweep: () => removeStrayPieces(bucket),
    // The files are on the disk of the database, which has its own monitoring.
    spaceProblem: () => Promise.resolve(null),
  }
}

export const gridFile = (bucket: GridBucket, file: ObjectId, size: number): StagedFile => ({
  size,
  read: (target, position) => readGridFile(bucket, file, target, position),
  close: () => Promise.resolve(),
})

class GridWriter implements StagedWriter {
  readonly #bucket: GridBucket
  readonly #file: ObjectId
  #end = 0

  constructor(bucket: GridBucket, file: ObjectId) {
    this.#bucket = bucket
    this.#file = file
  }

  async append(buffers: Uint8Array[]): Promise<void> {
    this.#end = await appendToGridFile(this.#bucket, this.#file, this.#end, buffers)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
