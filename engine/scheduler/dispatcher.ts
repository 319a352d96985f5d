import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { clock } from '../../shared/runtime/clock.ts'
import { messageOf } from '../../shared/contract/errors.ts'
import { DiskReserveReached } from '../../shared/storage/staging/disk-reserve.ts'
import { importsWithOpenChunks } from '../../shared/store/chunks.ts'
import { listWorkingImports, type WorkingImport } from '../store/import-queues.ts'
import { withoutMissing } from '../store/missing-files.ts'
import { claimStep, releaseStep } from '../../shared/store/import-steps.ts'
import { ChunkLanes } from './chunk-lanes.ts'
import { DoubtfulClaims } from './doubtful-claims.ts'
import { processImport } from '../process-import.ts'
import { ImportStarter, maxPins } from './import-starter.ts'
import { PollLoop, pollIntervalMs } from './poll-loop.ts'
import { MissedFiles } from './missed-files.ts'
import { inRounds } from './organization-rounds.ts'
import { Quarantine, suspectDeaths } from './quarantine.ts'
import { Finalizer } from './finalizer.ts'
import { mayTakeSlot } from './slots.ts'
import type { StepContext } from './step.ts'

export interface DispatcherOptions extends Omit<StepContext, 'session' | 'signal' | 'missedFiles'> {
  engineId: string
  /** `maxStepSessions` of them. */
  stepSessions: ClientSession[]
  /** One for each lane, and one more. */
  chunkSessions: ClientSession[]
}

/**
 * Downloads have slots of their own, and more of them: one can take 15 minutes and costs little. Organizations share
 * the slots (slots.ts), so that those with slow servers and large files don't hold up the others' imports.
 */
const stepSlots = { download: 16, other: 8 }
/** A split or an end uses the processor and the database all the time: more of them would slow down the others' steps. */
const maxStepsOfOrganization = { download: 4, other: 2 }
/**
 * Steps that were told to end and hang in a read or write, which nothing can break off. Their slots are given back; with
 * so many of them the engine takes no further step, which would most likely hang as well.
 */
const maxHungSteps = 8
/** For each step in a slot, and for hung ones, which may still use theirs. */
export const maxStepSessions = stepSlots.download + stepSlots.other + maxHungSteps
const tellSpaceEveryMs = 60_000
/** How long a stop waits for running batches before their chunks are left to the lease. */
const graceMs = 4_500

interface RunningStep {
  entry: WorkingImport
  token: string
  abort: AbortController
  ended: Promise<void>
}

