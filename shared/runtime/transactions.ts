import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession, MongoClient } from 'mongodb'
import { BusyError } from '../contract/errors.ts'
import { clock } from './clock.ts'
import { isAbortedTransaction, isNetworkError } from './driver-errors.ts'

/**
 * A request whose writes conflict with others is retried for this time, and so is one that waits for quota which imports
 * have reserved. Then its client is told to try again. The driver would retry for two minutes, which is longer than
 * clients and proxies wait.
 */
export const conflictTimeoutMs = 20_000

/**
 * Runs `work` in a transaction with snapshot reads and a majority commit, for requests and uploads. The driver repeats
 * it after a write conflict, until `deadline` (by clock.monotonicMs); then it throws a BusyError. Batches of engines
 * have their own retry loop (engine/stages/write/transaction.ts).
 */
export async function inTransaction<T>(
  { sessions }: { sessions: SessionPool },
  work: (session: ClientSession) => Promise<T>,
  deadline = clock.monotonicMs() + conflictTimeoutMs,
): Promise<T> {
  const session = await sessions.acquire()
  try {
    const result = await runInTransaction(session, async () => {
      if (clock.monotonicMs() > deadline) throw busyError()
      return work(session)
    })
    await sessions.release(session)
    return result
  } catch (error) {
    await sessions.release(session, error)
    throw error
  }
}

const busyError = (): BusyError =>
  new BusyError(
    'too many requests write the same records at once, and nothing of this request was written: try again in a moment',
    { retryAfter: 1 },
  )

/**
 * Runs `work` in a transaction of `session`, with snapshot reads and a majority commit. The driver repeats it after a
 * write conflict, for up to two minutes.
 */
export function runInTransaction<T>(
  session: ClientSession,
  work: (session: ClientSession) => Promise<T>,
): Promise<T> {
  return session.withTransaction(() => work(session), {
    readConcern: { level: 'snapshot' },
    writeConcern: { w: 'majority' },
  })
}

const conflictPauseMs = 20

/**
 * Runs `work` in a transaction whose attempts and whose commit have this time. Then it throws the write conflict, or a
 * MongoWriteConcernError where no majority has the commit; the primary may keep what it committed. `work` reads what it
 * depends on, so that a repeated call finds what an earlier one has done.
 */
export async function inShortTransaction<T>(
  { sessions }: { sessions: SessionPool },
  work: (session: ClientSession) => Promise<T>,
  { timeoutMs }: { timeoutMs: number },
): Promise<T> {
  const session = await sessions.acquire()
  const deadline = clock.monotonicMs() + timeoutMs
  for (;;) {
    try {
      session.startTransaction({
        readConcern: { level: 'snapshot' },
        writeConcern: { w: 'majority', wtimeoutMS: timeoutMs },
      })
      const result = await work(session)
      await session.commitTransaction()
      await sessions.release(session)
      return result
    } catch (error) {
      await session.abortTransaction().catch(() => undefined)
      if (isAbortedTransaction(error) && clock.monotonicMs() < deadline) await sleep(conflictPauseMs)
      else {
        await sessions.release(session, error)
        throw error
      }
    }
  }
}

const batchSize = 32
/** With fewer free sessions the pool grows in the background, so that requests rarely wait for it. */
const minFree = 8

/**
 * Pool of the sessions for transactions of requests and uploads. A session is registered before its first transaction,
 * so that other processes can end the transactions of a dead process. One write registers a batch of sessions. The pool
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

  /** A session that nothing else uses until it is released. Throws the error of the write that registers more. */
  async acquire(): Promise<ClientSession> {
    for (;;) {
      const session = this.#free.pop()
      if (this.#free.length < minFree) void this.#grow().catch(() => undefined)
      if (session !== undefined) return session
      await this.#growth
    }
  }

  /** With the error that ended the work: after a lost connection the session isn't used again. */
  async release(session: ClientSession, error?: unknown): Promise<void> {
    // The server may still execute the session's last command, and the next one would wait for it.
    if (isNetworkError(error)) await this.#remove(session)
    else this.#free.push(session)
  }

  #grow(): Promise<void> {
    this.#growth ??= this.#add().finally(() => (this.#growth = null))
    return this.#growth
  }

  async #add(): Promise<void> {
    // With causal consistency a new primary would wait for the cluster time of writes that were lost with the old one.
    const added = Array.from({ length: batchSize }, () =>
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
