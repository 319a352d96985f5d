import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { clock } from '../shared/clock.ts'
import { messageOf } from '../shared/errors.ts'
import { hasEnded } from '../shared/import-state.ts'
import { DiskReserveReached } from '../shared/staging/disk-reserve.ts'
import { countChunkStates } from '../shared/store/chunks.ts'
import { claimStep } from '../shared/store/import-steps.ts'
import { listWorkingImports, type WorkingImport } from '../shared/store/imports.ts'
import { ChunkLanes } from './chunk-lanes.ts'
import { DoubtfulClaims } from './doubtful-claims.ts'
import { runStep } from './import-run.ts'
import { ImportStarter } from './import-starter.ts'
import { LookLoop, lookEveryMs } from './look-loop.ts'
import { settleImport } from './settle-import.ts'
import { Quarantine, suspectDeaths } from './quarantine.ts'
import type { StepContext } from './step.ts'

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
const tellSpaceEveryMs = 60_000
/** How long a stop waits for running batches before their chunks are left to the lease. */
const graceMs = 4_500

interface RunningStep {
  entry: WorkingImport
  abort: AbortController
  ended: Promise<void>
}

/**
 * Decides what this engine does next. Once a second, and at every ring of the doorbell, it looks at the imports for
 * which there is something to do:
 *
 *   due, its list free        → start it (import-starter.ts)
 *   downloading, splitting    → take its step, if nobody has it (import-run.ts)
 *   importing                 → claim chunks while lanes are free (chunk-lanes.ts); all done: take its step, finish it
 *   ended, not cleared up     → wait until no chunk is held, fix its totals, enter its callback, remove its files
 *   anything else             → stop what this engine does for it (paused, cancelled)
 *
 * It keeps nothing that it couldn't read again: after a restart, or beside other engines, the documents say it all.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #claims: DoubtfulClaims
  readonly #starter: ImportStarter
  readonly #lanes: ChunkLanes
  readonly #quarantine: Quarantine
  readonly #steps = new Map<number, RunningStep>()
  readonly #loop: LookLoop
  #stepsWithoutSpace = 0
  /** The same of the look that goes on. */
  #withoutSpace = 0
  #spaceToldAt = -Infinity

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
    this.#claims = new DoubtfulClaims(options.database, options.engineId)
    this.#starter = new ImportStarter({ ...options, onStarted: this.#loop.wake })
    this.#quarantine = new Quarantine(() => this.#stopRunning(), this.#loop.wake)
    const { wake } = this.#loop
    const shared = { claims: this.#claims, quarantine: this.#quarantine }
    this.#lanes = new ChunkLanes({ ...options, ...shared, onExhausted: wake })
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

  /** That were not taken at the last look, because the disk has too little space left. */
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

  /** Ends what runs now, for others or this engine to go on with. */
  async #stopRunning(): Promise<void> {
    const steps = [...this.#steps.values()]
    for (const step of steps) step.abort.abort()
    await Promise.all([this.#lanes.stopRunning(), ...steps.map((step) => step.ended)])
  }

  async #stop(lanesStopped: Promise<void>): Promise<void> {
    this.#loop.stop()
    for (const step of this.#steps.values()) step.abort.abort()
    const stepsEnded = [...this.#steps.values()].map((step) => step.ended)
    const ended = Promise.all([this.#loop.ended, lanesStopped, this.#starter.stop(), ...stepsEnded])
    await Promise.race([ended, sleep(graceMs, undefined, { ref: false })])
  }

  async #look(): Promise<void> {
    await this.#claims.giveBack()
    await this.#starter.startDue()
    const working = await listWorkingImports(this.#options.database.collections)
    this.#abortUnwantedSteps(working)
    this.#withoutSpace = 0
    this.#lanes.setImports(working.filter((entry) => entry.state === 'importing'))
    await this.#lanes.fill()
    for (const entry of working) {
      if (this.#loop.isStopped) return
      await this.#advance(entry).catch((error: unknown) => {
        this.#options.log.warn(
          { import_id: entry._id },
          `an import can't be taken further, trying again: ${messageOf(error)}`,
        )
      })
    }
    this.#stepsWithoutSpace = this.#withoutSpace
  }

  async #advance(entry: WorkingImport): Promise<void> {
    // Whoever has the step may have a transaction under way that counts.
    if (entry.step !== null || this.#steps.has(entry._id)) return
    if (hasEnded(entry.state)) await settleImport(entry, this.#options)
    else await this.#considerStep(entry)
  }

  /** Of imports that were paused, cancelled or failed. */
  #abortUnwantedSteps(working: WorkingImport[]): void {
    const states = new Map(working.map((entry) => [entry._id, entry.state]))
    for (const [importId, step] of this.#steps) {
      const state = states.get(importId)
      if (state === undefined || hasEnded(state)) step.abort.abort()
    }
  }

  async #considerStep(entry: WorkingImport): Promise<void> {
    const { collections } = this.#options.database
    if (this.#quarantine.isOccupied || !this.#hasSlotFor(entry)) return
    if (entry.state !== 'importing' && !(await this.#hasSpaceFor(entry))) return
    if (entry.state === 'importing') {
      const chunks = await countChunkStates(collections, entry._id)
      if (chunks.ready + chunks.running > 0) return
    }
    const token = randomUUID()
    const claim = { engineId: this.#options.engineId, token }
    const document = await this.#claims.claiming(token, claimStep(collections, entry._id, entry.state, claim))
    if (document === null) return
    const abort = new AbortController()
    const session = this.#options.stepSessions.pop()!
    const isOccupied = this.#quarantine.isOccupied
    const run = () => runStep(document, token, { ...this.#options, session, signal: abort.signal })
    const isSuspect = (document.step_deaths ?? 0) >= suspectDeaths && !isOccupied
    const ended = (isSuspect ? this.#quarantine.run(run) : run())
      .catch((error: unknown) => {
        this.#claims.add(token)
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
    if (this.#loop.isStopped || isOccupied) abort.abort()
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
    const isDownload = (step: WorkingImport): boolean => step.state === 'downloading'
    const alike = [...this.#steps.values()].filter((step) => isDownload(step.entry) === isDownload(entry))
    const own = alike.filter((step) => step.entry.organization_id === entry.organization_id)
    return alike.length < mostStepsOfKind && own.length < mostStepsOfOrganization
  }
}
