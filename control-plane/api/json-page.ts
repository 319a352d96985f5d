import type { FindCursor } from 'mongodb'
import type { Call } from './endpoint.ts'
import { nextPiece, pieceBytes } from './pieces.ts'

/**
 * Pages of records that may be large. A page ends early where it would pass `maxPageBytes` of JSON, and its token leads
 * on. Records become JSON as the database sends them, so a request holds one batch of documents and its page.
 */

export const maxPageBytes = 8_000_000
/** A larger reply needs a turn, and is written in pieces as the client takes them. */
export const largeBytes = 256 * 1024
/** Records whose size is not known yet. */
const firstGroup = 8

/** The part of a call that reading a page needs. */
export type PageCall = Pick<Call<unknown, unknown>, 'deps' | 'caller' | 'acquireLargeReply' | 'clientGone'>

/** The records of a reply, each written as JSON already. */
export class JsonRecords {
  readonly texts: readonly string[]

  constructor(texts: readonly string[]) {
    this.texts = texts
  }

  /** The array as JSON, in parts. */
  *jsonTexts(): Iterable<string> {
    let before = '['
    for (const text of this.texts) {
      yield before + text
      before = ','
    }
    yield before === '[' ? '[]' : ']'
  }
}

export interface PageReaderOptions<T> {
  call: PageCall
  /** Records on a page. */
  max: number
  /** The records as they are shown, in the order of the documents. */
  views: (documents: T[]) => readonly object[] | Promise<readonly object[]>
  maxBytes?: number
}

/** Reads one page, from one cursor or from several that follow each other. */
export class PageReader<T extends object> {
  readonly #options: PageReaderOptions<T>
  readonly #clientGone: AbortSignal
  readonly #texts: string[] = []
  #bytes = 0
  #lastShown: T | null = null
  #hasMore = false

  constructor(options: PageReaderOptions<T>) {
    this.#options = options
    this.#clientGone = options.call.clientGone
  }

  get data(): JsonRecords {
    return new JsonRecords(this.#texts)
  }

  get count(): number {
    return this.#texts.length
  }

  /** The last record of the page where more follow, else null. */
  get last(): T | null {
    return this.#hasMore ? this.#lastShown : null
  }

  get hasMore(): boolean {
    return this.#hasMore
  }

  /** How many documents a cursor may give: one more than are missing, which says that more follow. */
  get limit(): number {
    return this.#options.max - this.#texts.length + 1
  }

  /**
   * Appends what the cursor gives until the page is full, a piece at a time: others are served between two, and what
   * would be too much is hardly begun. Throws 429 and 503 as FairSemaphore does.
   */
  async read(cursor: FindCursor<T>): Promise<void> {
    try {
      while (!this.#hasMore && !this.#clientGone.aborted && (await hasNext(cursor))) {
        const missing = this.#options.max - this.#texts.length
        if (missing === 0) this.#hasMore = true
        else await this.#appendGroup(cursor.readBufferedDocuments(Math.min(this.#groupSize(), missing)))
        if (this.#bytes > largeBytes) await this.#pause()
      }
    } finally {
      await cursor.close()
    }
  }

  async #pause(): Promise<void> {
    await this.#options.call.acquireLargeReply(maxPageBytes)
    await nextPiece()
  }

  #groupSize(): number {
    const average = this.#bytes / this.#texts.length
    return this.#texts.length === 0 ? firstGroup : Math.max(1, Math.floor(pieceBytes / average))
  }

  async #appendGroup(group: T[]): Promise<void> {
    const { views, maxBytes = maxPageBytes } = this.#options
    for (const [index, record] of (await views(group)).entries()) {
      const text = JSON.stringify(record)
      this.#bytes += Buffer.byteLength(text) + 1
      if (this.#bytes > maxBytes && this.#texts.length > 0) {
        this.#hasMore = true
        return
      }
      this.#texts.push(text)
      this.#lastShown = group[index]!
    }
  }
}

/** Asks the database only when all that it sent has been read. */
const hasNext = <T>(cursor: FindCursor<T>): boolean | Promise<boolean> =>
  cursor.bufferedCount() > 0 || cursor.hasNext()
