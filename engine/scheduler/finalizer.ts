import { clock } from '../../shared/runtime/clock.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { listEndedImports, listOrganizationsToFinalize, type EndedImport } from '../store/import-queues.ts'
import { PollLoop, pollIntervalMs, withJitter } from './poll-loop.ts'
import { finalizeImport, type FinalizingContext } from '../stages/finish/finalize-import.ts'

/** Imports that are finalized at the same time. */
const maxAtOnce = 4
/** An import with a leased chunk can't be finalized yet, and is tried again after this time. */
const postponeMs = 250

/**
 * Finalizes imports that ended: fixes their totals, queues their callbacks, removes their files. It has a poll loop of its
 * own that serves organizations in turn. Neither the start of other imports nor another organization's callback waits
 * until thousands of cancelled imports are finalized.
 */
export class Finalizer extends PollLoop {
  readonly #options: FinalizingContext
  /** Organizations in the order in which they were served, the latest last. */
  #served: number[] = []
  /** Imports that can't be finalized yet, with the monotonic time at which they are tried again. */
  readonly #postponed = new Map<number, number>()

  constructor(options: FinalizingContext) {
    super({ problem: "ended imports can't be read", log: options.log })
    this.#options = options
  }

  protected override async poll(): Promise<number> {
    const { collections } = this.#options.database
    for (const [id, untilMs] of this.#postponed)
      if (untilMs <= clock.monotonicMs()) this.#postponed.delete(id)
    const open = await listOrganizationsToFinalize(collections)
    this.#served = this.#served.filter((id) => open.includes(id))
    open.sort((a, b) => this.#served.indexOf(a) - this.#served.indexOf(b))
    while (open.length > 0 && !this.isStopped) {
      const organizations = open.splice(0, maxAtOnce)
      this.#served = [...this.#served.filter((id) => !organizations.includes(id)), ...organizations]
      const entries = await this.#findEnded(organizations)
      await Promise.all(entries.map((entry) => this.#finalizeOrPostpone(entry)))
      // These are finalized or postponed now; the next poll finds others.
      if (entries.length > 0) return 0
    }
    return this.#postponed.size > 0 ? postponeMs : withJitter(pollIntervalMs)
  }

  async #findEnded(organizationIds: number[]): Promise<EndedImport[]> {
    const limit = Math.floor(maxAtOnce / organizationIds.length)
    const { collections } = this.#options.database
    const without = [...this.#postponed.keys()]
    const found = await Promise.all(
      organizationIds.map((id) => listEndedImports(collections, id, { without, limit })),
    )
    return found.flat()
  }

  async #finalizeOrPostpone(entry: EndedImport): Promise<void> {
    const isFinalized = await finalizeImport(entry, this.#options).catch((error: unknown) => {
      this.#options.log.warn(
        { import_id: entry._id },
        `an ended import can't be finalized, trying again: ${errorMessage(error)}`,
      )
      return false
    })
    if (!isFinalized) this.#postponed.set(entry._id, clock.monotonicMs() + postponeMs)
  }
}
