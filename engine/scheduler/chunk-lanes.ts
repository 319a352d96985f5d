import assert from 'node:assert'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { clock } from '../../shared/runtime/clock.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { ChunkDocument } from '../../shared/contract/schemas/import.ts'
import { claimChunk, maxChunkClaims, releaseChunk } from '../../shared/store/chunks.ts'
import type { WorkingImport } from '../store/import-queues.ts'
import { failImportOfChunk, readState } from '../../shared/store/imports.ts'
import { ChunkScheduler } from './chunk-scheduler.ts'
import type { DoubtfulClaims } from './doubtful-claims.ts'
import type { FailureReason } from '../metrics.ts'
import { deathsMessage, maxDeaths, suspectDeaths, type Quarantine } from './quarantine.ts'
import type { StepContext } from './step.ts'
import { missingText } from './step-failures.ts'
import { cancellation, progressIndex, type ChunkReport } from '../workers/messages.ts'

interface ChunkLanesOptions extends Pick<
  StepContext,
  'database' | 'folder' | 'staging' | 'pool' | 'metrics' | 'missedFiles' | 'watch' | 'log'
> {
  engineId: string
  /** For transactions of failed chunks: one for each lane and one more, all registered with the engine. */
  sessions: ClientSession[]
  claims: DoubtfulClaims
  quarantine: Quarantine
  /** Called when this engine runs no chunk of an import and there is none left to claim. */
  onDrained: () => void
}

interface RunningChunk {
  importId: number
  cancelFlag: Int32Array
  ended: Promise<void>
}

/**
 * Keeps the lanes of the worker pool filled with chunks of the imports that may be worked on. It claims a chunk of the
 * import that the scheduler chooses, and runs it in a lane. A chunk that doesn't end well is released; one that does is
 * closed by its last batch.
 */
export class ChunkLanes {
  readonly #options: ChunkLanesOptions
  readonly #scheduler = new ChunkScheduler()
  /** By token, because a chunk that hangs in one lane may be claimed again by this engine. */
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

