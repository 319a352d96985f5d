import { randomUUID } from 'node:crypto'
import type { ClientSession } from 'mongodb'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { WorkingImport } from '../store/import-queues.ts'
import { claimStep, releaseStep } from '../../shared/store/import-steps.ts'
import { processImport } from '../process-import.ts'
import type { DoubtfulClaims } from './doubtful-claims.ts'
import { type Quarantine, suspectDeaths } from './quarantine.ts'
import { mayTakeSlot } from './slots.ts'
import type { StepContext } from './step.ts'

interface StepRunnerOptions extends Omit<StepContext, 'session' | 'signal'> {
  engineId: string
  /** There are `maxStepSessions` of them. */
  stepSessions: ClientSession[]
  claims: DoubtfulClaims
  quarantine: Quarantine
  /** Called when a step has ended, or its slot is free again. */
  onEnded: () => void
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
export const maxHungSteps = 8
/** One for each step in a slot and for each hung step, which may still use its session. */
export const maxStepSessions = stepSlots.download + stepSlots.other + maxHungSteps

interface RunningStep {
  entry: WorkingImport
  token: string
  abort: AbortController
  ended: Promise<void>
}

/** Claims and runs the steps of imports (obtain, split, finish), within this engine's slots. */
export class StepRunner {
  readonly #options: StepRunnerOptions
  readonly #steps = new Map<number, RunningStep>()
  readonly #hung = new Set<RunningStep>()
  #isStopped = false

  constructor(options: StepRunnerOptions) {
    this.#options = options
  }

  get running(): { download: number; other: number } {
    const download = [...this.#steps.values()].filter(({ entry }) => entry.state === 'downloading').length
    return { download, other: this.#steps.size - download }
  }

  /** Steps that were told to end and haven't. */
  get hung(): number {
    return this.#hung.size
  }

  isRunning(importId: number): boolean {
    return this.#steps.has(importId)
  }

  countOf(organizationId: number): number {
    return [...this.#steps.values()].filter(({ entry }) => entry.organization_id === organizationId).length
  }

  /** Aborts steps of imports that were paused, cancelled or failed, and those that other engines have taken over. */
  abortUnwanted(working: readonly WorkingImport[]): void {
    const tokens = new Map(working.map((entry) => [entry._id, entry.step?.token]))
    for (const [importId, step] of this.#steps) if (tokens.get(importId) !== step.token) step.abort.abort()
  }

  /** Aborts all steps. Resolves when they have ended. */
  async abortAll(): Promise<void> {
    const steps = [...this.#steps.values()]
    for (const step of steps) step.abort.abort()
    await Promise.all(steps.map((step) => step.ended))
  }

  /** The same, and a step whose claim is in progress is aborted too. */
  stop(): Promise<void> {
    this.#isStopped = true
    return this.abortAll()
  }

  /** Claims and begins the import's step, if it is free and there is a slot for it. */
  async start(entry: WorkingImport): Promise<void> {
    const { database, engineId, stepSessions, claims, quarantine, stepBounds, log, onEnded } = this.#options
    if (!this.#mayClaim || this.#hung.size >= maxHungSteps || !this.#hasSlotFor(entry)) return
    const token = randomUUID()
    const claim = { engineId, token }
    const document = await claims.track(token, claimStep(database.collections, entry._id, entry.state, claim))
    if (document === null) return
    const session = stepSessions.pop()
    if (session === undefined) {
      claims.add(token)
      throw new Error(
        `all ${maxStepSessions} database sessions for steps are in use, by ${this.#steps.size} steps that run and ${this.#hung.size} that hang: this is a defect of the engine`,
      )
    }
    const abort = new AbortController()
    const step: RunningStep = { entry, token, abort, ended: Promise.resolve() }
    abort.signal.addEventListener('abort', () => {
      setTimeout(() => {
        this.#releaseHung(step)
      }, stepBounds.endTimeoutMs).unref()
    })
    const mayRun = this.#mayClaim
    const run = () => processImport(document, token, { ...this.#options, session, signal: abort.signal })
    const isSuspect = document.step_deaths >= suspectDeaths && mayRun
    step.ended = (isSuspect ? quarantine.run(run) : run())
      .catch((error: unknown) => {
        claims.add(token)
        log.warn(
          { import_id: entry._id },
          `a step couldn't be released, trying again: ${errorMessage(error)}`,
        )
      })
      .finally(() => {
        if (this.#steps.get(entry._id) === step) this.#steps.delete(entry._id)
        if (this.#hung.delete(step)) log.info({ import_id: entry._id }, 'a step that hung has ended')
        stepSessions.push(session)
        onEnded()
      })
    this.#steps.set(entry._id, step)
    if (this.#isStopped || !mayRun) abort.abort()
  }

  get #mayClaim(): boolean {
    return !this.#options.quarantine.isOccupied && this.#options.folder.problem === null
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
    this.#hung.add(step)
    log.error(
      { import_id: entry._id, step: entry.state, hung: this.#hung.size },
      `a step (${entry.state}) hasn't ended ${stepBounds.endTimeoutMs / 1000} s after it was told to: a read or write of its files hangs. Its import is resumed without it. Check that the file server of DATA_DIR answers: with ${maxHungSteps} hung steps this engine takes no more`,
    )
    void releaseStep(database.collections, entry._id, token)
      .catch(() => {
        this.#options.claims.add(token)
      })
      .finally(() => {
        this.#options.onEnded()
      })
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
