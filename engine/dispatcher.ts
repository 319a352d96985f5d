import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { clock } from '../shared/clock.ts'
import { peekNextId } from '../shared/database.ts'
import { messageOf } from '../shared/errors.ts'
import { hasEnded } from '../shared/import-state.ts'
import type { ChunkDocument, UploadDocument } from '../shared/schemas/import.ts'
import {
  claimChunk,
  closeChunks,
  countChunkStates,
  countsOfChunks,
  mostAttempts,
  releaseChunk,
  releaseChunkUnder,
} from '../shared/store/chunks.ts'
import { claimStep, releaseStepUnder } from '../shared/store/import-steps.ts'
import {
  failImport,
  fixTotals,
  listDueImports,
  listHeldLists,
  listWorkingImports,
  markSettled,
  startImport,
  type DueImport,
  type WorkingImport,
} from '../shared/store/imports.ts'
import { queueCallback } from './callbacks/queue-callback.ts'
import { ChunkScheduler } from './chunk-scheduler.ts'
import { removeWorkingData, runStep } from './import-run.ts'
import { LookLoop, lookEveryMs } from './look-loop.ts'
import type { StepContext } from './step.ts'
import { control, type ChunkReport } from './workers/messages.ts'

export interface DispatcherOptions extends Omit<StepContext, 'session' | 'signal'> {
  engineId: string
  /** One for each step that runs at once. */
  stepSessions: ClientSession[]
}

/** Of each kind: downloads, which may take a quarter of an hour, and all others. */
const mostStepsOfKind = 8
/** Of one organization: the others' imports are not to wait for its slow servers and large files. */
const mostStepsOfOrganization = 4
export const mostSteps = 2 * mostStepsOfKind
/** A command takes no longer than its socket lives: shared/database.ts. */
const doubtMs = 60_000
/** How long a stop waits for running batches before their chunks are left to the lease. */
const graceMs = 4_500

interface RunningChunk {
  importId: number
  word: Int32Array
  ended: Promise<void>
}

interface RunningStep {
  entry: WorkingImport
  abort: AbortController
  ended: Promise<void>
}

