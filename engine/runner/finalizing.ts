import { clock } from '../../shared/runtime/clock.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { finalizeImport, type FinalizingContext } from '../stages/finish/finalize-import.ts'
import { listEndedImports, listOrganizationsToFinalize, type EndedImport } from '../store/import-queues.ts'
import { slots } from './kinds.ts'
import { PollLoop, pollIntervalMs, restIntervalMs, withJitter } from './poll-loop.ts'
import { Runner } from './runner.ts'

/** An import with a leased chunk can't be finalized yet, and is tried again after this time. */
const postponeMs = 250

/**
 * Finalizes imports that ended: fixes their totals, queues their callbacks, removes their files. It has a poll loop of its
 * own, so that the start of other imports doesn't wait until thousands of cancelled ones are finalized.
 */
export class Finalizing {
  readonly #context: FinalizingContext
  readonly #isResting: () => boolean
  readonly #runner: Runner<{ organization_id: number }, EndedImport>
  readonly #loop: PollLoop
  /** Imports that are being finalized, or can't be yet: the monotonic time at which they may be tried again. */
  readonly #passedOver = new Map<number, number>()

  /** `isResting`: the last poll of imports found none that this or another engine may end. */
  constructor(context: FinalizingContext, isResting: () => boolean) {
    this.#context = context
    this.#isResting = isResting
    const { log } = context
    this.#loop = new PollLoop({ poll: () => this.#poll(), problem: "ended imports can't be read", log })
    this.#runner = new Runner(
      {
        name: 'an ended import',
        slots: slots.finalize,
        keyOf: (queue) => queue.organization_id,
        keyName: 'organization_id',
        mayBegin: () => true,
        claim: (queue) => this.#findEnded(queue.organization_id),
        run: (entry) => this.#finalizeOrPostpone(entry),
      },
      { onDrained: this.wake, log },
    )
  }

  start(): void {
    this.#loop.start()
  }

  readonly wake = (): void => {
    this.#loop.wake()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#runner.stop()])
  }

  async #poll(): Promise<number> {
    // Asked first: what ends after an engine's last poll with work is read by this one.
    const isResting = this.#isResting()
    const now = clock.monotonicMs()
    for (const [id, untilMs] of this.#passedOver) if (untilMs <= now) this.#passedOver.delete(id)
    const organizations = await listOrganizationsToFinalize(this.#context.database.collections)
    this.#runner.offer(organizations.map((id) => ({ organization_id: id })))
    await this.#runner.fill()
    if (this.#passedOver.size > 0) return postponeMs
    return withJitter(isResting && organizations.length === 0 ? restIntervalMs : pollIntervalMs)
  }

  async #findEnded(organizationId: number): Promise<EndedImport | null> {
    const without = [...this.#passedOver.keys()]
    const { collections } = this.#context.database
    const [entry] = await listEndedImports(collections, organizationId, { without, limit: 1 })
    if (entry === undefined) return null
    this.#passedOver.set(entry._id, Infinity)
    return entry
  }

  async #finalizeOrPostpone(entry: EndedImport): Promise<void> {
    const log = this.#context.log.child({ import_id: entry._id })
    const isFinalized = await finalizeImport(entry, { ...this.#context, log }).catch((error: unknown) => {
      log.warn(`an ended import can't be finalized, trying again: ${errorMessage(error)}`)
      return false
    })
    if (isFinalized) this.#passedOver.delete(entry._id)
    else this.#passedOver.set(entry._id, clock.monotonicMs() + postponeMs)
  }
}
