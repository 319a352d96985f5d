import type { ClientSession } from 'mongodb'
import { clock } from '../../shared/runtime/clock.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { within } from '../../shared/runtime/within.ts'
import { importsWithOpenChunks } from '../../shared/store/chunks.ts'
import { listWorkingImports, type WorkingImport } from '../store/import-queues.ts'
import { ChunkLanes } from './chunk-lanes.ts'
import { DoubtfulClaims } from './doubtful-claims.ts'
import { ImportStarter } from './import-starter.ts'
import { PollLoop, pollIntervalMs, withJitter } from './poll-loop.ts'
import { MissedFiles } from './missed-files.ts'
import { sortRoundRobin } from './organization-rounds.ts'
import { Quarantine } from './quarantine.ts'
import { Finalizer } from './finalizer.ts'
import type { StepContext } from './step.ts'
import { StepRunner } from './step-runner.ts'

interface DispatcherOptions extends Omit<StepContext, 'session' | 'signal' | 'missedFiles'> {
  engineId: string
  /** There are `maxStepSessions` of them. */
  stepSessions: ClientSession[]
  /** One for each chunk lane, and one more. */
  chunkSessions: ClientSession[]
}

/**
 * A stop waits this time for running batches and steps. What runs longer is released when the engine leaves the
 * register (engine.ts).
 */
const graceMs = 4_500
const logSpaceEveryMs = 60_000

/**
 * Decides what this engine does next. Once a second, and at every wake-up, it reads the imports that can be worked on:
 *   due, its list free        → start it (import-starter.ts)
 *   downloading, splitting    → claim its step, if no engine has it (step-runner.ts)
 *   importing                 → claim chunks while lanes are free (chunk-lanes.ts); all done: claim its step, finish it
 *   anything else             → stop what this engine does for it (paused, cancelled)
 * While the disk is full it starts and claims nothing, except to finish imports whose rows are written: that frees space.
 * Organizations take turns in all of it: in rounds for starts and steps, by work done for chunks (chunk-scheduler.ts).
 * A loop of its own finalizes what has ended (finalizer.ts).
 *
 * The state of imports is in their documents alone, so an engine that restarts, or works beside others, reads it there.
 */
export class Dispatcher extends PollLoop {
  readonly #options: DispatcherOptions
  readonly #claims: DoubtfulClaims
  readonly #starter: ImportStarter
  readonly #lanes: ChunkLanes
  readonly #finalizer: Finalizer
  readonly #missedFiles: MissedFiles
  readonly #steps: StepRunner
  #importsWithoutSpace = 0
  #spaceLoggedAt = -Infinity

  constructor(options: DispatcherOptions) {
    super({ problem: "imports can't be polled", log: options.log })
    this.#options = options
    const wake = () => {
      this.wake()
    }
    this.#finalizer = new Finalizer(options)
    this.#claims = new DoubtfulClaims(options.database, options.engineId)
    this.#starter = new ImportStarter({ ...options, onStarted: wake })
    this.#missedFiles = new MissedFiles(options.metrics)
    const shared = {
      ...options,
      claims: this.#claims,
      quarantine: new Quarantine(() => this.stopRunning(), wake),
      missedFiles: this.#missedFiles,
    }
    this.#steps = new StepRunner({ ...shared, onEnded: wake })
    this.#lanes = new ChunkLanes({ ...shared, sessions: options.chunkSessions, onDrained: wake })
  }

  override start(): void {
    super.start()
    this.#finalizer.start()
  }

  override wake(): void {
    super.wake()
    this.#finalizer.wake()
  }

  /** Running steps. */
  get steps(): { download: number; other: number } {
    return this.#steps.running
  }

  /** Why it leaves imports to other engines. Null while it claims all. */
  get problem(): string | null {
    return this.#missedFiles.problem
  }

  /** Imports that the last poll left waiting, because the disk is full. */
  get importsWithoutSpace(): number {
    return this.#importsWithoutSpace
  }

  /** Share of the lanes in use. */
  get utilization(): number {
    return this.#lanes.utilization
  }

  /**
   * Claims no more work, lets running batches end, and releases the rest. `isDead`: other engines took this one for dead,
   * and its leases are lost.
   */
  override async stop({ isDead } = { isDead: false }): Promise<void> {
    const ended = Promise.all([
      this.#lanes.stop({ isDead }),
      super.stop(),
      this.#starter.stop(),
      this.#finalizer.stop(),
      this.#steps.stop(),
    ])
    await within(graceMs, ended, undefined)
  }

  /** Ends what runs now. Any engine can resume it, this one included. */
  async stopRunning(): Promise<void> {
    await Promise.all([this.#lanes.stopRunning(), this.#steps.abortAll()])
  }

  protected override async poll(): Promise<number> {
    const { collections } = this.#options.database
    await this.#claims.release()
    if (this.#options.folder.problem !== null) {
      this.#lanes.setImports([])
      return withJitter(pollIntervalMs)
    }
    const spaceProblem = await this.#options.staging.spaceProblem()
    let working = await listWorkingImports(collections)
    const { started, isMoreDue } = spaceProblem === null ? await this.#starter.startDue(working) : noneStarted
    if (started > 0) working = await listWorkingImports(collections)
    this.#steps.abortUnwanted(working)
    working = working.filter(({ _id }) => !this.#missedFiles.has(_id))
    this.#lanes.setImports(working.filter((entry) => entry.state === 'importing'))
    await this.#lanes.fill()
    const free = await this.#listFreeSteps(working)
    const claimable = spaceProblem === null ? free : free.filter(({ state }) => state === 'importing')
    await this.#startSteps(claimable)
    this.#importsWithoutSpace =
      spaceProblem === null ? 0 : await this.#countWaiting(working, claimable, spaceProblem)
    return started > 0 && isMoreDue ? 0 : withJitter(pollIntervalMs)
  }

  async #startSteps(free: readonly WorkingImport[]): Promise<void> {
    for (const entry of free) {
      if (this.isStopped) break
      try {
        await this.#steps.start(entry)
      } catch (error) {
        this.#options.log.warn(
          { import_id: entry._id },
          `a step of an import can't be claimed, trying again: ${errorMessage(error)}`,
        )
      }
    }
  }

  /** How many imports wait for space on the disk. Logs that once a minute. */
  async #countWaiting(
    working: readonly WorkingImport[],
    claimable: readonly WorkingImport[],
    problem: string,
  ): Promise<number> {
    const idle = working.filter((entry) => entry.lease.token === null && !claimable.includes(entry))
    const waiting = idle.length + (await this.#starter.countDue(working))
    const now = clock.monotonicMs()
    if (waiting > 0 && now - this.#spaceLoggedAt > logSpaceEveryMs) {
      this.#spaceLoggedAt = now
      this.#options.log.warn({ imports: waiting }, `imports wait for space on the disk: ${problem}`)
    }
    return waiting
  }

  /** The imports whose next step no engine has, round-robin by organization. */
  async #listFreeSteps(working: WorkingImport[]): Promise<WorkingImport[]> {
    const free = working.filter((entry) => entry.lease.token === null && !this.#steps.isRunning(entry._id))
    const importing = free.filter((entry) => entry.state === 'importing').map(({ _id }) => _id)
    const withChunks = await importsWithOpenChunks(this.#options.database.collections, importing)
    return sortRoundRobin(
      free.filter(({ _id }) => !withChunks.has(_id)),
      (organizationId) => this.#steps.countOf(organizationId),
    )
  }
}

const noneStarted = { started: 0, isMoreDue: false }
