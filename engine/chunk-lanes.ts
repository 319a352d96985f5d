import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../shared/clock.ts'
import type { Database } from '../shared/database.ts'
import { messageOf } from '../shared/errors.ts'
import type { Logger } from '../shared/logger.ts'
import type { ChunkDocument } from '../shared/schemas/import.ts'
import { claimChunk, maxAttempts, releaseChunk } from '../shared/store/chunks.ts'
import type { WorkingImport } from '../shared/store/import-queues.ts'
import { failImport, readState } from '../shared/store/imports.ts'
import { ChunkScheduler } from './chunk-scheduler.ts'
import type { DoubtfulClaims } from './doubtful-claims.ts'
import type { EngineMetrics } from './metrics.ts'
import { deathsMessage, maxDeaths, suspectDeaths, type Quarantine } from './quarantine.ts'
import { control, type ChunkReport } from './workers/messages.ts'
import type { WorkerPool } from './workers/pool.ts'

export interface ChunkLanesOptions {
  engineId: string
  database: Database
  pool: WorkerPool
  claims: DoubtfulClaims
  quarantine: Quarantine
  metrics: EngineMetrics
  log: Logger
  /** This engine has done its part of an import, and nobody has more of it to give. */
  onExhausted: () => void
}

interface RunningChunk {
  importId: number
  word: Int32Array
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

  /** What may be worked on from now on, in the order of `begins_at` and id. Chunks of any other import are stopped. */
  setImports(imports: WorkingImport[]): void {
    const ids = new Set(imports.map((entry) => entry._id))
    for (const chunk of this.#chunks.values()) {
      if (!ids.has(chunk.importId)) Atomics.store(chunk.word, 0, control.stop)
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
    for (const chunk of this.#chunks.values()) Atomics.store(chunk.word, 0, control.stop)
    await Promise.all([...this.#chunks.values()].map((chunk) => chunk.ended))
  }

  /**
   * Claims chunks until every lane that is theirs has one or nobody has any; one at a time does so. Throws the
   * database's errors.
   */
  fill(): Promise<void> {
    return this.#fill({ wakes: false })
  }

  #fill(options: { wakes: boolean }): Promise<void> {
    this.#filling ??= this.#claimUntilFull(options).finally(() => (this.#filling = null))
    return this.#filling
  }

  async #claimUntilFull({ wakes }: { wakes: boolean }): Promise<void> {
    const { database, engineId, pool, claims, quarantine } = this.#options
    while (!this.#isStopped && !quarantine.isOccupied && this.#chunks.size < pool.lanesForChunks()) {
      const entry = this.#scheduler.next()
      if (entry === null) return
      const token = randomUUID()
      const claim = claimChunk(database.collections, entry, { engineId, token })
      const chunk = await claims.claiming(token, claim)
      if (chunk === null) {
        this.#scheduler.markDry(entry._id)
        // A look goes on to the step by itself; waking it again would be a look without end.
        if (wakes) this.#tellIfExhausted(entry._id)
        continue
      }
      this.#scheduler.charge(entry.organization_id, chunk.record_count)
      if (chunk.attempt > maxAttempts || (chunk.deaths ?? 0) >= maxDeaths) {
        await claims.claiming(token, this.#giveUp(chunk, token))
        // It is ready again: the next look finds its import failed.
        this.#scheduler.markDry(entry._id)
      } else {
        this.#startChunk(chunk, token)
      }
    }
  }

  #startChunk(chunk: ChunkDocument, token: string): void {
    const { pool, metrics, claims, quarantine, log } = this.#options
    const shared = new SharedArrayBuffer(4)
    const word = new Int32Array(shared)
    if (this.#isStopped || quarantine.isOccupied) Atomics.store(word, 0, control.stop)
    const startedAt = clock.monotonicMs()
    const isSuspect = (chunk.deaths ?? 0) >= suspectDeaths && !quarantine.isOccupied
    const run = () =>
      pool.run({ kind: 'chunk', importId: chunk.import_id, chunkId: chunk._id, token, control: shared })
    const ended = (isSuspect ? quarantine.run(run) : run())
      .catch((error: unknown): ChunkReport => {
        // Its thread was ended for that: nothing is wrong with the chunk.
        if (this.#isDead) return { end: 'lost' }
        const message = `the worker thread broke off: ${messageOf(error)}`
        return { end: 'failed', message, retryable: false, code: null }
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
        this.#chunks.delete(chunk._id)
        this.#tellIfExhausted(chunk.import_id)
        if (!this.#isStopped) void this.#fill({ wakes: true }).catch(() => undefined)
      })
    this.#chunks.set(chunk._id, { importId: chunk.import_id, word, ended })
  }

  /** Then it may be this engine that finishes the import. */
  #tellIfExhausted(importId: number): void {
    const isRunning = [...this.#chunks.values()].some((chunk) => chunk.importId === importId)
    if (!isRunning && this.#scheduler.isDry(importId)) this.#options.onExhausted()
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
        await releaseChunk(database.collections, { chunkId: chunk._id, token, blameless: true })
        return
      case 'stopped':
        await releaseChunk(database.collections, { chunkId: chunk._id, token, blameless: true })
        return
      case 'failed':
        await this.#endFailedChunk(chunk, token, report)
    }
  }

  /** Engines died of it, or it was taken away from them without a batch, as often as may be. */
  async #giveUp(chunk: ChunkDocument, token: string): Promise<void> {
    const { database, log, metrics } = this.#options
    const deaths = chunk.deaths ?? 0
    const message =
      deaths >= maxDeaths
        ? deathsMessage(`worked on chunk ${chunk._id}`, deaths)
        : `chunk ${chunk._id} was claimed ${chunk.attempt - 1} times in a row without a batch of it being written: check DATA_DIR on the engines, their logs have more`
    log.error({ import_id: chunk.import_id, chunk: chunk._id }, `a chunk is given up: ${message}`)
    if (await failImport(database.collections, chunk.import_id, { message }))
      metrics.importFailed(deaths >= maxDeaths ? 'engines_died' : 'attempts_exhausted')
    await releaseChunk(database.collections, { chunkId: chunk._id, token, blameless: false })
  }

  async #endFailedChunk(
    chunk: ChunkDocument,
    token: string,
    report: ChunkReport & { end: 'failed' },
  ): Promise<void> {
    const { database, log, metrics } = this.#options
    log.warn(
      { chunk: chunk._id, attempt: chunk.attempt, retryable: report.retryable },
      `a chunk failed: ${report.message}`,
    )
    if (report.code !== null || (!report.retryable && chunk.attempt >= maxAttempts)) {
      const message =
        report.code === null
          ? `chunk ${chunk._id} failed ${chunk.attempt} times in a row, the last time with: ${report.message}`
          : report.message
      if (await failImport(database.collections, chunk.import_id, { message }))
        metrics.importFailed(report.code ?? 'attempts_exhausted')
    }
    // Not at once: whatever it was should have a moment to pass.
    await sleep(Math.min(5_000, 250 * 2 ** chunk.attempt))
    await releaseChunk(database.collections, { chunkId: chunk._id, token, blameless: report.retryable })
  }
}
