import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { clock } from '../../shared/runtime/clock.ts'
import type { Database } from '../../shared/runtime/database.ts'
import { messageOf } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { ChunkDocument } from '../../shared/contract/schemas/import.ts'
import type { MarkedFolder } from '../../shared/storage/staging/marked-folder.ts'
import {
  chunkLeaseMs,
  claimChunk,
  maxAttempts,
  releaseChunk,
  tokensOfChunks,
} from '../../shared/store/chunks.ts'
import { notifyEngines } from '../../shared/store/wake-up.ts'
import type { WorkingImport } from '../store/import-queues.ts'
import { failImportOfChunk, readState } from '../../shared/store/imports.ts'
import { findingOf, noteMissingOfChunk } from '../store/missing-files.ts'
import { ChunkScheduler } from './chunk-scheduler.ts'
import type { DoubtfulClaims } from './doubtful-claims.ts'
import type { EngineMetrics, FailureReason } from '../metrics.ts'
import type { MissedFiles } from './missed-files.ts'
import { deathsMessage, maxDeaths, suspectDeaths, type Quarantine } from './quarantine.ts'
import { missingText } from './step-failures.ts'
import { cancellation, type ChunkReport } from '../workers/messages.ts'
import type { WorkerPool } from '../workers/pool.ts'

export interface ChunkLanesOptions {
  engineId: string
  database: Database
  folder: MarkedFolder
  /** For transactions of chunks that failed, one for each lane and one more: noted with the engine. */
  sessions: ClientSession[]
  pool: WorkerPool
  claims: DoubtfulClaims
  quarantine: Quarantine
  metrics: EngineMetrics
  missedFiles: MissedFiles
  log: Logger
  /** This engine has done its part of an import, and nobody has more of it to give. */
  onDrained: () => void
}

interface RunningChunk {
  importId: number
  chunkId: string
  startedAt: number
  cancelFlag: Int32Array
  /** The chunk was taken from it, for want of a batch, and it hasn't ended. */
  isHung: boolean
  ended: Promise<void>
}

/**
 * Keeps the lanes of the worker pool filled with chunks of the imports that may be worked on: claims one, has a lane run
 * it, and releases it when it didn't end well; its last batch closed it when it did. Which import's turn it is says the
 * scheduler.
 */
export class ChunkLanes {
  readonly #options: ChunkLanesOptions
  readonly #scheduler = new ChunkScheduler()
  /** By token: a chunk that was taken from a lane may come to another one. */
  readonly #chunks = new Map<string, RunningChunk>()
  #filling: Promise<void> | null = null
  #isStopped = false
  #isDead = false

  constructor(options: ChunkLanesOptions) {
    this.#options = options
  }

  /** Share of the lanes in use. */
  get utilization(): number {
    return this.#chunks.size / this.#options.pool.lanes
  }

