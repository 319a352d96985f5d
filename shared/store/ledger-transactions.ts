import type { ClientSession } from 'mongodb'
import type { Database } from '../runtime/database.ts'
import { inTransaction } from '../runtime/transactions.ts'
import { makeLedger } from './ledger.ts'

/** Changes in one transaction. */
const maxBatch = 50

interface Change {
  run(session: ClientSession): Promise<void>
  /** In a transaction of its own. */
  runAlone(): Promise<void>
  finish(): void
}

/**
 * Group commit. All changes of an organization write its ledger, so parallel transactions would conflict. While one is
 * in flight, further changes of this process wait, and then share the next one. Where a batch fails, each of its changes
 * runs alone; so one that is refused costs the others a second run.
 */
export class LedgerTransactions {
  readonly #database: Pick<Database, 'sessions' | 'collections'>
  readonly #queues = new Map<number, Change[]>()
  /** Organizations that have a ledger. */
  readonly #known = new Set<number>()

  constructor(database: Pick<Database, 'sessions' | 'collections'>) {
    this.#database = database
  }

  /** `work` may run several times. What it throws undoes it. */
  change<T>(organizationId: number, work: (session: ClientSession) => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    let result: { value: T } | { error: unknown }
    this.#enqueue(organizationId, {
      run: async (session) => {
        result = { value: await work(session) }
      },
      runAlone: async () => {
        try {
          await this.#makeLedger(organizationId)
          result = { value: await inTransaction(this.#database, work) }
        } catch (error) {
          result = { error }
        }
      },
      finish: () => {
        if ('value' in result) resolve(result.value)
        else reject(result.error)
      },
    })
    return promise
  }

  #enqueue(organizationId: number, change: Change): void {
    const queue = this.#queues.get(organizationId)
    if (queue !== undefined) {
      queue.push(change)
      return
    }
    const first = [change]
    this.#queues.set(organizationId, first)
    void this.#run(organizationId, first)
  }

  async #run(organizationId: number, queue: Change[]): Promise<void> {
    while (queue.length > 0) {
      const batch = queue.splice(0, maxBatch)
      if (batch.length === 1 || !(await this.#runTogether(organizationId, batch)))
        for (const change of batch) await change.runAlone()
      for (const change of batch) change.finish()
    }
    this.#queues.delete(organizationId)
  }

  async #runTogether(organizationId: number, batch: Change[]): Promise<boolean> {
    try {
      await this.#makeLedger(organizationId)
      await inTransaction(this.#database, async (session) => {
        for (const change of batch) await change.run(session)
      })
      return true
    } catch {
      return false
    }
  }

  async #makeLedger(organizationId: number): Promise<void> {
    if (this.#known.has(organizationId)) return
    await makeLedger(this.#database.collections, organizationId)
    this.#known.add(organizationId)
  }
}
