import type { ClientSession } from 'mongodb'
import { clock } from '../../shared/runtime/clock.ts'
import type { ChunkDocument, ImportDocument } from '../../shared/contract/schemas/import.ts'
import { importsWithOpenChunks } from '../../shared/store/chunks.ts'
import { listWorkingImports, readWaitMs, type WorkingImport } from '../store/import-queues.ts'
import type { WorkerPool } from '../workers/pool.ts'
import { DoubtfulClaims } from './doubtful-claims.ts'
import { chunkKind } from './lanes.ts'
import { MissedFiles } from './missed-files.ts'
import { PollLoop, pollIntervalMs, untilDue, withJitter } from './poll-loop.ts'
import { Quarantine } from './quarantine.ts'
import { Runner } from './runner.ts'
import { Starts, type StartQueue } from './starts.ts'
import type { StepOptions } from './step.ts'
import { stepKind } from './steps.ts'

interface ImportWorkOptions extends Omit<StepOptions, 'missedFiles'> {
  engineId: string
  pool: WorkerPool
  /** There are `maxStepSessions` of them. */
  stepSessions: ClientSession[]
  /** One for each chunk lane, and one more. */
  chunkSessions: ClientSession[]
}

const logSpaceEveryMs = 60_000

/**
 * Decides what this engine does for imports that haven't ended. Once a second while there are any, when it is woken, and
 * when the next one is due, it reads those that can be worked on, and offers them to the runners of their kind (kinds.ts):
 *   due, its list free        → start it and claim its first step (starts.ts)
 *   downloading, splitting    → claim its step, if no engine has it (steps.ts)
 *   importing                 → claim chunks while lanes are free (lanes.ts); all done: claim its step, finish it
 *   anything else             → abort what this engine does for it (paused, cancelled)
 * While the disk is full it starts and claims nothing, except to finish imports whose rows are written: that frees space.
 *
 * The state of imports is in their documents alone, so an engine that restarts, or works beside others, reads it there.
 */
export class ImportWork {
  readonly #options: ImportWorkOptions
  readonly #loop: PollLoop
  readonly #doubts: DoubtfulClaims
  readonly #missedFiles: MissedFiles
  readonly #waiting: Starts
  readonly #starts: Runner<StartQueue, ImportDocument>
  readonly #downloads: Runner<WorkingImport, ImportDocument>
  readonly #steps: Runner<WorkingImport, ImportDocument>
  readonly #chunks: Runner<WorkingImport, ChunkDocument>
  /** Where imports were created since the last poll began. It may not have seen them. */
  #created: StartQueue[] = []
  #importsWithoutSpace = 0
  #spaceLoggedAt = -Infinity
  #isResting = false

