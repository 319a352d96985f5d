import type { ClientSession, MongoClient } from 'mongodb'
import { isNetworkError } from './driver-errors.ts'

const blockSize = 32
/** With fewer free sessions the pool grows in the background, so that requests rarely wait for it. */
const minFree = 8

/**
 * Pool of the sessions for transactions of requests and uploads. A session is registered before its first transaction,
 * so that other processes can end the transactions of a dead process. One write registers a block of sessions. The pool
 * grows to the number of concurrent transactions.
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

  /** Logical session ids, including those whose registration isn't written yet. */
  get ids(): Uint8Array[] {
    return [...this.#all].map(sessionId)
  }

  /**
   * From now on a session is used only after its id was in `ids` and a `saveIds` that began after that has resolved.
   */
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
      // The server may still execute the session's last command, and the next one would wait for it.
      if (isNetworkError(error)) await this.#remove(session)
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
    // With causal consistency a new primary would wait for the cluster time of writes that were lost with the old one.
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

/** The driver's id is a BSON document with the bytes. */
export const sessionId = (session: ClientSession): Uint8Array => session.id!.id as unknown as Uint8Array
