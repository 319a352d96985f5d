import { within } from '../../shared/runtime/within.ts'

/** A chunk or step runs alone once this number of engines died while they had its lease. */
export const suspectDeaths = 2
/** After this number of deaths the import fails. */
export const maxDeaths = 5

/** The import's `error_message`. `activity` says what the engines were doing: "split the file". */
export const deathsMessage = (activity: string, deaths: number): string =>
  `${deaths} engines that ${activity} died one after the other, the last ones while they did nothing else: search the logs of the engines and their machines for out-of-memory kills and crashes, and create the import again`

/** Work that was told to stop is waited for up to this time, because a read may hang. */
export const stopTimeoutMs = 10_000
/** Work that neither ends nor kills the engine may hang; after this time others run beside it again. */
export const maxIsolationMs = 300_000

/**
 * Runs a suspect chunk or step, on which engines died, alone in this engine. When this engine dies too, nothing else
 * can be the cause. A chunk or step that only happened to run beside the cause succeeds alone and is no longer suspect.
 */
export class Quarantine {
  readonly #stopOthers: () => Promise<unknown>
  readonly #onEnd: () => void
  #occupant: object | null = null

  /**
   * `stopOthers` stops all running work and resolves when it has ended; `onEnd` is called when other work may run
   * again.
   */
  constructor(stopOthers: () => Promise<unknown>, onEnd: () => void) {
    this.#stopOthers = stopOthers
    this.#onEnd = onEnd
  }

  /** While something runs alone, nothing else is claimed, and claims in flight are released. */
  get isOccupied(): boolean {
    return this.#occupant !== null
  }

  /** Call it before `work` is listed as running: everything listed is stopped first. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const occupant = {}
    this.#occupant = occupant
    const end = () => {
      if (this.#occupant !== occupant) return
      this.#occupant = null
      this.#onEnd()
    }
    const timer = setTimeout(end, maxIsolationMs)
    timer.unref()
    try {
      await within(stopTimeoutMs, this.#stopOthers(), undefined)
      return await work()
    } finally {
      clearTimeout(timer)
      end()
    }
  }
}
