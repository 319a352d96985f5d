import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AddressGuard } from '../shared/net/address-guard.ts'
import type { Settings } from '../shared/runtime/config.ts'
import type { Database } from '../shared/runtime/database.ts'
import { messageOf } from '../shared/contract/errors.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { SecretBox } from '../shared/runtime/secret-box.ts'
import type { Part } from '../shared/runtime/service.ts'
import { idOf } from '../shared/runtime/session-pool.ts'
import { downloadBounds, type DownloadBounds } from '../shared/net/download-bounds.ts'
import type { MarkedFolder } from '../shared/storage/staging/marked-folder.ts'
import type { Staging } from '../shared/storage/staging/staging.ts'
import { listenForWakeUps } from '../shared/store/wake-up.ts'
import { registerEngine } from './store/engines.ts'
import { heartbeatMs, leaseMs, renewLease } from '../shared/store/leases.ts'
import { StagedQuota, stagedLimits } from '../shared/storage/uploads/staged-quota.ts'
import type { Uploads } from '../shared/storage/uploads/upload-store.ts'
import { within } from '../shared/runtime/within.ts'
import { callbackBounds, type CallbackBounds } from './jobs/callbacks/callback-bounds.ts'
import { CallbackDispatcher } from './jobs/callbacks/callback-dispatcher.ts'
import { Dispatcher, maxStepSessions } from './scheduler/dispatcher.ts'
import { leaveRegister } from './scheduler/take-over.ts'
import type { EngineMetrics } from './metrics.ts'
import { ReactionDispatcher, reactionLanes } from './jobs/reactions/reaction-dispatcher.ts'
import { stepBounds, type StepBounds } from './scheduler/step-progress.ts'
import { lanesPerWorker } from './workers/messages.ts'
import { startWorkerPool, type WorkerPool } from './workers/pool.ts'

export interface EngineOptions {
  settings: Settings
  database: Database & { uri: string }
  folder: MarkedFolder
  staging: Staging
  uploads: Uploads
  secrets: SecretBox
  metrics: EngineMetrics
  log: Logger
  /** By default what the settings allow, and the usual bounds. */
  guard?: AddressGuard
  bounds?: DownloadBounds
  callbackBounds?: CallbackBounds
  stepBounds?: StepBounds
  twoThreadsFrom?: number
}

/** Stripes that one engine number stands for: lanes of its workers, and those of workers that replaced dead ones. */
const stripesPerEngine = 1_024
const handOverMs = 1_500

interface EngineRegistration {
  id: string
  pool: WorkerPool
  dispatcher: Dispatcher
  reactions: ReactionDispatcher
  callbacks: CallbackDispatcher
  ended: AbortController
}

/**
 * An engine among the others. It registers under a new id, renews its lease, and works. When others have taken it for dead,
 * because it was suspended or cut off from the database for long, it drops all its work and registers under another id.
 */
export class Engine implements Part {
  readonly #options: EngineOptions
  #registration: EngineRegistration | null = null
  /** The new registration in progress, if any. */
  #reregistration: Promise<void> = Promise.resolve()
  #stopping = false
  /** Worker threads of a former registration, or of this one after its stop, that hang in reads. */
  #hungPools = 0
  #stopped: Promise<void> | null = null

  constructor(options: EngineOptions) {
    this.#options = options
    const { metrics } = options
    options.folder.onChange((problem) => {
      if (problem === null) this.#registration?.dispatcher.wake()
      else void this.#registration?.dispatcher.stopRunning()
    })
    metrics.utilization = () => this.#registration?.dispatcher.utilization ?? 0
    metrics.lanes = () => this.#registration?.pool.lanes ?? 0
    metrics.steps = () => this.#registration?.dispatcher.steps ?? { download: 0, other: 0 }
    metrics.hung = () => this.#registration?.dispatcher.hung ?? { step: 0, chunk: 0, pin: 0 }
    metrics.stepsWithoutSpace = () => this.#registration?.dispatcher.stepsWithoutSpace ?? 0
    metrics.workers = async () => this.#registration?.pool.stats() ?? []
  }

  get hangs(): boolean {
    return this.#hungPools > 0
  }

  /** Why it isn't ready: it takes no work, or leaves imports to other engines. Null while it is. */
  get problem(): string | null {
    return this.#registration?.dispatcher.problem ?? null
  }