  /** Lanes that hang in chunks which others may have by now. Only the end of what hangs gives a lane back. */
  get hung(): number {
    return [...this.#chunks.values()].filter((chunk) => chunk.isHung).length
  }

  /** Finds chunks that others took over. A chunk whose batches commit ends long before its first lease would. */
  async findHung(): Promise<void> {
    const { database, pool, log } = this.#options
    const old = [...this.#chunks].filter(
      ([, { isHung, startedAt }]) => !isHung && clock.monotonicMs() - startedAt > chunkLeaseMs,
    )
    if (old.length === 0) return
    const leased = await tokensOfChunks(
      database.collections,
      old.map(([token]) => token),
    )
    for (const [token, chunk] of old) {
      if (leased.includes(token) || !this.#chunks.has(token)) continue
      chunk.isHung = true
      Atomics.store(chunk.cancelFlag, 0, cancellation.stop)
      log.error(
        { import_id: chunk.importId, chunk: chunk.chunkId, hung: this.hung },
        `a chunk was taken from its lane because no batch of it was written for ${chunkLeaseMs / 1000} s, and the lane still hangs in it, most likely in a read of its file: does the file server of DATA_DIR answer? ${this.hung} of ${pool.lanes} lanes hang`,
      )
    }
  }

  get #mayClaim(): boolean {
    const { quarantine, folder } = this.#options
    return !this.#isStopped && !quarantine.isOccupied && folder.problem === null
  }

  /** What may be worked on from now on, in the order of `begins_at` and id. Chunks of any other import are stopped. */
  setImports(imports: WorkingImport[]): void {
    const ids = new Set(imports.map((entry) => entry._id))
    for (const chunk of this.#chunks.values()) {
      if (!ids.has(chunk.importId)) Atomics.store(chunk.cancelFlag, 0, cancellation.stop)
    }
    this.#scheduler.setImports(imports)
  }

  /** The others took this engine for dead: its chunks are no longer its own. */
  stopDead(): Promise<void> {
    this.#isDead = true
    return this.stop()
  }

  /** Claims no more; resolves when the running batches have ended and their chunks are released. */
  stop(): Promise<void> {
    this.#isStopped = true
    return this.stopRunning()
  }

  /** Resolves when the batches that run now have ended and their chunks are released. */
  async stopRunning(): Promise<void> {
    for (const chunk of this.#chunks.values()) Atomics.store(chunk.cancelFlag, 0, cancellation.stop)
    await Promise.all([...this.#chunks.values()].map((chunk) => chunk.ended))
  }

  /** Fills the free lanes with chunks. Not re-entrant: a second call waits for the first. Throws the database's errors. */
  fill(): Promise<void> {
    return this.#fill({ wakes: false })
  }

  #fill(options: { wakes: boolean }): Promise<void> {
    this.#filling ??= this.#claimUntilFull(options).finally(() => (this.#filling = null))
    return this.#filling
  }

  async #claimUntilFull({ wakes }: { wakes: boolean }): Promise<void> {
    const { database, engineId, pool, claims } = this.#options
    while (this.#mayClaim && this.#chunks.size < pool.lanesForChunks()) {
      const entry = this.#scheduler.next()
      if (entry === null) return
      const token = randomUUID()
      const claim = claimChunk(database.collections, entry, { engineId, token })
      const chunk = await claims.claiming(token, claim)
      if (chunk === null) {
        this.#scheduler.markDrained(entry._id)
        // A poll goes on to the step by itself; a wake-up here would make it poll without end.
        if (wakes) this.#notifyIfDrained(entry._id)
        continue
      }
      this.#scheduler.charge(entry.organization_id, chunk.record_count)
      if (chunk.attempt > maxAttempts || (chunk.deaths ?? 0) >= maxDeaths) {
        await claims.claiming(token, this.#giveUp(chunk, token))
        // It is ready again: the next poll finds its import failed.
        this.#scheduler.markDrained(entry._id)
      } else {
        this.#startChunk(chunk, token)
      }
    }
  }

  #startChunk(chunk: ChunkDocument, token: string): void {
    const { pool, metrics, claims, quarantine, log } = this.#options
    const shared = new SharedArrayBuffer(4)
    const cancelFlag = new Int32Array(shared)
    if (!this.#mayClaim) Atomics.store(cancelFlag, 0, cancellation.stop)
    const startedAt = clock.monotonicMs()
    const isSuspect = (chunk.deaths ?? 0) >= suspectDeaths && !quarantine.isOccupied
    const run = () =>
      pool.run({ kind: 'chunk', importId: chunk.import_id, chunkId: chunk._id, token, cancellation: shared })
    const ended = (isSuspect ? quarantine.run(run) : run())
      .catch((error: unknown): ChunkReport => {
        // Its thread was ended for that: nothing is wrong with the chunk.
        if (this.#isDead) return { end: 'lost' }
        const message = `the worker thread broke off: ${messageOf(error)}`
        return { end: 'failed', message, retryable: false, code: null, isMissing: false }
      })
      .then((report) => {
        metrics.chunkEnded(report.end, (clock.monotonicMs() - startedAt) / 1000)
        return this.#endChunk(chunk, token, report)
      })
      .catch((error: unknown) => {
        claims.add(token)
        log.warn({ chunk: chunk._id }, `a chunk couldn't be given back, trying again: ${messageOf(error)}`)
      })
      .finally(() => {
        this.#chunks.delete(token)
        this.#notifyIfDrained(chunk.import_id)
        if (!this.#isStopped) void this.#fill({ wakes: true }).catch(() => undefined)
      })
    const running = {
      importId: chunk.import_id,
      chunkId: chunk._id,
      startedAt,
      cancelFlag,
      isHung: false,
      ended,
    }
    this.#chunks.set(token, running)
  }

  /** Then it may be this engine that finishes the import. */
  #notifyIfDrained(importId: number): void {
    const isRunning = [...this.#chunks.values()].some((chunk) => chunk.importId === importId)
    if (!isRunning && this.#scheduler.isDrained(importId)) this.#options.onDrained()
  }

  async #endChunk(chunk: ChunkDocument, token: string, report: ChunkReport): Promise<void> {
    const { database, log, metrics } = this.#options
    switch (report.end) {
      case 'done':
        return
      case 'lost':
        // Those of imports that were paused or cancelled were taken back on purpose.
        if (!this.#isDead && (await readState(database.collections, chunk.import_id)) === 'importing') {
          metrics.leaseLost()
          log.warn({ chunk: chunk._id }, 'a chunk was taken over, or a batch of it had committed unheard')
        }
        // In the second case it is still ours, and goes on behind that batch.
        await releaseChunk(database.collections, { chunkId: chunk._id, token, countsAsAttempt: false })
        return
      case 'stopped':
        await releaseChunk(database.collections, { chunkId: chunk._id, token, countsAsAttempt: false })
        return
      case 'failed':
        await this.#endFailedChunk(chunk, token, report)
    }
  }

  /** Engines died of it, or it was taken away from them without a batch, as often as may be. */
  async #giveUp(chunk: ChunkDocument, token: string): Promise<void> {
    const { log } = this.#options
    const deaths = chunk.deaths ?? 0
    const message =
      deaths >= maxDeaths
        ? deathsMessage(`worked on chunk ${chunk._id}`, deaths)
        : `chunk ${chunk._id} was claimed ${chunk.attempt - 1} times in a row without a batch of it being written: check DATA_DIR on the engines, their logs have more`
    log.error({ import_id: chunk.import_id, chunk: chunk._id }, `a chunk is given up: ${message}`)
    await this.#failImport(chunk, token, {
      message,
      reason: deaths >= maxDeaths ? 'engines_died' : 'attempts_exhausted',
    })
  }

  async #noteMissing(
    chunk: ChunkDocument,
    token: string,
    { message, code }: ChunkReport & { end: 'failed' },
  ): Promise<void> {
    const { database, engineId, sessions, metrics, missedFiles, log } = this.#options
    const { collections } = database
    const lease = { importId: chunk.import_id, chunkId: chunk._id, token }
    const finding = await findingOf(collections, engineId, message)
    const session = sessions.pop()!
    try {
      const outcome = await noteMissingOfChunk(collections, session, lease, finding)
      if (outcome === 'noted') missedFiles.note(chunk.import_id)
      if (outcome === 'failed') metrics.importFailed(code ?? 'chunk_damaged')
      log.warn({ import_id: chunk.import_id, chunk: chunk._id }, missingText(outcome, message))
    } finally {
      sessions.push(session)
    }
    this.#scheduler.markDrained(chunk.import_id)
    await notifyEngines(collections, 'missing file')
  }

  /** The chunk is given back with it. An engine that has lost the chunk fails nothing. */
  async #failImport(
    chunk: ChunkDocument,
    token: string,
    { message, reason }: { message: string; reason: FailureReason },
  ): Promise<void> {
    const { database, sessions, metrics } = this.#options
    const lease = { importId: chunk.import_id, chunkId: chunk._id, token }
    const session = sessions.pop()!
    try {
      if (await failImportOfChunk(database.collections, session, lease, message)) metrics.importFailed(reason)
    } finally {
      sessions.push(session)
    }
  }

