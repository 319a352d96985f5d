import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../runtime/database.ts'
import { errorMessage } from '../contract/errors.ts'
import type { Logger } from '../runtime/logger.ts'
import type { ProcessDocument } from '../contract/schemas/registration.ts'
import type { Part } from '../runtime/service.ts'
import { heartbeatMs, leaseMs, register, renewLease, unregister } from '../store/leases.ts'
import { endDeadWithoutEngines } from '../store/processes.ts'
import { KeyedMutex } from '../runtime/keyed-mutex.ts'
import { within } from '../runtime/within.ts'

const unregisterTimeoutMs = 1_000

/**
 * Registers a control plane or an FTP server with a lease and with the sessions of its transactions. Engines end
 * these transactions when the lease expires. Where no engine is alive, control planes do so.
 */
export class ProcessRegistration implements Part {
  readonly #kind: ProcessDocument['kind']
  readonly #database: Database
  readonly #log: Logger
  readonly #stopping = new AbortController()
  #id: string = randomUUID()
  #beating: Promise<void> = Promise.resolve()
  /** One renewal at a time, because an earlier one that commits later would restore an old list of sessions. */
  readonly #renewals = new KeyedMutex<'renewal'>()
  /** Leases of dead engines whose transactions this process has ended. */
  #ended: ReadonlySet<string> = new Set()

  constructor(kind: ProcessDocument['kind'], database: Database, log: Logger) {
    this.#kind = kind
    this.#database = database
    this.#log = log
  }

  /** Resolves when the process is registered. Before that it must not begin transactions. */
  async start(): Promise<this> {
    await this.#register()
    await this.#database.sessions.register(() => this.#renew())
    this.#beating = this.#beat()
    return this
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    // A renewal after the removal would match nothing. Without the database neither of them ends in time.
    const removal = this.#beating.then(() =>
      this.#renewals.runExclusive('renewal', () => unregister(this.#database, this.#id)),
    )
    const problem = await within(
      unregisterTimeoutMs,
      removal.then(() => null, errorMessage),
      `the database gave no answer within ${unregisterTimeoutMs / 1000} s`,
    )
    if (problem !== null)
      this.#log.warn(
        `the registration of this process couldn't be removed; it ends with its lease in ${leaseMs / 1000} s: ${problem}`,
      )
  }

  async #beat(): Promise<void> {
    const { signal } = this.#stopping
    for (;;) {
      await sleep(heartbeatMs, undefined, { signal, ref: false }).catch(() => undefined)
      if (signal.aborted) return
      try {
        await this.#renew()
        if (this.#kind === 'control-plane')
          this.#ended = await endDeadWithoutEngines(this.#database, this.#ended, this.#log)
      } catch (error) {
        this.#log.warn(
          `the lease of this process couldn't be renewed, or those of other processes couldn't be checked; trying again: ${errorMessage(error)}`,
        )
      }
    }
  }

  #register(): Promise<void> {
    const { sessions } = this.#database
    const document = { _id: this.#id, host: hostname(), process_id: process.pid, session_ids: sessions.ids }
    return register(this.#database, 'processes', { ...document, kind: this.#kind })
  }

  #renew(): Promise<void> {
    return this.#renewals.runExclusive('renewal', () => this.#renewNow())
  }

  async #renewNow(): Promise<void> {
    const { sessions } = this.#database
    if (await renewLease(this.#database, 'processes', { _id: this.#id, session_ids: sessions.ids })) return
    if (this.#stopping.signal.aborted) return
    this.#log.warn(
      `the lease of ${leaseMs / 1000} s ran out and other processes ended this process's transactions: it registers again`,
    )
    this.#id = randomUUID()
    await this.#register()
  }
}
