import { clock } from '../../shared/runtime/clock.ts'
import { messageOf } from '../../shared/contract/errors.ts'
import { listEndedImports, listOrganizationsToFinalize, type EndedImport } from '../store/import-queues.ts'
import { PollLoop, pollIntervalMs } from './poll-loop.ts'
import { finalizeImport, type FinalizingContext } from '../stages/finish/finalize-import.ts'

/** Imports that are finalized at the same time. */
const maxAtOnce = 4
/** An import with a running chunk can't be finalized yet, and is tried again after this time. */
const retryMs = 250

/**
 * Finalizes imports that ended: fixes their totals, queues their callbacks, removes their files. It has a poll loop of its
 * own that serves organizations in turn. Neither the start of other imports nor another organization's callback waits
 * until thousands of cancelled imports are finalized.
 */
export class Finalizer {
  readonly #options: FinalizingContext
  readonly #loop: PollLoop
  /** Organizations in the order in which they were served, the latest last. */
  #served: number[] = []
  /** Imports that can't be finalized yet, and when they are tried again, by the monotonic clock. */
  readonly #postponed = new Map<number, { organizationId: number; untilMs: number }>()

  constructor(options: Omit<FinalizingContext, 'removals'>) {
    this.#options = { ...options, removals: new Set() }
    this.#loop = new PollLoop({
      poll: () => this.#poll(),
      problem: "ended imports can't be looked for",
      log: options.log,
    })
  }

  start(): void {
    this.#loop.start()
  }

  /** An import may have ended: the next poll begins now. */
  get wake(): () => void {
    return this.#loop.wake
  }

  /** Resolves when the imports in progress are finalized. */
  async stop(): Promise<void> {
    this.#loop.stop()
    await this.#loop.ended
  }

  /** One round. Resolves to how many milliseconds there is nothing to do. */
  async #poll(): Promise<number> {
    const { collections } = this.#options.database
    for (const [id, { untilMs }] of this.#postponed)
      if (untilMs <= clock.monotonicMs()) this.#postponed.delete(id)
    const open = await listOrganizationsToFinalize(collections)
    this.#served = this.#served.filter((id) => open.includes(id))
    open.sort((a, b) => this.#served.indexOf(a) - this.#served.indexOf(b))
    while (open.length > 0 && !this.#loop.isStopped) {
      const organizations = open.splice(0, maxAtOnce)
      this.#served = [...this.#served.filter((id) => !organizations.includes(id)), ...organizations]
      const entries = await this.#findEnded(organizations)
      await Promise.all(entries.map((entry) => this.#finalizeOrPostpone(entry)))
      // These are finalized or postponed now; the next poll finds others.
      if (entries.length > 0) return 0
    }
    return this.#postponed.size > 0 ? retryMs : pollIntervalMs * (0.8 + 0.4 * Math.random())
  }

  async #findEnded(organizationIds: number[]): Promise<EndedImport[]> {
    const limit = Math.floor(maxAtOnce / organizationIds.length)
    const { collections } = this.#options.database
    const found = await Promise.all(
      organizationIds.map((id) =>
        listEndedImports(collections, id, { without: this.#postponedOf(id), limit }),
      ),
    )
    return found.flat()
  }

  #postponedOf(organizationId: number): number[] {
    return [...this.#postponed]
      .filter(([, entry]) => entry.organizationId === organizationId)
      .map(([id]) => id)
  }

  async #finalizeOrPostpone(entry: EndedImport): Promise<void> {
    const isFinalized = await finalizeImport(entry, this.#options).catch((error: unknown) => {
      this.#options.log.warn(
        { import_id: entry._id },
        `an ended import can't be cleared up after, trying again: ${messageOf(error)}`,
      )
      return false
    })
    if (isFinalized) return
    const untilMs = clock.monotonicMs() + retryMs
    this.#postponed.set(entry._id, { organizationId: entry.organization_id, untilMs })
  }
}