  async #endFailedChunk(
    chunk: ChunkDocument,
    token: string,
    report: ChunkReport & { end: 'failed' },
  ): Promise<void> {
    const { database, folder, log } = this.#options
    log.warn(
      { chunk: chunk._id, attempt: chunk.attempt, retryable: report.retryable },
      `a chunk failed: ${report.message}`,
    )
    if (!report.retryable && (await folder.check()) !== null) {
      await releaseChunk(database.collections, { chunkId: chunk._id, token, countsAsAttempt: false })
      return
    }
    if (report.isMissing && folder.isUsed) {
      await this.#noteMissing(chunk, token, report)
      return
    }
    if (report.code !== null || (!report.retryable && chunk.attempt >= maxAttempts)) {
      const message =
        report.code === null
          ? `chunk ${chunk._id} failed ${chunk.attempt} times in a row, the last time with: ${report.message}`
          : report.message
      await this.#failImport(chunk, token, { message, reason: report.code ?? 'attempts_exhausted' })
      return
    }
    // Not at once: whatever it was should have a moment to pass.
    await sleep(Math.min(5_000, 250 * 2 ** chunk.attempt))
    await releaseChunk(database.collections, {
      chunkId: chunk._id,
      token,
      countsAsAttempt: !report.retryable,
    })
  }
}
