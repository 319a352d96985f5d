import { randomUUID } from 'node:crypto'
import type { ClientSession } from 'mongodb'
import { clock } from '../../shared/runtime/clock.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { within } from '../../shared/runtime/within.ts'
import { DiskReserveReached } from '../../shared/storage/staging/disk-reserve.ts'
import { importsWithOpenChunks } from '../../shared/store/chunks.ts'
import { listWorkingImports, type WorkingImport } from '../store/import-queues.ts'
import { withoutMissing } from '../store/missing-files.ts'
import { claimStep, releaseStep } from '../../shared/store/import-steps.ts'
import { ChunkLanes } from './chunk-lanes.ts'
import { DoubtfulClaims } from './doubtful-claims.ts'
import { processImport } from '../process-import.ts'
import { ImportStarter, maxPins } from './import-starter.ts'
import { PollLoop, pollIntervalMs, withJitter } from './poll-loop.ts'
import { MissedFiles } from './missed-files.ts'
import { sortRoundRobin } from './organization-rounds.ts'
import { Quarantine, suspectDeaths } from './quarantine.ts'
import { Finalizer } from './finalizer.ts'
import { mayTakeSlot } from './slots.ts'
import type { StepContext } from './step.ts'

export interface DispatcherOptions extends Omit<StepContext, 'session' | 'signal' | 'missedFiles'> {
  engineId: string
  /** There are `maxStepSessions` of them. */
  stepSessions: ClientSession[]
  /** One for each chunk lane, and one more. */
  chunkSessions: ClientSession[]
}

/**
 * Downloads have slots of their own: one can take 15 minutes, but costs little. Organizations share the slots
 * (slots.ts), so that one with slow servers and large files doesn't delay the imports of others.
 */
const stepSlots = { download: 16, other: 8 }
/**
 * Splitting and finishing keep the processor and the database busy: more of them would slow down other organizations.
 */
const maxStepsOfOrganization = { download: 4, other: 2 }
/**
 * A step that was aborted may hang in a read or write, which nothing can interrupt. Its slot is released. With this
 * number of hung steps the engine claims no further one, because that would hang as well.
 */
const maxHungSteps = 8
/** One for each step in a slot and for each hung step, which may still use its session. */
export const maxStepSessions = stepSlots.download + stepSlots.other + maxHungSteps
const logSpaceEveryMs = 60_000
/**
 * A stop waits this time for running batches and steps. What runs longer is released when the engine leaves the
 * register (engine.ts).
 */
const graceMs = 4_500

interface RunningStep {
  entry: WorkingImport
  token: string
  abort: AbortController
  ended: Promise<void>
}

