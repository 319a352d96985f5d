import { ObjectId, type Collection } from 'mongodb'
import { toError } from '../../contract/errors.ts'
import type { BlobPieceDocument } from '../../contract/schemas/upload.ts'
import { blobAgeIndex } from '../../contract/schemas/collections.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'
import type { Blobs, BlobWriter } from './blobs.ts'

type Pieces = Collection<BlobPieceDocument>
type NewPiece = Pick<BlobPieceDocument, 'n' | 'end' | 'data'>

/** Maximum size of a piece. */
const maxPieceBytes = 256 * 1024
/** Maximum bytes of one insert command, which must end long before its socket times out. */
const maxInsertBytes = 4 * binaryMegabyte
/** Maximum bytes of one delete command. */
const maxDeleteBytes = 256 * binaryMegabyte
/** Bytes that are buffered before they are sent, because many clients send a few bytes at a time. */
const sendBytes = binaryMegabyte
/** Buffered bytes are sent after this time at the latest. */
const sendAfterMs = 250

/**
 * Blobs in the database, for processes that share no folder: pieces of up to 256 KiB, each with its offset. A unique
 * index on the offsets makes one of two writers fail. All pieces have the time of the first one, by the database's
 * clock: those that a late writer adds after the removal of its blob are found by it.
 */
export function gridBlobs(pieces: Pieces): Blobs {
  const findLast = (blob: string) =>
    pieces
      .find({ blob }, { projection: { end: 1, begun_at: 1 } })
      .sort({ n: -1 })
      .limit(1)
      .next()
  const size = async (blob: string): Promise<number> => (await findLast(blob))?.end ?? 0
  /** Pieces go backwards from the end, so that a removal that breaks off leaves no gap. */
  const removeFrom = async (blob: string, from: number) => {
    const batches = Math.floor(Math.max(0, (await size(blob)) - 1 - from) / maxDeleteBytes)
    for (let batch = batches; batch > 0; batch -= 1)
      await pieces.deleteMany({ blob, n: { $gte: from + batch * maxDeleteBytes } })
    await pieces.deleteMany({ blob, ...(from === 0 ? {} : { n: { $gte: from } }) })
  }
  return {
    size,
    append: async (id, { isNew } = { isNew: false }) =>
      new GridBlobWriter(pieces, id, isNew ? null : await findLast(id)),
    async open(id) {
      const last = await findLast(id)
      if (last === null) return null
      return {
        size: last.end,
        read: (target, position) => readPieces(pieces, id, target, position),
        close: () => Promise.resolve(),
      }
    },
    async truncate(blob, length) {
      const range = { n: { $lt: length, $gt: length - maxPieceBytes }, end: { $gt: length } }
      const cut = await pieces.findOne({ blob, ...range })
      await removeFrom(blob, length)
      if (cut === null) return
      const data = Buffer.from(toBuffer(cut).subarray(0, length - cut.n))
      await pieces.updateOne({ _id: cut._id }, { $set: { end: length, data } })
    },
    remove: (id) => removeFrom(id, 0),
    async *list(prefix, { olderThanMs } = { olderThanMs: 0 }) {
      // `0` follows `/`.
      const blob = { $gte: `${prefix}/`, $lt: `${prefix}0` }
      if (olderThanMs === 0) {
        // Makes one seek a blob.
        yield await pieces.distinct('blob', { blob })
        return
      }
      const isOld = { $lt: ['$begun_at', { $subtract: ['$$NOW', olderThanMs] }] }
      let ids: string[] = []
      let last = ''
      const found = pieces
        .find({ blob, $expr: isOld }, { projection: { _id: 0, blob: 1 } })
        .hint(blobAgeIndex)
        .batchSize(maxListed)
      for await (const { blob: id } of found) {
        // The index has the pieces of a blob one after the other.
        if (id === last) continue
        last = id
        ids.push(id)
        if (ids.length < maxListed) continue
        yield ids
        ids = []
      }
      yield ids
    },
  }
}

/** Ids in one group of `list`. */
const maxListed = 1_000

