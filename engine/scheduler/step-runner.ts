import { randomUUID } from 'node:crypto'
import type { ClientSession } from 'mongodb'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { WorkingImport } from '../store/import-queues.ts'
import { claimStep } from '../../shared/store/import-steps.ts'
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
/** One for each step in a slot. */
export const maxStepSessions = stepSlots.download + stepSlots.other

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
  #isStopped = false

  constructor(options: StepRunnerOptions) {
    this.#options = options
  }

  get running(): { download: number; other: number } {
    const download = [...this.#steps.values()].filter(({ entry }) => entry.state === 'downloading').length
    return { download, other: this.#steps.size - download }
  }

  isRunning(importId: number): boolean {
    return this.#steps.has(importId)
  }

  countOf(organizationId: number): number {
    return [...this.#steps.values()].filter(({ entry }) => entry.organization_id === organizationId).length
  }

  /** Aborts steps of imports that were paused, cancelled or failed, and those that other engines have taken over. */
  abortUnwanted(working: readonly WorkingImport[]): void {
    const tokens = new Map(working.map((entry) => [entry._id, entry.lease.token]))
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
    const { database, engineId, stepSessions, claims, quarantine, log, onEnded } = this.#options
    if (!this.#mayClaim || !this.#hasSlotFor(entry)) return
    const token = randomUUID()
    const claim = { engineId, token }
    const document = await claims.track(token, claimStep(database.collections, entry._id, entry.state, claim))
    if (document === null) return
    const session = stepSessions.pop()
    if (session === undefined) {
      claims.add(token)
      throw new Error(
        `all ${maxStepSessions} database sessions are in use by ${this.#steps.size} steps: this is a defect of the engine`,
      )
    }
    const abort = new AbortController()
    const step: RunningStep = { entry, token, abort, ended: Promise.resolve() }
    const mayRun = this.#mayClaim
    const run = () => processImport(document, token, { ...this.#options, session, signal: abort.signal })
    const isSuspect = document.lease.deaths >= suspectDeaths && mayRun
    step.ended = (isSuspect ? quarantine.run(run) : run())
      .catch((error: unknown) => {
        claims.add(token)
        log.warn(
          { import_id: entry._id },
          `a step couldn't be released, trying again: ${errorMessage(error)}`,
        )
      })
      .finally(() => {
        this.#steps.delete(entry._id)
        stepSessions.push(session)
        onEnded()
      })
    this.#steps.set(entry._id, step)
    if (this.#isStopped || !mayRun) abort.abort()
  }

  get #mayClaim(): boolean {
    return !this.#options.quarantine.isOccupied && this.#options.folder.problem === null
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
