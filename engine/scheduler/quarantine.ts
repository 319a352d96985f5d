import { setTimeout as sleep } from 'node:timers/promises'

/** Engines that died of a chunk or a step, one after the other: from then on it runs alone. */
export const suspectDeaths = 2
/** After this number of deaths the import fails. */
export const maxDeaths = 5

/** For the import's `error_message`: what engines that died were doing, and what to do about it. */
export const deathsMessage = (doing: string, deaths: number): string =>
  `${deaths} engines that ${doing} died one after the other, the last ones with nothing else in hand: look for out-of-memory kills and crashes in the engines' logs and their machines', and create the import again`

/** What is told to stop and doesn't, such as a read that hangs, is not waited for any longer. */
const clearTimeoutMs = 10_000
/** What neither ends nor dies, such as a read that hangs, is not alone for longer: others may run beside it. */
const maxAloneMs = 300_000

/**
 * Runs what engines died of with nothing beside it in this engine: where it dies again, nothing else can be the cause,
 * and what only happened to run beside the cause gets on and is cleared of suspicion.
 */
export class Quarantine {
  readonly #stopOthers: () => Promise<unknown>
  readonly #onEnd: () => void
  #occupant: object | null = null

  /** `stopOthers` tells all that runs to stop and resolves when it has; `onEnd`: others may run again. */
  constructor(stopOthers: () => Promise<unknown>, onEnd: () => void) {
    this.#stopOthers = stopOthers
    this.#onEnd = onEnd
  }

  /** Then nothing else is claimed, and what was just being claimed is given back. */
  get isOccupied(): boolean {
    return this.#occupant !== null
  }

  /** The caller notes `work` among what runs after the call, not before: everything noted is told to stop. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const occupant = {}
    this.#occupant = occupant
    const end = () => {
      if (this.#occupant !== occupant) return
      this.#occupant = null
      this.#onEnd()
    }
    const bound = setTimeout(end, maxAloneMs)
    bound.unref()
    try {
      await Promise.race([this.#stopOthers(), sleep(clearTimeoutMs, undefined, { ref: false })])
      return await work()
    } finally {
      clearTimeout(bound)
      end()
    }
  }
}