  constructor(options: ImportWorkOptions) {
    const { database, engineId, metrics, log } = options
    this.#options = options
    this.#loop = new PollLoop({ poll: () => this.#poll(), problem: "imports can't be polled", log })
    this.#doubts = new DoubtfulClaims(database, engineId)
    this.#missedFiles = new MissedFiles(metrics)
    const shared = {
      ...options,
      doubts: this.#doubts,
      quarantine: new Quarantine(() => this.abortAll(), this.wake),
      missedFiles: this.#missedFiles,
    }
    const runnerOptions = { onDrained: this.wake, log }
    this.#waiting = new Starts({ ...shared, onDownload: this.wake })
    const onDrained = () => {
      if (this.#waiting.hasMore && this.#starts.isDrained) this.wake()
    }
    this.#starts = new Runner(this.#waiting.kind, { onDrained, log })
    this.#downloads = new Runner(stepKind('download', shared), runnerOptions)
    this.#steps = new Runner(stepKind('step', shared), runnerOptions)
    this.#chunks = new Runner(chunkKind(shared), runnerOptions)
  }

  start(): void {
    this.#loop.start()
  }

  readonly wake = (): void => {
    this.#loop.wake()
  }

  /** An import was created there. A poll follows, because it may be due later, or not be claimed at once. */
  offerStart(queue: StartQueue): void {
    if (this.#isResting) setTimeout(this.wake, pollIntervalMs).unref()
    this.#isResting = false
    if (!this.#waiting.hasRoom(queue)) return
    this.#created.push(queue)
    this.#starts.offerMore(queue)
    void this.#starts.fill({ isPoll: false })
  }

  get #runners() {
    return [this.#chunks, this.#steps, this.#downloads, this.#starts]
  }

  /** Running steps. */
  get steps(): { download: number; other: number } {
    const other = this.#starts.running.length + this.#steps.running.length
    return { download: this.#downloads.running.length, other }
  }

  /** Why it leaves imports to other engines. Null while it claims all. */
  get problem(): string | null {
    return this.#missedFiles.problem
  }

  /** Imports that the last poll left waiting, because the disk is full. */
  get importsWithoutSpace(): number {
    return this.#importsWithoutSpace
  }

  /** Whether the last poll found nothing that is due or in work. */
  get isResting(): boolean {
    return this.#isResting
  }

  /** Share of the lanes in use. */
  get utilization(): number {
    return this.#chunks.running.length / this.#options.pool.lanes
  }

  /**
   * Claims no more work, lets running batches end, and releases the rest. `isDead`: other engines took this one for dead,
   * and its leases are lost.
   */
  async stop({ isDead }: { isDead: boolean }): Promise<void> {
    await Promise.all([...this.#runners.map((runner) => runner.stop({ isDead })), this.#loop.stop()])
  }

  /** Ends the chunks and steps that run now. Any engine can resume them, this one included. */
  async abortAll(): Promise<void> {
    await Promise.all(this.#runners.map((runner) => runner.abortAll()))
  }

  async #poll(): Promise<number> {
    // Read first: what becomes due from here on is either in it or found by the poll.
    const waitMs = this.#isResting ? await readWaitMs(this.#options.database.collections) : pollIntervalMs
    this.#isResting = await this.#offerWork()
    return this.#isResting ? untilDue([waitMs]) : withJitter(pollIntervalMs)
  }

  /** Resolves to whether there was nothing that is due or in work. */
  async #offerWork(): Promise<boolean> {
    const { database, folder, staging } = this.#options
    await this.#doubts.release()
    if (folder.problem !== null) {
      this.#chunks.abort(() => true)
      for (const runner of this.#runners) runner.offer([])
      return false
    }
    const spaceProblem = await staging.spaceProblem()
    const steps = [...this.#starts.running, ...this.#downloads.running, ...this.#steps.running]
    this.#created = []
    const working = await listWorkingImports(database.collections)
    const startable = await this.#waiting.listQueues(working)
    this.#starts.offer(spaceProblem === null ? [...startable, ...this.#created] : [])
    await this.#starts.fill()

    const tokens = new Set(working.map(({ lease }) => lease.token))
    const lost = new Set(steps.map(({ token }) => token).filter((token) => !tokens.has(token)))
    for (const runner of [this.#starts, this.#downloads, this.#steps])
      runner.abort(({ token }) => lost.has(token))
    const mine = working.filter(({ _id }) => !this.#missedFiles.has(_id))
    const importing = mine.filter(({ state }) => state === 'importing')
    const importingIds = new Set(importing.map(({ _id }) => _id))
    this.#chunks.abort(({ queue }) => !importingIds.has(queue._id))
    this.#chunks.offer(importing)
    await this.#chunks.fill()

    const free = await this.#listFreeSteps(mine)
    const claimable = spaceProblem === null ? free : free.filter(({ state }) => state === 'importing')
    this.#downloads.offer(claimable.filter(({ state }) => state === 'downloading'))
    this.#steps.offer(claimable.filter(({ state }) => state !== 'downloading'))
    await Promise.all([this.#downloads.fill(), this.#steps.fill()])
    const idle = mine.filter((entry) => entry.lease.token === null && !claimable.includes(entry))
    this.#importsWithoutSpace = spaceProblem === null ? 0 : idle.length + startable.length
    if (spaceProblem !== null) this.#logWaiting(spaceProblem)
    const isAnyDue = working.length > 0 || this.#waiting.hasDue || this.#created.length > 0
    return !isAnyDue && this.#starts.running.length === 0 && this.#doubts.isEmpty
  }

  /** The imports whose next step no engine has. */
  async #listFreeSteps(working: readonly WorkingImport[]): Promise<WorkingImport[]> {
    const free = working.filter((entry) => entry.lease.token === null)
    const importing = free.filter(({ state }) => state === 'importing').map(({ _id }) => _id)
    const withChunks = await importsWithOpenChunks(this.#options.database.collections, importing)
    return free.filter(({ _id }) => !withChunks.has(_id))
  }

  /** Logs once a minute how many imports wait for space on the disk. */
  #logWaiting(problem: string): void {
    const imports = this.#importsWithoutSpace
    const now = clock.monotonicMs()
    if (imports === 0 || now - this.#spaceLoggedAt <= logSpaceEveryMs) return
    this.#spaceLoggedAt = now
    this.#options.log.warn({ imports }, `imports wait for space on the disk: ${problem}`)
  }
}