/**
 * Decides what this engine does next. Once a second, and at every wake-up, it reads the imports that can be worked on:
 *   due, its list free        → start it (import-starter.ts)
 *   downloading, splitting    → claim its step, if no engine has it (process-import.ts)
 *   importing                 → claim chunks while lanes are free (chunk-lanes.ts); all done: claim its step, finish it
 *   anything else             → stop what this engine does for it (paused, cancelled)
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
  readonly #quarantine: Quarantine
  readonly #missedFiles: MissedFiles
  readonly #steps = new Map<number, RunningStep>()
  readonly #hungSteps = new Set<RunningStep>()
  #stepsWithoutSpace = 0
  /** The same count of the poll in progress. */
  #withoutSpace = 0
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
    this.#quarantine = new Quarantine(() => this.stopRunning(), wake)
    this.#lanes = new ChunkLanes({
      ...options,
      claims: this.#claims,
      quarantine: this.#quarantine,
      missedFiles: this.#missedFiles,
      sessions: options.chunkSessions,
      onDrained: wake,
    })
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
    const download = [...this.#steps.values()].filter(({ entry }) => entry.state === 'downloading').length
    return { download, other: this.#steps.size - download }
  }

  /** Counts of what was told to end and hangs. */
  get hung(): { step: number; chunk: number; pin: number } {
    return { step: this.#hungSteps.size, chunk: this.#lanes.hung, pin: this.#starter.hung }
  }

  /** Why it claims no more work, or leaves imports to other engines. Null while it claims all. */
  get problem(): string | null {
    return this.hangProblem ?? this.#missedFiles.problem
  }

  /** Why it claims no more work: too much hangs in reads and writes of files. Null while it claims work. */
  get hangProblem(): string | null {
    const { step, chunk, pin } = this.hung
    const { lanes, lanesForChunks } = this.#options.pool
    if (step < maxHungSteps && pin < maxPins && (chunk === 0 || chunk < lanesForChunks())) return null
    return `${step} steps, ${pin} pins of uploaded files and ${chunk} of ${lanes} chunk lanes hang in reads or writes of files, and this engine takes no more work: check that the file server of DATA_DIR answers, and restart the engine if they don't end then`
  }

  /** Steps that the last poll did not claim, because the disk has too little space left. */
  get stepsWithoutSpace(): number {
    return this.#stepsWithoutSpace
  }

  /** Share of the lanes in use. */
  get utilization(): number {
    return this.#lanes.utilization
  }

  /** The stop of an engine that others took for dead, and whose leases are lost. */
  stopDead(): Promise<void> {
    return this.#stop(this.#lanes.stopDead())
  }

  /** Claims no more work, lets running batches end, and releases the rest. */
  override stop(): Promise<void> {
    return this.#stop(this.#lanes.stop())
  }

  get #mayClaim(): boolean {
    return !this.#quarantine.isOccupied && this.#options.folder.problem === null
  }

  /** Ends what runs now. Any engine can resume it, this one included. */
  async stopRunning(): Promise<void> {
    const steps = [...this.#steps.values()]
    for (const step of steps) step.abort.abort()
    await Promise.all([this.#lanes.stopRunning(), ...steps.map((step) => step.ended)])
  }

  async #stop(lanesStopped: Promise<void>): Promise<void> {
    const loopEnded = super.stop()
    for (const step of this.#steps.values()) step.abort.abort()
    const stepsEnded = [...this.#steps.values()].map((step) => step.ended)
    const ended = Promise.all([
      loopEnded,
      lanesStopped,
      this.#starter.stop(),
      this.#finalizer.stop(),
      ...stepsEnded,
    ])
    await within(graceMs, ended, undefined)
  }

  protected override async poll(): Promise<number> {
    const { collections } = this.#options.database
    await this.#claims.release()
    await this.#missedFiles.removeOld(collections)
    if (this.#options.folder.problem !== null) {
      this.#lanes.setImports([])
      return withJitter(pollIntervalMs)
    }
    let working = await listWorkingImports(collections)
    const { started, isMoreDue } = await this.#starter.startDue(working)
    if (started > 0) working = await listWorkingImports(collections)
    this.#abortUnwantedSteps(working)
    working = await withoutMissing(collections, working, this.#options.engineId)
    this.#withoutSpace = 0
    this.#lanes.setImports(working.filter((entry) => entry.state === 'importing'))
    await this.#lanes.findHung()
    await this.#lanes.fill()
    for (const entry of await this.#listFreeSteps(working)) {
      if (this.isStopped) break
      await this.#startStep(entry).catch((error: unknown) => {
        this.#options.log.warn(
          { import_id: entry._id },
          `a step of an import can't be claimed, trying again: ${errorMessage(error)}`,
        )
      })
    }
    this.#stepsWithoutSpace = this.#withoutSpace
    return started > 0 && isMoreDue ? 0 : withJitter(pollIntervalMs)
  }

  /** The imports whose next step no engine has, round-robin by organization. */
  async #listFreeSteps(working: WorkingImport[]): Promise<WorkingImport[]> {
    const free = working.filter((entry) => entry.step === null && !this.#steps.has(entry._id))
    const importing = free.filter((entry) => entry.state === 'importing').map(({ _id }) => _id)
    const withChunks = await importsWithOpenChunks(this.#options.database.collections, importing)
    const running = [...this.#steps.values()].map((step) => step.entry.organization_id)
    return sortRoundRobin(
      free.filter(({ _id }) => !withChunks.has(_id)),
      (organizationId) => running.filter((id) => id === organizationId).length,
    )
  }

  /** Aborts steps of imports that were paused, cancelled or failed, and those that other engines have taken over. */
  #abortUnwantedSteps(working: WorkingImport[]): void {
    const tokens = new Map(working.map((entry) => [entry._id, entry.step?.token]))
    for (const [importId, step] of this.#steps) if (tokens.get(importId) !== step.token) step.abort.abort()
  }

  /** Claims and begins the import's step, if it is free and there is a slot and space for it. */
  async #startStep(entry: WorkingImport): Promise<void> {
    const { collections } = this.#options.database
    if (!this.#mayClaim || this.#hungSteps.size >= maxHungSteps || !this.#hasSlotFor(entry)) return
    if (entry.state !== 'importing' && !(await this.#hasSpaceFor(entry))) return
    const token = randomUUID()
    const claim = { engineId: this.#options.engineId, token }
    const document = await this.#claims.track(token, claimStep(collections, entry._id, entry.state, claim))
    if (document === null) return
    const session = this.#options.stepSessions.pop()
    if (session === undefined) {
      this.#claims.add(token)
      throw new Error(
        `all ${maxStepSessions} database sessions for steps are in use, by ${this.#steps.size} steps that run and ${this.#hungSteps.size} that hang: this is a defect of the engine`,
      )
    }
    const abort = new AbortController()
    const step: RunningStep = { entry, token, abort, ended: Promise.resolve() }
    abort.signal.addEventListener('abort', () => {
      setTimeout(() => {
        this.#releaseHung(step)
      }, this.#options.stepBounds.endTimeoutMs).unref()
    })
    const mayRun = this.#mayClaim
    const run = () =>
      processImport(document, token, {
        ...this.#options,
        missedFiles: this.#missedFiles,
        session,
        signal: abort.signal,
      })
    const isSuspect = (document.step_deaths ?? 0) >= suspectDeaths && mayRun
    step.ended = (isSuspect ? this.#quarantine.run(run) : run())
      .catch((error: unknown) => {
        this.#claims.add(token)
        this.#options.log.warn(
          { import_id: entry._id },
          `a step couldn't be released, trying again: ${errorMessage(error)}`,
        )
      })
      .finally(() => {
        if (this.#steps.get(entry._id) === step) this.#steps.delete(entry._id)
        if (this.#hungSteps.delete(step))
          this.#options.log.info({ import_id: entry._id }, 'a step that hung has ended')
        this.#options.stepSessions.push(session)
        this.wake()
      })
    this.#steps.set(entry._id, step)
    if (this.isStopped || !mayRun) abort.abort()
  }

  /**
   * Releases a step that was told to end and hasn't, so that any engine can resume its import. Later writes of the hung
   * step are refused, because its token is gone.
   */
  #releaseHung(step: RunningStep): void {
    const { entry, token } = step
    const { database, stepBounds, log } = this.#options
    if (this.#steps.get(entry._id) !== step) return
    this.#steps.delete(entry._id)
    this.#hungSteps.add(step)
    log.error(
      { import_id: entry._id, step: entry.state, hung: this.#hungSteps.size },
      `a step (${entry.state}) hasn't ended ${stepBounds.endTimeoutMs / 1000} s after it was told to: a read or write of its files hangs. Its import is resumed without it. Check that the file server of DATA_DIR answers: with ${maxHungSteps} hung steps this engine takes no more`,
    )
    void releaseStep(database.collections, entry._id, token)
      .catch(() => {
        this.#claims.add(token)
      })
      .finally(() => {
        this.wake()
      })
  }

  /** With less space on the disk than the reserve, nothing is staged and imports wait. */
  async #hasSpaceFor({ _id }: WorkingImport): Promise<boolean> {
    try {
      await this.#options.staging.checkSpace()
      return true
    } catch (error) {
      if (!(error instanceof DiskReserveReached)) throw error
      this.#withoutSpace += 1
      const now = clock.monotonicMs()
      if (now - this.#spaceLoggedAt > logSpaceEveryMs) {
        this.#spaceLoggedAt = now
        this.#options.log.warn({ import_id: _id }, `imports wait for space on the disk: ${error.message}`)
      }
      return false
    }
  }

  #hasSlotFor(entry: WorkingImport): boolean {
    const kind = stepKind(entry)
    const sameKind = [...this.#steps.values()].filter((step) => stepKind(step.entry) === kind)
    const ofOrganization = sameKind.filter((step) => step.entry.organization_id === entry.organization_id)
    return mayTakeSlot({
      total: stepSlots[kind],
      taken: sameKind.length,
      takenByOrganization: ofOrganization.length,
      maxPerOrganization: maxStepsOfOrganization[kind],
    })
  }
}

const stepKind = ({ state }: WorkingImport): 'download' | 'other' =>
  state === 'downloading' ? 'download' : 'other'