async function readPieces(
  pieces: Pieces,
  blob: string,
  target: Uint8Array,
  position: number,
): Promise<number> {
  const end = position + target.length
  let read = 0
  // The index finds at most one piece too many, which `end` excludes before it is sent.
  const range = { n: { $gt: position - maxPieceBytes, $lt: end }, end: { $gt: position } }
  const cursor = pieces
    .find({ blob, ...range }, { projection: { _id: 0, n: 1, end: 1, data: 1 } })
    .sort({ n: 1 })
  for await (const piece of cursor) {
    const from = Math.max(piece.n, position)
    if (from !== position + read) throw new Error(`${blob} has a gap before byte ${from}`)
    const bytes = toBuffer(piece).subarray(from - piece.n, end - piece.n)
    target.set(bytes, read)
    read += bytes.length
  }
  return read
}

const toBuffer = ({ data }: Pick<BlobPieceDocument, 'data'>): Buffer =>
  Buffer.from(data.buffer, data.byteOffset, data.length)

class GridBlobWriter implements BlobWriter {
  size: number
  readonly #pieces: Pieces
  readonly #blob: string
  /** End of the bytes that are in the database. */
  #end: number
  #begunAt: Date | null
  #buffers: Buffer[] = []
  #bufferedBytes = 0
  #timer: NodeJS.Timeout | null = null
  /** The last write. Writes of one blob are sequential. */
  #sending: Promise<void> = Promise.resolve()
  #failure: Error | null = null

  constructor(pieces: Pieces, blob: string, last: Pick<BlobPieceDocument, 'end' | 'begun_at'> | null) {
    this.#pieces = pieces
    this.#blob = blob
    this.size = this.#end = last?.end ?? 0
    this.#begunAt = last?.begun_at ?? null
  }

  async append(buffers: Uint8Array[]): Promise<void> {
    for (const buffer of buffers) {
      this.#buffers.push(Buffer.from(buffer))
      this.#bufferedBytes += buffer.length
      this.size += buffer.length
    }
    if (this.#bufferedBytes >= sendBytes) {
      // One write is in flight while the next one is buffered.
      await this.#sending
      this.#send()
    } else {
      this.#timer ??= setTimeout(() => this.#send(), sendAfterMs)
    }
    if (this.#failure !== null) throw this.#failure
  }

  /** Written bytes are durable too, as the database writes with a majority. */
  sync(): Promise<void> {
    return this.flush()
  }

  async flush(): Promise<void> {
    this.#send()
    await this.#sending
    if (this.#failure !== null) throw this.#failure
    // Tells an empty blob from none.
    this.#begunAt ??= await this.#insertFirst({ n: -1, end: 0, data: Buffer.alloc(0) })
  }

  /** False after a write without an answer. */
  async close(): Promise<boolean> {
    this.#send()
    await this.#sending
    return this.#failure === null
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const bytes = Buffer.concat(this.#buffers)
    this.#buffers = []
    this.#bufferedBytes = 0
    if (bytes.length === 0) return
    this.#sending = this.#sending.then(async () => {
      if (this.#failure !== null) return
      try {
        await this.#insert(bytes)
      } catch (error) {
        this.#failure = toError(error)
      }
    })
  }

  async #insert(bytes: Buffer): Promise<void> {
    for (let start = 0; start < bytes.length; start += maxInsertBytes) {
      const sent = bytes.subarray(start, start + maxInsertBytes)
      const pieces: NewPiece[] = []
      for (let at = 0; at < sent.length; at += maxPieceBytes) {
        const data = sent.subarray(at, at + maxPieceBytes)
        const n = this.#end + at
        pieces.push({ n, end: n + data.length, data })
      }
      this.#begunAt ??= await this.#insertFirst(pieces.shift()!)
      const [blob, begun_at] = [this.#blob, this.#begunAt]
      const documents = pieces.map((piece) => ({ _id: new ObjectId(), blob, ...piece, begun_at }))
      if (documents.length > 0) await this.#pieces.insertMany(documents, { ordered: true })
      this.#end += sent.length
    }
  }

  /** Resolves to its time, by the clock of the database. */
  async #insertFirst(piece: NewPiece): Promise<Date> {
    const first = await this.#pieces.findOneAndUpdate(
      { _id: new ObjectId() },
      { $setOnInsert: { blob: this.#blob, ...piece }, $currentDate: { begun_at: true } },
      { upsert: true, returnDocument: 'after', projection: { begun_at: 1 } },
    )
    return first!.begun_at
  }
}