  get #mayClaim(): boolean {
    const { quarantine, folder } = this.#options
    return !this.#isStopped && !quarantine.isOccupied && folder.problem === null
  }

  /**
   * The imports that may be worked on from now on, in the order of `begins_at` and id. Chunks of others are stopped.
   */
  setImports(imports: WorkingImport[]): void {
    const ids = new Set(imports.map((entry) => entry._id))
    for (const chunk of this.#chunks.values()) {
      if (!ids.has(chunk.importId)) Atomics.store(chunk.cancelFlag, 0, cancellation.stop)
    }
    this.#scheduler.setImports(imports)
  }

  /**
   * Claims no more; resolves when the running batches have ended and their chunks are released. `isDead`: other engines
   * took this one for dead, and its leases are lost.
   */
  stop({ isDead }: { isDead: boolean }): Promise<void> {
    this.#isStopped = true
    this.#isDead ||= isDead
    return this.stopRunning()
  }

  /** Resolves when the batches that run now have ended and their chunks are released. */
  async stopRunning(): Promise<void> {
    for (const chunk of this.#chunks.values()) Atomics.store(chunk.cancelFlag, 0, cancellation.stop)
    await Promise.all([...this.#chunks.values()].map((chunk) => chunk.ended))
  }

  /**
   * Fills the free lanes with chunks. Single-flight: a call during another one shares it. Throws the database's errors.
   * `wakes`: no poll is in progress, so one is woken for an import of which no chunk is left.
   */
  fill(options = { wakes: false }): Promise<void> {
    this.#filling ??= this.#claimUntilFull(options).finally(() => (this.#filling = null))
    return this.#filling
  }

  async #claimUntilFull({ wakes }: { wakes: boolean }): Promise<void> {
    const { database, staging, engineId, pool, claims } = this.#options
    while (this.#mayClaim && this.#chunks.size < pool.lanes) {
      if ((await staging.spaceProblem()) !== null) return
      const entry = this.#scheduler.next()
      if (entry === null) return
      const token = randomUUID()
      const claim = claimChunk(database.collections, entry, { engineId, token })
      const chunk = await claims.track(token, claim)
      if (chunk === null) {
        this.#scheduler.markDrained(entry._id)
        // During a poll no wake-up is needed, as the poll looks for steps next; one would cause endless polls.
        if (wakes) this.#notifyIfDrained(entry._id)
        continue
      }
      this.#scheduler.charge(entry.organization_id, chunk.record_count)
      if (chunk.lease.tries > maxChunkClaims || chunk.lease.deaths >= maxDeaths) {
        await claims.track(token, this.#giveUp(chunk, token))
        // The chunk is ready again, but the next poll finds that its import has failed.
        this.#scheduler.markDrained(entry._id)
      } else {
        this.#startChunk(chunk, token)
      }
    }
  }

  #startChunk(chunk: ChunkDocument, token: string): void {
    const { pool, metrics, claims, quarantine, watch, log } = this.#options
    const shared = new SharedArrayBuffer(8)
    const cancelFlag = new Int32Array(shared)
    if (!this.#mayClaim) Atomics.store(cancelFlag, 0, cancellation.stop)
    const startedAt = clock.monotonicMs()
    const unwatch = watch({
      importId: chunk.import_id,
      name: `chunk ${chunk._id}`,
      progress: () => Atomics.load(cancelFlag, progressIndex),
      waitingFor: () => 'its worker thread, which most likely reads the partition',
    })
    const isSuspect = chunk.lease.deaths >= suspectDeaths && !quarantine.isOccupied
    const run = () => pool.run({ importId: chunk.import_id, chunkId: chunk._id, token, cancellation: shared })
    const ended = (isSuspect ? quarantine.run(run) : run())
      .catch((error: unknown): ChunkReport => {
        // The thread was ended with the registration, which says nothing about the chunk.
        if (this.#isDead) return { end: 'lost' }
        const message = `the worker thread broke off: ${errorMessage(error)}`
        return { end: 'failed', message, retryable: false, code: null, isMissing: false }
      })
      .then((report) => {
        metrics.chunkEnded(report.end, (clock.monotonicMs() - startedAt) / 1000)
        return this.#endChunk(chunk, token, report)
      })
      .catch((error: unknown) => {
        claims.add(token)
        log.warn({ chunk: chunk._id }, `a chunk couldn't be released, trying again: ${errorMessage(error)}`)
      })
      .finally(() => {
        unwatch()
        this.#chunks.delete(token)
        this.#notifyIfDrained(chunk.import_id)
        if (!this.#isStopped) void this.fill({ wakes: true }).catch(() => undefined)
      })
    this.#chunks.set(token, { importId: chunk.import_id, cancelFlag, ended })
  }

  /** The dispatcher may then claim the import's last step. */
  #notifyIfDrained(importId: number): void {
    const isRunning = [...this.#chunks.values()].some((chunk) => chunk.importId === importId)
    if (!isRunning && this.#scheduler.isDrained(importId)) this.#options.onDrained()
  }

  async #endChunk(chunk: ChunkDocument, token: string, report: ChunkReport): Promise<void> {
    const { database, log, metrics } = this.#options
    if (report.end === 'done') return
    if (report.end === 'failed') {
      await this.#endFailedChunk(chunk, token, report)
      return
    }
    const isLost = report.end === 'lost' && !this.#isDead
    // A pause or a cancel takes the leases of chunks away on purpose.
    if (isLost && (await readState(database.collections, chunk.import_id)) === 'importing') {
      metrics.leaseLost()
      log.warn(
        { chunk: chunk._id },
        'work on a chunk broke off: another engine took it over, or the reply to the last commit was lost',
      )
    }
    // A stopped chunk is still leased. So is one of which a batch committed without an answer: the next claim resumes
    // behind that batch.
    await releaseChunk(database.collections, { chunkId: chunk._id, token, countsAsAttempt: false })
  }

  /** For a chunk on which `maxDeaths` engines died, or that was claimed `maxChunkClaims` times without a batch. */
  async #giveUp(chunk: ChunkDocument, token: string): Promise<void> {
    const { log } = this.#options
    const { deaths } = chunk.lease
    const message =
      deaths >= maxDeaths
        ? deathsMessage(`worked on chunk ${chunk._id}`, deaths)
        : `chunk ${chunk._id} was claimed ${chunk.lease.tries - 1} times in a row without a batch of it being written: check DATA_DIR on the engines, and search their logs for the reason`
    log.error({ import_id: chunk.import_id, chunk: chunk._id }, `a chunk is given up: ${message}`)
    await this.#failImport(chunk, token, {
      message,
      reason: deaths >= maxDeaths ? 'engines_died' : 'attempts_exhausted',
    })
  }

  /** Fails the import and releases the chunk. Does neither when this engine has lost the chunk. */
  async #failImport(
    chunk: ChunkDocument,
    token: string,
    { message, reason }: { message: string; reason: FailureReason },
  ): Promise<void> {
    const { database, metrics } = this.#options
    const lease = { importId: chunk.import_id, chunkId: chunk._id, token }
    const isFailed = await this.#withSession((session) =>
      failImportOfChunk(database.collections, session, lease, message),
    )
    if (isFailed) metrics.importFailed(reason)
  }

  async #withSession<T>(work: (session: ClientSession) => Promise<T>): Promise<T> {
    const { sessions } = this.#options
    const session = sessions.pop()
    assert(session !== undefined, 'there is a session for each lane and one more')
    try {
      return await work(session)
    } finally {
      sessions.push(session)
    }
  }

  async #endFailedChunk(
    chunk: ChunkDocument,
    token: string,
    report: ChunkReport & { end: 'failed' },
  ): Promise<void> {
    const { database, folder, missedFiles, log } = this.#options
    log.warn(
      { chunk: chunk._id, attempt: chunk.lease.tries, retryable: report.retryable },
      `a chunk failed: ${report.message}`,
    )
    if (!report.retryable && (await folder.check()) !== null) {
      await releaseChunk(database.collections, { chunkId: chunk._id, token, countsAsAttempt: false })
      return
    }
    if (report.isMissing && folder.isUsed && chunk.lease.tries < maxChunkClaims) {
      missedFiles.record(chunk.import_id)
      log.warn({ import_id: chunk.import_id }, missingText(chunk.lease.tries, report.message))
      this.#scheduler.markDrained(chunk.import_id)
      await releaseChunk(database.collections, { chunkId: chunk._id, token, countsAsAttempt: true })
      return
    }
    if (report.code !== null || (!report.retryable && chunk.lease.tries >= maxChunkClaims)) {
      const message =
        report.code === null
          ? `chunk ${chunk._id} failed ${chunk.lease.tries} times in a row, the last time with: ${report.message}`
          : report.message
      await this.#failImport(chunk, token, { message, reason: report.code ?? 'attempts_exhausted' })
      return
    }
    // The pause gives a passing problem time to end.
    await sleep(Math.min(5_000, 250 * 2 ** chunk.lease.tries))
    await releaseChunk(database.collections, {
      chunkId: chunk._id,
      token,
      countsAsAttempt: !report.retryable,
    })
  }
}
