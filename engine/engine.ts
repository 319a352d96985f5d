import { setTimeout as sleep } from 'node:timers/promises'
import { errorMessage } from '../shared/contract/errors.ts'
import type { Part } from '../shared/runtime/service.ts'
import { within } from '../shared/runtime/within.ts'
import { heartbeatMs, leaseMs, renewLease } from '../shared/store/leases.ts'
import { beginRegistration, type EngineOptions, type EngineRegistration } from './registration.ts'
import { unregister } from './runner/take-over.ts'
import type { WorkerPool } from './workers/pool.ts'

/**
 * A stop waits this time for a registration in progress, again for the threads to end, and again for the release of
 * what they left.
 */
const graceMs = 1_500

/**
 * An engine among the others. It registers under a new id, renews its lease, and works. Others take it for dead when it
 * was suspended or cut off from the database for too long. It then drops all its work and registers under another id.
 */
export class Engine implements Part {
  readonly #options: EngineOptions
  #registration: EngineRegistration | null = null
  /** The new registration in progress, if any. */
  #reregistration: Promise<void> = Promise.resolve()
  #isStopping = false
  /** Worker pools that were told to end and haven't yet, as when a thread hangs in a read. */
  #hungPools = 0
  #stopped: Promise<void> | null = null

  constructor(options: EngineOptions) {
    this.#options = options
    const { folder, metrics } = options
    folder.onChange((problem) => {
      if (problem === null) this.#registration?.wake()
      else void this.#registration?.imports.abortAll()
    })
    metrics.registration = () => this.#registration
  }

  get hangs(): boolean {
    return this.#hungPools > 0
  }

  /** Why the engine isn't ready: it leaves imports to other engines. Null while it is ready. */
  get problem(): string | null {
    return this.#registration?.imports.problem ?? null
  }

  async start(): Promise<void> {
    this.#registration = await beginRegistration(this.#options)
    void this.#beat()
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  /** Renews the lease until the engine stops. A renewal that finds no document registers the engine again. */
  async #beat(): Promise<void> {
    while (!this.#isStopping) {
      await sleep(heartbeatMs, undefined, { ref: false })
      try {
        if (this.#isStopping || this.#registration === null || (await this.#renew(this.#registration)))
          continue
        await this.#reregister(this.#registration)
      } catch (error) {
        this.#options.log.warn(`the engine's lease couldn't be renewed, trying again: ${errorMessage(error)}`)
      }
    }
  }

  async #renew({ id }: EngineRegistration): Promise<boolean> {
    const { database, folder, metrics } = this.#options
    try {
      const isAlive = await renewLease(database, 'engines', {
        _id: id,
        sees_files: folder.problem === null,
      })
      metrics.leaseRenewal('ok')
      return isAlive
    } catch (error) {
      metrics.leaseRenewal('failed')
      throw error
    }
  }

  async #reregister(dead: EngineRegistration): Promise<void> {
    const { metrics, log } = this.#options
    log.error(
      `this engine's lease of ${leaseMs / 1000} s expired, and other engines marked it as dead; it registers under a new id`,
    )
    metrics.leaseLost()
    await Promise.all([dead.stop({ isDead: true }), this.#endThreads(dead.pool)])
    if (this.#isStopping) return
    this.#reregistration = beginRegistration(this.#options).then(
      (registration) => void (this.#registration = registration),
    )
    await this.#reregistration
  }

  /** Waits `graceMs` at most: a thread that hangs in a read ends only when the read does. */
  async #endThreads(pool: WorkerPool): Promise<void> {
    this.#hungPools += 1
    const ended = pool.destroy().finally(() => (this.#hungPools -= 1))
    await within(graceMs, ended, undefined)
  }

  async #end(): Promise<void> {
    const { database, log } = this.#options
    this.#isStopping = true
    // With the database away a registration may take long; an unfinished one has no chunks or steps to release.
    await within(
      graceMs,
      this.#reregistration.catch(() => undefined),
      undefined,
    )
    const registration = this.#registration
    if (registration === null) return
    await registration.stop({ isDead: false })
    await this.#endThreads(registration.pool)
    // What didn't end in time is released as if this engine had died, only sooner. The database may be away.
    const released = unregister(database, registration.id, log).then(() => null, errorMessage)
    const problem = await within(graceMs, released, `the database gave no answer within ${graceMs / 1000} s`)
    if (problem !== null)
      log.warn(
        `chunks and steps of this engine couldn't be released; other engines take them over in ${leaseMs / 1000} s: ${problem}`,
      )
  }
}