/**
 * Decides what this engine does next. Once a second, and at every wake-up, it reads the imports for
 * which there is something to do:
 *
 *   due, its list free        → start it (import-starter.ts)
 *   downloading, splitting    → take its step, if nobody has it (process-import.ts)
 *   importing                 → claim chunks while lanes are free (chunk-lanes.ts); all done: take its step, finish it
 *   anything else             → stop what this engine does for it (paused, cancelled)
 *
 * Organizations take turns in all of it. What has ended is cleared up in a loop beside this one (finalizer.ts).
 *
 * It keeps nothing that it couldn't read again: after a restart, or beside other engines, the documents say it all.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #claims: DoubtfulClaims
  readonly #starter: ImportStarter
  readonly #lanes: ChunkLanes
  readonly #finalizer: Finalizer
  readonly #quarantine: Quarantine
  readonly #missedFiles: MissedFiles
  readonly #steps = new Map<number, RunningStep>()
  readonly #hungSteps = new Set<RunningStep>()
  readonly #loop: PollLoop
  #stepsWithoutSpace = 0
  /** The same of the poll in progress. */
  #withoutSpace = 0
  #spaceToldAt = -Infinity

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#loop = new PollLoop({
      poll: async () => {
        const isMoreDue = await this.#poll()
        // Spreads the polls of engines that were started together.
        return isMoreDue ? 0 : pollIntervalMs * (0.8 + 0.4 * Math.random())
      },
      problem: "can't look for work",
      log: options.log,
    })
    const { wake } = this
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

  start(): void {
    this.#loop.start()
    this.#finalizer.start()
  }

  /** Something changed: the next poll begins now. */
  readonly wake = (): void => {
    this.#loop.wake()
    this.#finalizer.wake()
  }

  /** Steps in hand. */
  get steps(): { download: number; other: number } {
    const download = [...this.#steps.values()].filter(({ entry }) => entry.state === 'downloading').length
    return { download, other: this.#steps.size - download }
  }

  /** What was told to end and hangs. */
  get hung(): { step: number; chunk: number; pin: number } {
    return { step: this.#hungSteps.size, chunk: this.#lanes.hung, pin: this.#starter.hung }
  }

  /** Why it takes nothing more, or leaves imports to other engines; null while it does all. */
  get problem(): string | null {
    return this.hangProblem ?? this.#missedFiles.problem
  }

  /** Why it takes nothing more: too much hangs in reads and writes of files. Null while it takes work. */
  get hangProblem(): string | null {
    const { step, chunk, pin } = this.hung
    const { lanes, lanesForChunks } = this.#options.pool
    if (step < maxHungSteps && pin < maxPins && (chunk === 0 || chunk < lanesForChunks())) return null
    return `${step} steps, ${pin} pins of uploaded files and ${chunk} of ${lanes} chunk lanes hang in reads or writes of files, and this engine takes no more: does the file server of DATA_DIR answer? Restart the engine if they don't end when it does`
  }

  /** Steps that the last poll did not take, because the disk has too little space left. */
  get stepsWithoutSpace(): number {
    return this.#stepsWithoutSpace
  }

  /** Share of the lanes in use. */
  get utilization(): number {
    return this.#lanes.utilization
  }

  /** The others took this engine for dead: what it has in hand is no longer its own. */
  stopDead(): Promise<void> {
    return this.#stop(this.#lanes.stopDead())
  }

  /** Stops taking work, lets running batches end, hands back what is left. */
  stop(): Promise<void> {
    return this.#stop(this.#lanes.stop())
  }

  get #mayClaim(): boolean {
    return !this.#quarantine.isOccupied && this.#options.folder.problem === null
  }

  /** Ends what runs now, for others or this engine to go on with. */
  async stopRunning(): Promise<void> {
    const steps = [...this.#steps.values()]
    for (const step of steps) step.abort.abort()
    await Promise.all([this.#lanes.stopRunning(), ...steps.map((step) => step.ended)])
  }

  async #stop(lanesStopped: Promise<void>): Promise<void> {
    this.#loop.stop()
    for (const step of this.#steps.values()) step.abort.abort()
    const stepsEnded = [...this.#steps.values()].map((step) => step.ended)
    const ended = Promise.all([
      this.#loop.ended,
      lanesStopped,
      this.#starter.stop(),
      this.#finalizer.stop(),
      ...stepsEnded,
    ])
    await Promise.race([ended, sleep(graceMs, undefined, { ref: false })])
  }

  /** Resolves to whether there are more imports to be started at once. */
  async #poll(): Promise<boolean> {
    const { collections } = this.#options.database
    await this.#claims.giveBack()
    await this.#missedFiles.forget(collections)
    if (this.#options.folder.problem !== null) {
      this.#lanes.setImports([])
      return false
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
      if (this.#loop.isStopped) break
      await this.#considerStep(entry).catch((error: unknown) => {
        this.#options.log.warn(
          { import_id: entry._id },
          `an import can't be taken further, trying again: ${messageOf(error)}`,
        )
      })
    }
    this.#stepsWithoutSpace = this.#withoutSpace
    return started > 0 && isMoreDue
  }

  /** The imports whose next step no engine has, organizations in turn. */
  async #listFreeSteps(working: WorkingImport[]): Promise<WorkingImport[]> {
    const free = working.filter((entry) => entry.step === null && !this.#steps.has(entry._id))
    const importing = free.filter((entry) => entry.state === 'importing').map(({ _id }) => _id)
    const withChunks = await importsWithOpenChunks(this.#options.database.collections, importing)
    const inHand = [...this.#steps.values()].map((step) => step.entry.organization_id)
    return inRounds(
      free.filter(({ _id }) => !withChunks.has(_id)),
      (organizationId) => inHand.filter((id) => id === organizationId).length,
    )
  }

  /** Of imports that were paused, cancelled or failed, and those that others have taken over. */
  #abortUnwantedSteps(working: WorkingImport[]): void {
    const tokens = new Map(working.map((entry) => [entry._id, entry.step?.token]))
    for (const [importId, step] of this.#steps) if (tokens.get(importId) !== step.token) step.abort.abort()
  }

  async #considerStep(entry: WorkingImport): Promise<void> {
    const { collections } = this.#options.database
    if (!this.#mayClaim || this.#hungSteps.size >= maxHungSteps || !this.#hasSlotFor(entry)) return
    if (entry.state !== 'importing' && !(await this.#hasSpaceFor(entry))) return
    const token = randomUUID()
    const claim = { engineId: this.#options.engineId, token }
    const document = await this.#claims.claiming(token, claimStep(collections, entry._id, entry.state, claim))
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
        this.#leaveHung(step)
      }, this.#options.stepBounds.endMs).unref()
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
          `a step couldn't be given back, trying again: ${messageOf(error)}`,
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
    if (this.#loop.isStopped || !mayRun) abort.abort()
  }

  /**
   * A step that was told to end and hasn't: its import goes on without it. What it still tries to write is refused,
   * because its token is gone.
   */
  #leaveHung(step: RunningStep): void {
    const { entry, token } = step
    const { database, stepBounds, log } = this.#options
    if (this.#steps.get(entry._id) !== step) return
    this.#steps.delete(entry._id)
    this.#hungSteps.add(step)
    log.error(
      { import_id: entry._id, step: entry.state, hung: this.#hungSteps.size },
      `a step (${entry.state}) hasn't ended ${stepBounds.endMs / 1000} s after it was told to: a read or write of its files hangs. Its import goes on without it; does the file server of DATA_DIR answer? With ${maxHungSteps} steps like it this engine takes no more`,
    )
    void releaseStep(database.collections, entry._id, token)
      .catch(() => {
        this.#claims.add(token)
      })
      .finally(this.wake)
  }

  /** With less than the reserve left on the disk nothing is staged, and imports wait as they are. */
  async #hasSpaceFor({ _id }: WorkingImport): Promise<boolean> {
    try {
      await this.#options.staging.checkSpace()
      return true
    } catch (error) {
      if (!(error instanceof DiskReserveReached)) throw error
      this.#withoutSpace += 1
      const now = clock.monotonicMs()
      if (now - this.#spaceToldAt > tellSpaceEveryMs) {
        this.#spaceToldAt = now
        this.#options.log.warn({ import_id: _id }, `imports wait for space on the disk: ${error.message}`)
      }
      return false
    }
  }

  #hasSlotFor(entry: WorkingImport): boolean {
    const kind = kindOf(entry)
    const sameKind = [...this.#steps.values()].filter((step) => kindOf(step.entry) === kind)
    const own = sameKind.filter((step) => step.entry.organization_id === entry.organization_id)
    return mayTakeSlot({
      total: stepSlots[kind],
      taken: sameKind.length,
      takenByOrganization: own.length,
      maxPerOrganization: maxStepsOfOrganization[kind],
    })
  }
}

const kindOf = ({ state }: WorkingImport): 'download' | 'other' =>
  state === 'downloading' ? 'download' : 'other'