/**
 * Decides what this engine does next. Once a second, and at every ring of the doorbell, it looks at the imports for
 * which there is something to do:
 *
 *   due, its list free        → start it
 *   downloading, splitting    → take its step, if nobody has it
 *   importing                 → claim chunks while lanes are free; all chunks done: take its step and finish it
 *   ended, not cleared up     → wait until no chunk is held, fix its totals, enter its callback, remove its files
 *   anything else             → stop what this engine does for it (paused, cancelled)
 *
 * It keeps nothing that it couldn't read again: after a restart, or beside other engines, the documents say it all.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #scheduler = new ChunkScheduler()
  readonly #chunks = new Map<string, RunningChunk>()
  readonly #steps = new Map<number, RunningStep>()
  /** Imports that are just being started, with the list that they are to have. */
  readonly #starting = new Map<number, { listId: number | null; ended: Promise<void> }>()
  /**
   * Tokens under which this engine may hold a chunk or a step without knowing, or without working on it any longer:
   * the database went away before it said what became of a claim or a release. Given back as soon as it answers, and
   * again for a while, because a claim that nobody waits for any more may still be on its way.
   */
  readonly #doubtful = new Map<string, { since: number }>()
  #isDead = false
  readonly #stopping = new AbortController()
  readonly #loop: LookLoop
  #filling: Promise<void> | null = null

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#loop = new LookLoop({
      look: async () => {
        await this.#look()
        // Engines that began together don't go on looking together.
        return lookEveryMs * (0.8 + 0.4 * Math.random())
      },
      problem: "can't look for work",
      log: options.log,
    })
  }

  start(): void {
    this.#loop.start()
  }

  /** Something changed: look now. */
  get wake(): () => void {
    return this.#loop.wake
  }

  /** Steps in hand. */
  get steps(): { download: number; other: number } {
    const download = [...this.#steps.values()].filter(({ entry }) => entry.state === 'downloading').length
    return { download, other: this.#steps.size - download }
  }

  /** Share of the lanes in use. */
  get utilization(): number {
    return this.#chunks.size / this.#options.pool.lanes
  }

  /** The others took this engine for dead: what it has in hand is no longer its own. */
  stopDead(): Promise<void> {
    this.#isDead = true
    return this.stop()
  }

  /** Stops taking work, lets running batches end, hands back what is left. */
  async stop(): Promise<void> {
    this.#loop.stop()
    this.#stopping.abort()
    for (const step of this.#steps.values()) step.abort.abort()
    for (const chunk of this.#chunks.values()) Atomics.store(chunk.word, 0, control.stop)
    const ended = Promise.all([
      this.#loop.ended,
      ...[...this.#steps.values(), ...this.#chunks.values(), ...this.#starting.values()].map(
        (work) => work.ended,
      ),
    ])
    await Promise.race([ended, sleep(graceMs, undefined, { ref: false })])
  }

  async #look(): Promise<void> {
    const { collections } = this.#options.database
    await this.#giveBackDoubtful()
    await this.#startDueImports()
    const working = await listWorkingImports(collections)
    this.#stopWorkOn(working)
    this.#scheduler.setImports(working.filter((entry) => entry.state === 'importing'))
    await this.#fillLanes({ wakes: false })
    for (const entry of working) {
      if (this.#loop.isStopped) return
      await this.#advance(entry).catch((error: unknown) => {
        this.#options.log.warn(
          { import_id: entry._id },
          `an import can't be taken further, trying again: ${messageOf(error)}`,
        )
      })
    }
  }

  async #advance(entry: WorkingImport): Promise<void> {
    // Whoever has the step may have a transaction under way that counts.
    if (entry.step !== null || this.#steps.has(entry._id)) return
    if (hasEnded(entry.state)) await this.#settle(entry)
    else await this.#considerStep(entry)
  }

  async #giveBackDoubtful(): Promise<void> {
    const { database, engineId } = this.#options
    for (const [token, { since }] of this.#doubtful) {
      await releaseChunkUnder(database.collections, { engineId, token })
      await releaseStepUnder(database.collections, { engineId, token })
      if (clock.monotonicMs() - since > doubtMs) this.#doubtful.delete(token)
    }
  }

  #doubt(token: string): void {
    this.#doubtful.set(token, { since: clock.monotonicMs() })
  }

  /** What the claim resolves to; a claim that throws leaves its token in doubt. */
  async #claiming<T>(token: string, claim: Promise<T>): Promise<T> {
    try {
      return await claim
    } catch (error) {
      this.#doubt(token)
      throw error
    }
  }

  async #startDueImports(): Promise<void> {
    const { collections } = this.#options.database
    const held = await listHeldLists(collections)
    const due = await listDueImports(collections, held)
    const taken = new Set([...held, ...[...this.#starting.values()].map((start) => start.listId)])
    for (const entry of due) {
      const waits = !entry.options.dry_run && taken.has(entry.mailing_list_id)
      if (waits || this.#starting.has(entry._id)) continue
      if (!entry.options.dry_run) taken.add(entry.mailing_list_id)
      if (entry.source.type === 'upload_directory') this.#startPinned(entry)
      else await this.#startNow(entry)
    }
  }

  async #startNow(entry: DueImport, upload?: UploadDocument): Promise<boolean> {
    const { collections } = this.#options.database
    const firstNewSubscriberId = await peekNextId(collections, 'subscriber')
    const isOurs = await startImport(collections, entry._id, { firstNewSubscriberId, upload })
    if (isOurs) {
      this.#options.metrics.stageEnded(
        'wait',
        Math.max(0, clock.now().getTime() - entry.begins_at.getTime()) / 1000,
      )
      this.#options.log.info({ import_id: entry._id }, 'import started')
    }
    return isOurs
  }

  /** Beside the loop: where a pin is a copy it takes a moment, which is the other imports' as well. */
  #startPinned(entry: DueImport): void {
    const ended = this.#pinAndStart(entry)
      .catch((error: unknown) => {
        this.#options.log.warn(
          { import_id: entry._id },
          `an import can't be started, trying again: ${messageOf(error)}`,
        )
      })
      .finally(() => this.#starting.delete(entry._id))
    this.#starting.set(entry._id, { listId: entry.options.dry_run ? null : entry.mailing_list_id, ended })
  }

  /** The file is kept before the import leaves `scheduled`, so nothing that is done to it from then on is seen. */
  async #pinAndStart(entry: DueImport): Promise<void> {
    const { uploads } = this.#options
    const { _id: importId, organization_id: organizationId, source } = entry
    const { signal } = this.#stopping
    let upload: UploadDocument | undefined
    try {
      const pin = await uploads.pin({ organizationId, name: source.filename, importId, signal })
      upload = { pin, waiting: null }
    } catch (error) {
      // Another engine begins it.
      if (signal.aborted) return
      // Its step has a few tries, and says what it was when it fails; with the database away none of this is heard.
      this.#options.log.warn(
        { import_id: importId },
        `the file ${JSON.stringify(source.filename)} can't be kept for an import that begins: ${messageOf(error)}`,
      )
    }
    const isOurs = await this.#startNow(entry, upload)
    if (isOurs) this.#loop.wake()
    else if (upload?.pin) await uploads.releasePin(upload.pin)
  }

  /** Imports that were paused, cancelled or failed aren't worked on any longer. */
  #stopWorkOn(working: WorkingImport[]): void {
    const states = new Map(working.map((entry) => [entry._id, entry.state]))
    for (const chunk of this.#chunks.values()) {
      if (states.get(chunk.importId) !== 'importing') Atomics.store(chunk.word, 0, control.stop)
    }
    for (const [importId, step] of this.#steps) {
      const state = states.get(importId)
      if (state === undefined || hasEnded(state)) step.abort.abort()
    }
  }

  async #considerStep(entry: WorkingImport): Promise<void> {
    const { collections } = this.#options.database
    if (!this.#hasSlotFor(entry)) return
    if (entry.state === 'importing') {
      const chunks = await countChunkStates(collections, entry._id)
      if (chunks.ready + chunks.running > 0) return
    }
    const token = randomUUID()
    const claim = { engineId: this.#options.engineId, token }
    const document = await this.#claiming(token, claimStep(collections, entry._id, entry.state, claim))
    if (document === null) return
    const abort = new AbortController()
    const session = this.#options.stepSessions.pop()!
    const ended = runStep(document, token, { ...this.#options, session, signal: abort.signal })
      .catch((error: unknown) => {
        this.#doubt(token)
        this.#options.log.warn(
          { import_id: entry._id },
          `a step couldn't be given back, trying again: ${messageOf(error)}`,
        )
      })
      .finally(() => {
        this.#steps.delete(entry._id)
        this.#options.stepSessions.push(session)
        this.#loop.wake()
      })
    this.#steps.set(entry._id, { entry, abort, ended })
    if (this.#loop.isStopped) abort.abort()
  }

  #hasSlotFor(entry: WorkingImport): boolean {
    const isDownload = (step: WorkingImport): boolean => step.state === 'downloading'
    const alike = [...this.#steps.values()].filter((step) => isDownload(step.entry) === isDownload(entry))
    const own = alike.filter((step) => step.entry.organization_id === entry.organization_id)
    return alike.length < mostStepsOfKind && own.length < mostStepsOfOrganization
  }

  /** An ended import: its counts are final once no chunk of it is held. */
  async #settle({ _id: importId, state, source }: WorkingImport): Promise<void> {
    const { metrics, database } = this.#options
    const { collections } = database
    if ((await closeChunks(collections, importId)) > 0) return
    const totals = await countsOfChunks(collections, importId)
    await fixTotals(collections, importId, totals)
    await queueCallback(this.#options.database, importId)
    await removeWorkingData(importId, this.#options)
    if (await markSettled(collections, importId)) metrics.importEnded(state, source.type)
  }

  /** Claims chunks until every lane that is theirs has one or nobody has any; one at a time does so. */
  #fillLanes(options: { wakes: boolean }): Promise<void> {
    this.#filling ??= this.#claimUntilFull(options).finally(() => (this.#filling = null))
    return this.#filling
  }

  async #claimUntilFull({ wakes }: { wakes: boolean }): Promise<void> {
    const { database, engineId, pool } = this.#options
    while (!this.#loop.isStopped && this.#chunks.size < pool.lanesForChunks()) {
      const entry = this.#scheduler.next()
      if (entry === null) return
      const token = randomUUID()
      const claim = claimChunk(database.collections, entry._id, { engineId, token })
      const chunk = await this.#claiming(token, claim)
      if (chunk === null) {
        this.#scheduler.markDry(entry._id)
        // A look goes on to the step by itself; waking it again would be a look without end.
        if (wakes) this.#wakeIfExhausted(entry._id)
        continue
      }
      this.#scheduler.charge(entry.organization_id, chunk.record_count)
      this.#startChunk(chunk, token)
    }
  }

  #startChunk(chunk: ChunkDocument, token: string): void {
    const shared = new SharedArrayBuffer(4)
    const word = new Int32Array(shared)
    if (this.#loop.isStopped) Atomics.store(word, 0, control.stop)
    const startedAt = clock.monotonicMs()
    const ended = this.#options.pool
      .run({ kind: 'chunk', importId: chunk.import_id, chunkId: chunk._id, token, control: shared })
      .catch((error: unknown): ChunkReport => {
        // Its thread was ended for that: nothing is wrong with the chunk.
        if (this.#isDead) return { end: 'lost' }
        const message = `the worker thread broke off: ${messageOf(error)}`
        return { end: 'failed', message, retryable: false, code: null }
      })
      .then((report) => {
        this.#options.metrics.chunkEnded(report.end, (clock.monotonicMs() - startedAt) / 1000)
        return this.#endChunk(chunk, token, report)
      })
      .catch((error: unknown) => {
        this.#doubt(token)
        this.#options.log.warn(
          { chunk: chunk._id },
          `a chunk couldn't be given back, trying again: ${messageOf(error)}`,
        )
      })
      .finally(() => {
        this.#chunks.delete(chunk._id)
        this.#wakeIfExhausted(chunk.import_id)
        if (!this.#loop.isStopped) void this.#fillLanes({ wakes: true }).catch(() => undefined)
      })
    this.#chunks.set(chunk._id, { importId: chunk.import_id, word, ended })
  }

  async #endChunk(chunk: ChunkDocument, token: string, report: ChunkReport): Promise<void> {
    const { database, log, metrics } = this.#options
    switch (report.end) {
      case 'done':
        return
      case 'lost':
        if (!this.#isDead) metrics.leaseLost()
        log.warn({ chunk: chunk._id }, 'a chunk was taken over, or a batch of it had committed unheard')
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

  /** When this engine has done its part of an import and nobody has more, it may be the one to finish it. */
  #wakeIfExhausted(importId: number): void {
    const isRunning = [...this.#chunks.values()].some((chunk) => chunk.importId === importId)
    if (!isRunning && this.#scheduler.isDry(importId)) this.#loop.wake()
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
    if (report.code !== null || (!report.retryable && chunk.attempt >= mostAttempts)) {
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
