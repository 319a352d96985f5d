import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { AddressGuard } from '../shared/net/address-guard.ts'
import { downloadBounds, type DownloadBounds } from '../shared/net/download-bounds.ts'
import type { Settings } from '../shared/runtime/config.ts'
import type { Database } from '../shared/runtime/database.ts'
import { ownOrigin } from '../shared/runtime/process-end.ts'
import { errorMessage } from '../shared/contract/errors.ts'
import { sessionId } from '../shared/runtime/transactions.ts'
import { within } from '../shared/runtime/within.ts'
import { StagedQuota, stagedLimits } from '../shared/storage/uploads/staged-quota.ts'
import { listenForWakeUps } from '../shared/store/wake-up.ts'
import { callbackBounds, type CallbackBounds } from './stages/callback/callback-bounds.ts'
import { Callbacks } from './stages/callback/callbacks.ts'
import { Finalizing } from './runner/finalizing.ts'
import { ImportWork } from './runner/import-work.ts'
import type { EngineParts } from './engine-parts.ts'
import { maxStepSessions } from './runner/steps.ts'
import { createWatchdog, watchdogBounds, type WatchdogBounds } from './runner/watchdog.ts'
import { registerEngine, registerSessions } from './store/engines.ts'
import { lanesPerWorker } from './workers/messages.ts'
import { startWorkerPool, type WorkerPool } from './workers/pool.ts'

export interface EngineOptions extends EngineParts {
  settings: Settings
  database: Database & { uri: string }
  /** By default one that allows what the settings allow. */
  guard?: AddressGuard
  bounds?: DownloadBounds
  callbackBounds?: CallbackBounds
  watchdogBounds?: WatchdogBounds
  /** Called when work hangs, which only the end of the process ends. */
  endProcess: () => void
}

/** An engine's entry in the register, and the parts that work under its id. */
export interface EngineRegistration {
  id: string
  imports: ImportWork
  pool: WorkerPool
  /** Something may have become due. */
  wake: () => void
  /** Stops all parts but the pool. `isDead`: other engines took this one for dead, and its leases are lost. */
  stop: (options: { isDead: boolean }) => Promise<void>
}

/**
 * A stop waits this time for running work. What runs longer is released when the engine leaves the register (engine.ts).
 */
const graceMs = 4_500

/** Counter stripes of an engine number: one for its steps, the rest for lanes, also of replacement workers. */
const stripesPerEngine = 1_024

/** Registers an engine under a new id and starts its parts. */
export async function beginRegistration(options: EngineOptions): Promise<EngineRegistration> {
  const { settings, database, folder, secrets, metrics } = options
  const engineId = randomUUID()
  const log = options.log.child({ engine: engineId.slice(0, 8) })
  const startSessions = (length: number) => Array.from({ length }, () => database.client.startSession())
  const stepSessions = startSessions(maxStepSessions)
  const chunkSessions = startSessions(settings.ENGINE_WORKERS * lanesPerWorker + 1)
  const number = await registerEngine(database, {
    _id: engineId,
    host: hostname(),
    process_id: process.pid,
    ...(ownOrigin === null ? {} : { origin: ownOrigin }),
    session_ids: [...stepSessions, ...chunkSessions].map(sessionId),
    sees_files: folder.problem === null,
  })
  const firstStripe = number * stripesPerEngine
  const { sessions, collections } = database
  // Those of the transactions on uploads.
  await sessions.register(() => registerSessions(collections, engineId, sessions.ids))

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
      engineId,
      firstStripe: firstStripe + 1,
      laneCounter: new SharedArrayBuffer(4),
    },
    onBatch: (report) => {
      metrics.batch(report)
    },
    onError: (error) => {
      log.error({ err: error }, `a worker thread broke off: ${errorMessage(error)}`)
    },
  })
  const quota = new StagedQuota({
    collections: database.collections,
    limits: stagedLimits(settings),
  })
  const guard = options.guard ?? new AddressGuard(settings.URL_IMPORT_ALLOW)
  const imports = new ImportWork({
    ...options,
    engineId,
    stepSessions,
    chunkSessions,
    quota,
    guard,
    bounds: options.bounds ?? downloadBounds,
    watch: createWatchdog(options.watchdogBounds ?? watchdogBounds, log, options.endProcess),
    stripe: `e${firstStripe}`,
    pool,
    log,
  })
  const finalizing = new Finalizing({ ...options, quota, log }, () => imports.isResting)
  const callbacks = new Callbacks({
    engineId,
    database,
    folder,
    secrets,
    guard,
    bounds: options.callbackBounds ?? callbackBounds,
    metrics,
    log,
  })

  const loops = [imports, finalizing, callbacks]
  for (const loop of loops) loop.start()
  const stopping = new AbortController()
  const wake = () => {
    for (const loop of loops) loop.wake()
  }
  void listenForWakeUps(
    database.collections,
    ['created', 'imports', 'callback'],
    (what) => {
      if (what === null) wake()
      else if (what.reason === 'created') imports.offerStart(what)
      else if (what.reason === 'callback') callbacks.wake()
      else for (const loop of [imports, finalizing]) loop.wake()
    },
    stopping.signal,
  )
  log.info({ number, workers: settings.ENGINE_WORKERS, lanes: pool.lanes }, 'engine is at work')
  return {
    id: engineId,
    imports,
    pool,
    wake,
    stop: async ({ isDead }) => {
      stopping.abort()
      await within(
        graceMs,
        Promise.all([imports.stop({ isDead }), finalizing.stop(), callbacks.stop()]),
        undefined,
      )
    },
  }
}
