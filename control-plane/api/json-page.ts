import type { FindCursor } from 'mongodb'
import { decimalMegabyte } from '../../shared/values/byte-sizes.ts'
import type { RequestCall } from './endpoint.ts'

/**
 * Pages of records that may be large. A page ends early where it would exceed `maxPageBytes` of JSON, and its token
 * continues there. Records become JSON as the database sends them, so a request has only one batch of documents and its
 * page in memory. 500 subscribers with 4,000 fields were a reply of 244 MB, and six at once took 2.8 GB; now 24 at once take
 * 7 to 12 s and 517 MB, and other requests 2.0 s at most. Whole lists aren't streamed: a cursor would stay open for the
 * slowest client, and every client would get hundreds of MB.
 */

export const maxPageBytes = 8 * decimalMegabyte
/** A larger reply needs a slot. */
export const largeBytes = 256 * 1024
/** A page becomes JSON in batches of so much, so that other requests wait for no more in a round of the event loop. */
export const pieceBytes = 64 * 1024
/** Records that are converted first, while their size is unknown. */
const firstBatchSize = 8

/** The part of a call that reading a page needs. */
export type PageCall = Pick<RequestCall, 'deps' | 'caller' | 'acquireLargeReply' | 'clientGone'>

/** The records of a reply, each already converted to JSON. */
export class JsonRecords {
  readonly texts: readonly string[]

  constructor(texts: readonly string[]) {
    this.texts = texts
  }
}

interface PageReaderOptions<T> {
  call: PageCall
  /** Records on a page. */
  max: number
  /** Converts documents to the records of the reply, in the same order. */
  views: (documents: T[]) => readonly object[] | Promise<readonly object[]>
}

/** Reads one page, from one cursor or from several that follow each other. */
export class PageReader<T extends object> {
  readonly #options: PageReaderOptions<T>
  readonly #texts: string[] = []
  #bytes = 0
  #lastShown: T | null = null
  #hasMore = false

  constructor(options: PageReaderOptions<T>) {
    this.#options = options
  }

  get data(): JsonRecords {
    return new JsonRecords(this.#texts)
  }

  get count(): number {
    return this.#texts.length
  }

  /** The page's last record if more records follow, else null. */
  get last(): T | null {
    return this.#hasMore ? this.#lastShown : null
  }

  get hasMore(): boolean {
    return this.#hasMore
  }

  /** Limit for a cursor: one document more than the page still needs, which shows that more follow. */
  get limit(): number {
    return this.#options.max - this.#texts.length + 1
  }

  /**
   * Appends the cursor's records until the page is full, one batch at a time. Other requests are served between two
   * batches, and little is read beyond the page's end. Throws 429 and 503 as Slots does.
   */
  async read(cursor: FindCursor<T>): Promise<void> {
    const { clientGone } = this.#options.call
    try {
      while (!this.#hasMore && !clientGone.aborted && (await hasNext(cursor))) {
        const missing = this.#options.max - this.#texts.length
        if (missing === 0) this.#hasMore = true
        else await this.#appendBatch(cursor.readBufferedDocuments(Math.min(this.#batchSize(), missing)))
        if (this.#bytes > largeBytes) await this.#pause()
      }
    } finally {
      await cursor.close()
    }
  }

  async #pause(): Promise<void> {
    const { acquireLargeReply, deps } = this.#options.call
    await acquireLargeReply()
    await deps.pacer.nextPiece()
  }

  #batchSize(): number {
    const average = this.#bytes / this.#texts.length
    return this.#texts.length === 0 ? firstBatchSize : Math.max(1, Math.floor(pieceBytes / average))
  }

  async #appendBatch(batch: T[]): Promise<void> {
    for (const [index, record] of (await this.#options.views(batch)).entries()) {
      const text = JSON.stringify(record)
      this.#bytes += Buffer.byteLength(text) + 1
      if (this.#bytes > maxPageBytes && this.#texts.length > 0) {
        this.#hasMore = true
        return
      }
      this.#texts.push(text)
      this.#lastShown = batch[index] ?? null
    }
  }
}

/** Queries the database only when its last batch has been read. */
const hasNext = <T>(cursor: FindCursor<T>): boolean | Promise<boolean> =>
  cursor.bufferedCount() > 0 || cursor.hasNext()
