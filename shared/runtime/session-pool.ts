import { MongoNetworkError, type ClientSession, type MongoClient } from 'mongodb'

const blockSize = 32
/** With fewer free sessions the pool grows beside the requests, which hardly ever wait for it. */
const minFree = 8

/**
 * The sessions in which requests and uploads have transactions. A session is registered before its first one, so that
 * others can end the transactions of a process that died. One write registers a block of sessions; the pool grows to
 * the number of transactions in progress at once.
 */
export class SessionPool {
  readonly #client: MongoClient
  readonly #all = new Set<ClientSession>()
  readonly #free: ClientSession[] = []
  #growth: Promise<void> | null = null
  #saveIds: (() => Promise<void>) | null = null

  constructor(client: MongoClient) {
    this.#client = client
  }

  /** Logical session ids, those that are being registered included. */
  get ids(): Uint8Array[] {
    return [...this.#all].map(idOf)
  }

  /** From now on no session is used before a `saveIds` that began after it was among `ids` has resolved. */
  async register(saveIds: () => Promise<void>): Promise<void> {
    this.#saveIds = saveIds
    await Promise.all(this.#free.splice(0).map((session) => this.#remove(session)))
    await this.#grow()
  }

  /** Throws what `work` throws, or the error of the write that registers more sessions. */
  async run<T>(work: (session: ClientSession) => Promise<T>): Promise<T> {
    const session = await this.#acquire()
    try {
      const result = await work(session)
      this.#free.push(session)
      return result
    } catch (error) {
      // The server may still be at its last command, for which the next one would wait.
      if (error instanceof MongoNetworkError) await this.#remove(session)
      else this.#free.push(session)
      throw error
    }
  }

  async #acquire(): Promise<ClientSession> {
    for (;;) {
      const session = this.#free.pop()
      if (this.#free.length < minFree) void this.#grow().catch(() => undefined)
      if (session !== undefined) return session
      await this.#growth
    }
  }

  #grow(): Promise<void> {
    this.#growth ??= this.#add().finally(() => (this.#growth = null))
    return this.#growth
  }

  async #add(): Promise<void> {
    // Causal consistency would make a new primary wait for the time of writes that were lost with the old one.
    const added = Array.from({ length: blockSize }, () =>
      this.#client.startSession({ causalConsistency: false }),
    )
    for (const session of added) this.#all.add(session)
    try {
      await this.#saveIds?.()
    } catch (error) {
      await Promise.all(added.map((session) => this.#remove(session)))
      throw error
    }
    this.#free.push(...added)
  }

  async #remove(session: ClientSession): Promise<void> {
    this.#all.delete(session)
    await session.endSession()
  }
}

/** The driver's id is a BSON document around the bytes. */
export const idOf = (session: ClientSession): Uint8Array => session.id!.id as unknown as Uint8Array
