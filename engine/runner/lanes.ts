import assert from 'node:assert'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { ChunkDocument } from '../../shared/contract/schemas/import.ts'
import { clock } from '../../shared/runtime/clock.ts'
import { claimChunk, maxChunkClaims, releaseChunk } from '../../shared/store/chunks.ts'
import { failImportOfChunk, readState } from '../../shared/store/imports.ts'
import type { EngineParts } from '../engine-parts.ts'
import type { FailureReason } from '../metrics.ts'
import type { WorkingImport } from '../store/import-queues.ts'
import { cancellation, progressIndex, type ChunkReport } from '../workers/messages.ts'
import type { WorkerPool } from '../workers/pool.ts'
import type { DoubtfulClaims } from './doubtful-claims.ts'
import { logFailedImport } from './failed-import.ts'
import type { Kind, WorkControl } from './kinds.ts'
import type { MissedFiles } from './missed-files.ts'
import { deathsMessage, maxDeaths, type Quarantine } from './quarantine.ts'
import { missingText } from './step-failures.ts'
import type { Watch } from './watchdog.ts'

interface LanesOptions extends Pick<EngineParts, 'database' | 'folder' | 'staging' | 'metrics' | 'log'> {
  engineId: string
  pool: WorkerPool
  /** For transactions of failed chunks: one for each lane and one more, all registered with the engine. */
  chunkSessions: ClientSession[]
  doubts: DoubtfulClaims
  quarantine: Quarantine
  missedFiles: MissedFiles
  /** Watches chunks, whose worker thread may hang in a read. */
  watch: Watch
}

/** Chunks of started imports, in the lanes of the worker pool. */
export function chunkKind(options: LanesOptions): Kind<WorkingImport, ChunkDocument> {
  const { pool, doubts, quarantine, folder } = options
  const lanes = new Lanes(options)
  return {
    name: 'a chunk',
    slots: { atOnce: pool.lanes },
    keyOf: ({ _id }) => _id,
    keyName: 'import_id',
    mayBegin: () => !quarantine.isOccupied && folder.problem === null,
    claim: (entry, token) => lanes.claim(entry, token),
    run: (chunk, control) => lanes.run(chunk, control),
    leased: { doubts, quarantine, deaths: ({ lease }) => lease.deaths },
  }
}

/**
 * Runs chunks. The commit of its last batch makes a chunk `done`; any other end releases it here. What becomes of the
 * import of a chunk that failed:
 *   DATA_DIR isn't available here, or the database was away → nothing, and the claim doesn't count
 *   a file is missing                                       → this engine leaves it alone for a while (missed-files.ts)
 *   an error that would come back, an ImportError           → the import fails
 *   anything else                                           → claimed again, up to `maxChunkClaims` times in a row
 */
class Lanes {
  readonly #options: LanesOptions

  constructor(options: LanesOptions) {
    this.#options = options
  }

  /** Null where the import has no chunk for this engine now: also when the disk is full, or the import is given up. */
  async claim(entry: WorkingImport, token: string): Promise<ChunkDocument | null> {
    const { database, staging, engineId, missedFiles } = this.#options
    if (missedFiles.has(entry._id) || (await staging.spaceProblem()) !== null) return null
    const chunk = await claimChunk(database.collections, entry, { engineId, token })
    if (chunk === null || (chunk.lease.tries <= maxChunkClaims && chunk.lease.deaths < maxDeaths))
      return chunk
    await this.#giveUp(chunk, token)
    return null
  }

  async run(chunk: ChunkDocument, { token, signal, isDead }: WorkControl): Promise<void> {
    const { pool, metrics, watch } = this.#options
    const shared = new SharedArrayBuffer(8)
    const cancelFlag = new Int32Array(shared)
    const stop = () => Atomics.store(cancelFlag, 0, cancellation.stop)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop)
    const startedAt = clock.monotonicMs()
    const unwatch = watch({
      importId: chunk.import_id,
      name: `chunk ${chunk._id}`,
      progress: () => Atomics.load(cancelFlag, progressIndex),
      waitingFor: () => 'its worker thread, which most likely reads the partition',
    })
    try {
      const report = await pool
        .run({ importId: chunk.import_id, chunkId: chunk._id, token, cancellation: shared })
        .catch((error: unknown): ChunkReport => {
          // The thread was ended with the registration, which says nothing about the chunk.
          if (isDead()) return { end: 'lost' }
          const message = `the worker thread broke off: ${errorMessage(error)}`
          return { end: 'failed', message, retryable: false, code: null, isMissing: false }
        })
      metrics.chunkEnded(report.end, (clock.monotonicMs() - startedAt) / 1000)
      await this.#end(chunk, token, report, isDead)
    } finally {
      unwatch()
    }
  }

  async #end(chunk: ChunkDocument, token: string, report: ChunkReport, isDead: () => boolean): Promise<void> {
    const { database, log, metrics } = this.#options
    if (report.end === 'done') return
    if (report.end === 'failed') {
      await this.#endFailed(chunk, token, report)
      return
    }
    const isLost = report.end === 'lost' && !isDead()
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
    const { database, metrics, log } = this.#options
    const lease = { importId: chunk.import_id, chunkId: chunk._id, token }
    const isFailed = await this.#withSession((session) =>
      failImportOfChunk(database.collections, session, lease, message),
    )
    if (!isFailed) return
    metrics.importFailed(reason)
    const importLog = log.child({ import_id: chunk.import_id })
    const failure = { from: 'importing', message, reason } as const
    await logFailedImport({ database, log: importLog }, chunk.import_id, failure)
  }

  async #withSession<T>(work: (session: ClientSession) => Promise<T>): Promise<T> {
    const { chunkSessions } = this.#options
    const session = chunkSessions.pop()
    assert(session !== undefined, 'there is a session for each lane and one more')
    try {
      return await work(session)
    } finally {
      chunkSessions.push(session)
    }
  }

  async #endFailed(
    chunk: ChunkDocument,
    token: string,
    report: ChunkReport & { end: 'failed' },
  ): Promise<void> {
    const { database, folder, missedFiles, log } = this.#options
    // Until the next poll, chunks of an import that has just ended may still be claimed. Their failures don't matter.
    if ((await readState(database.collections, chunk.import_id)) !== 'importing') {
      await releaseChunk(database.collections, { chunkId: chunk._id, token, countsAsAttempt: false })
      return
    }
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
