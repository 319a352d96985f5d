import type { ObjectId } from 'mongodb'
import { toError } from '../../contract/errors.ts'
import { appendToGridFile } from '../gridfs/grid-bucket.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import { dropUnfinished, removeNameless } from './grid-contents.ts'
import type { UploadInProgress } from './upload-store.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'

/** Bytes that are buffered before they are sent, because many clients send a few bytes at a time. */
const sendBytes = binaryMegabyte
/** Buffered bytes are sent after this time at the latest. */
const sendAfterMs = 250

interface GridUploadOptions {
  collections: Collections
  /** `_id` of the document of the name. */
  nameId: string
  token: string
  content: ObjectId
  size: number
  isCopy: boolean
}

/** The content of an upload in the database. It is published only while the document of its name has its token. */
export class GridUpload implements UploadInProgress {
  size: number
  isCopy: boolean
  readonly #options: GridUploadOptions
  /** End of the bytes that are in the database. */
  #end: number
  #buffers: Buffer[] = []
  #bufferedBytes = 0
  #timer: NodeJS.Timeout | null = null
  /** The last write. Writes of one upload are sequential. */
  #sending: Promise<void> = Promise.resolve()
  #failure: Error | null = null

  constructor(options: GridUploadOptions) {
    this.#options = options
    this.size = this.#end = options.size
    this.isCopy = options.isCopy
  }

  async write(piece: Uint8Array): Promise<void> {
    this.#buffers.push(Buffer.from(piece))
    this.#bufferedBytes += piece.length
    this.size += piece.length
    this.isCopy = false
    if (this.#bufferedBytes >= sendBytes) {
      // One write is in flight while the next one is buffered.
      await this.#sending
      this.#send()
    } else {
      this.#timer ??= setTimeout(() => this.#send(), sendAfterMs)
    }
    this.#throwFailure()
  }

  async sync(): Promise<void> {
    this.#send()
    await this.#sending
    this.#throwFailure()
  }

  async prepare(): Promise<void> {
    await this.sync()
    const { collections, content } = this.#options
    try {
      await collections.uploads.files.updateOne({ _id: content }, { $set: { length: this.#end } })
    } catch (error) {
      this.#failure = toError(error)
      throw error
    }
  }

  async publish(): Promise<boolean> {
    const { collections, nameId, token, content } = this.#options
    const before = await collections.uploadNames.findOneAndUpdate(
      { _id: nameId, 'unfinished.token': token, 'unfinished.content': content.toHexString() },
      [
        {
          $set: {
            finished: { content: content.toHexString(), size: this.#end, modified_at: '$$NOW' },
            unfinished: null,
          },
        },
      ],
    )
    if (before === null) return false
    this.isCopy = false
    if (before.finished !== null) await removeNameless(collections, before.finished.content)
    return true
  }

  async close(): Promise<boolean> {
    this.#send()
    await this.#sending
    if (this.#failure !== null) return false
    const { collections, nameId, token } = this.#options
    return collections.uploadNames
      .updateOne({ _id: nameId, 'unfinished.token': token }, [{ $set: { 'unfinished.touched_at': '$$NOW' } }])
      .then(
        () => true,
        () => false,
      )
  }

  async discard(): Promise<void> {
    await dropUnfinished(this.#options.collections, this.#options.nameId, this.#options.token)
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#bufferedBytes === 0) return
    const bytes = Buffer.concat(this.#buffers)
    this.#buffers = []
    this.#bufferedBytes = 0
    const { collections, content } = this.#options
    this.#sending = this.#sending.then(async () => {
      if (this.#failure !== null) return
      try {
        this.#end = await appendToGridFile(collections.uploads, content, this.#end, [bytes])
      } catch (error) {
        this.#failure = toError(error)
      }
    })
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure
  }
}
