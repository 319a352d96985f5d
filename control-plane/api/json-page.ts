import type { FindCursor } from 'mongodb'
import type { Call } from './endpoint.ts'
import { OrganizationTurns, refusalDelayMs } from './organization-turns.ts'

/**
 * Pages of records that may be large. A page ends early where it would pass `maxPageBytes` of JSON, and its token leads
 * on. Records become JSON batch by batch as the database sends them, so a request holds one batch and its page.
 */

export const maxPageBytes = 8_000_000
/** From here on a reply is large: it needs a turn. */
const largeBytes = 256 * 1024
/** A reply that its client takes slowly keeps its turn for so long; what is left of it then is its bytes alone. */
const maxTurnMs = 30_000

/** The part of a call that reading a page needs. */
export type PageCall = Pick<Call<unknown, unknown>, 'deps' | 'caller' | 'onClose' | 'clientGone'>

/** The records of a reply, each written as JSON already. */
export class JsonRecords {
  readonly texts: readonly string[]

  constructor(texts: readonly string[]) {
    this.texts = texts
  }
}

const turns = new OrganizationTurns({
  maxRunning: 8,
  maxRunningPerOrganization: 4,
  maxWaitingPerOrganization: 50,
  tooMany: {
    message: 'too many large replies of this organization are in progress, try again in 5 s',
    retryAfterSeconds: 5,
    delayMs: refusalDelayMs,
  },
  stoppingMessage: 'the service is stopping and read nothing: try again',
})

export interface PageReaderOptions<T> {
  call: PageCall
  /** Records on a page. */
  most: number
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
  #hasTurn = false
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
    return this.#options.most - this.#texts.length + 1
  }

  /** Appends what the cursor gives until the page is full. Throws 429 and 503 as OrganizationTurns does. */
  async read(cursor: FindCursor<T>): Promise<void> {
    try {
      while (!this.#hasMore && !this.#clientGone.aborted && (await cursor.hasNext()))
        await this.#append(cursor.readBufferedDocuments())
    } finally {
      await cursor.close()
    }
  }

  async #append(documents: T[]): Promise<void> {
    const { most, views, maxBytes = maxPageBytes } = this.#options
    const shown = documents.slice(0, most - this.#texts.length)
    const records = shown.length === 0 ? [] : await views(shown)
    for (const [index, record] of records.entries()) {
      const text = JSON.stringify(record)
      this.#bytes += Buffer.byteLength(text) + 1
      if (this.#bytes > maxBytes && this.#texts.length > 0) {
        this.#hasMore = true
        return
      }
      this.#texts.push(text)
      this.#lastShown = shown[index]!
    }
    this.#hasMore = documents.length > shown.length
    if (this.#bytes > largeBytes && !this.#hasTurn) {
      this.#hasTurn = true
      await beginTurn(this.#options.call, this.#clientGone)
    }
  }
}

/** Resolves when the reply's turn has come; the turn ends with the reply. */
function beginTurn({ deps, caller, onClose }: PageCall, clientGone: AbortSignal): Promise<void> {
  const { organizationId } = caller
  return new Promise((resolve, reject) => {
    const untilClosed = () => {
      resolve()
      return new Promise<void>((end) => {
        setTimeout(end, maxTurnMs).unref()
        onClose(end)
      })
    }
    turns.run({ organizationId, stopping: deps.stopping, clientGone }, untilClosed).catch(reject)
  })
}