  async start(): Promise<void> {
    this.#registration = await this.#begin()
    void this.#beat()
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  async #begin(): Promise<EngineRegistration> {
    const { settings, database, metrics } = this.#options
    const id = randomUUID()
    const stepSessions = Array.from({ length: maxStepSessions }, () => database.client.startSession())
    const chunkSessions = Array.from({ length: settings.ENGINE_WORKERS * lanesPerWorker + 1 }, () =>
      database.client.startSession(),
    )
    const reactionSessions = Array.from({ length: reactionLanes }, () => database.client.startSession())
    const number = await registerEngine(database, {
      _id: id,
      host: hostname(),
      process_id: process.pid,
      session_ids: [...stepSessions, ...chunkSessions, ...reactionSessions].map(idOf),
      folder: `${hostname()}:${path.resolve(settings.DATA_DIR)}`,
      sees_files: this.#options.folder.problem === null,
    })
    const log = this.#options.log.child({ engine: id.slice(0, 8) })
    const firstStripe = number * stripesPerEngine
    const pool = startWorkerPool({
      workers: settings.ENGINE_WORKERS,
      start: {
        mongodbUri: database.uri,
        mongodbDatabase: settings.MONGODB_DATABASE,
        stagingLocation: {
          STAGING: settings.STAGING,
          DATA_DIR: settings.DATA_DIR,
          DISK_RESERVE_MB: settings.DISK_RESERVE_MB,
        },
        engineId: id,
        firstStripe: firstStripe + 1,
        laneCounter: new SharedArrayBuffer(4),
      },
      onBatch: (report) => {
        metrics.batch(report)
      },
      onSecondHalfEnd: () => {
        dispatcher.wake()
      },
      onError: (error) => {
        log.error({ err: error }, `a worker thread broke off: ${messageOf(error)}`)
      },
    })
    const guard = this.#options.guard ?? new AddressGuard(settings.URL_IMPORT_ALLOW)
    const dispatcher = new Dispatcher({
      ...this.#options,
      engineId: id,
      stepSessions,
      chunkSessions,
      quota: new StagedQuota({
        collections: database.collections,
        uploads: this.#options.uploads,
        limits: stagedLimits(settings),
      }),
      guard,
      bounds: this.#options.bounds ?? downloadBounds,
      stepBounds: this.#options.stepBounds ?? stepBounds,
      stripe: `e${firstStripe}`,
      pool,
      log,
    })
    const reactions = new ReactionDispatcher({
      engineId: id,
      database,
      sessions: reactionSessions,
      metrics,
      log,
    })
    const callbacks = new CallbackDispatcher({
      engineId: id,
      database,
      folder: this.#options.folder,
      secrets: this.#options.secrets,
      guard,
      bounds: this.#options.callbackBounds ?? callbackBounds,
      metrics,
      log,
    })
    const ended = new AbortController()
    dispatcher.start()
    reactions.start()
    callbacks.start()
    const onNotify = (): void => {
      dispatcher.wake()
      reactions.wake()
      callbacks.wake()
    }
    void listenForWakeUps(database.collections, onNotify, ended.signal)
    log.info({ number, workers: settings.ENGINE_WORKERS, lanes: pool.lanes }, 'engine is at work')
    return { id, pool, dispatcher, reactions, callbacks, ended }
  }

  /** Renews the lease until the engine stops. A renewal that finds no document registers the engine anew. */
  async #beat(): Promise<void> {
    const { metrics, log } = this.#options
    while (!this.#stopping) {
      await sleep(heartbeatMs, undefined, { ref: false })
      try {
        if (this.#stopping || this.#registration === null || (await this.#renew(this.#registration))) continue
        log.error(
          `the lease of ${leaseMs / 1000} s ran out and the others took this engine for dead: it starts anew`,
        )
        metrics.leaseLost()
        const dead = this.#registration
        dead.ended.abort()
        await Promise.all([
          dead.dispatcher.stopDead(),
          dead.reactions.stop(),
          dead.callbacks.stop(),
          this.#endThreads(dead.pool),
        ])
        if (this.#stopping) return
        this.#reregistration = this.#begin().then((registration) => void (this.#registration = registration))
        await this.#reregistration
      } catch (error) {
        log.warn(`the engine's lease couldn't be renewed, trying again: ${messageOf(error)}`)
      }
    }
  }

  /** A thread that hangs in a read ends when the read does, and isn't waited for. */
  async #endThreads(pool: WorkerPool): Promise<void> {
    this.#hungPools += 1
    const ended = pool.destroy().finally(() => (this.#hungPools -= 1))
    await within(handOverMs, ended, undefined)
  }

  async #renew({ id, dispatcher }: EngineRegistration): Promise<boolean> {
    const { database, folder, metrics } = this.#options
    try {
      const isAlive = await renewLease(database.db, 'engines', {
        _id: id,
        // A missed file doesn't count. Otherwise an engine with a wrong folder would be the only one that sees its files,
        // and could fail imports whose files this engine can read.
        sees_files: folder.problem === null && dispatcher.hangProblem === null,
      })
      metrics.leaseRenewal('ok')
      return isAlive
    } catch (error) {
      metrics.leaseRenewal('failed')
      throw error
    }
  }

  async #end(): Promise<void> {
    this.#stopping = true
    // With the database away it may take long, and then there is nothing yet to be handed back.
    const tooLong = sleep(handOverMs, undefined, { ref: false })
    await Promise.race([this.#reregistration.catch(() => undefined), tooLong])
    const registration = this.#registration
    if (registration === null) return
    registration.ended.abort()
    await Promise.all([
      registration.dispatcher.stop(),
      registration.reactions.stop(),
      registration.callbacks.stop(),
    ])
    await this.#endThreads(registration.pool)
    // What didn't end in time is handed back as if this engine had died, only sooner; the database may be away.
    const handedOver = leaveRegister(this.#options.database, registration.id, this.#options.log)
    const tooLate = sleep(handOverMs, undefined, { ref: false }).then(() => {
      throw new Error(`the database gave no answer within ${handOverMs / 1000} s`)
    })
    await Promise.race([handedOver, tooLate]).catch((error: unknown) => {
      this.#options.log.warn(
        `what was in hand couldn't be handed back; the others take it over in ${leaseMs / 1000} s: ${messageOf(error)}`,
      )
    })
    handedOver.catch(() => undefined)
  }
}
