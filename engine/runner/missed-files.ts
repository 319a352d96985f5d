import { clock } from '../../shared/runtime/clock.ts'
import type { EngineMetrics } from '../metrics.ts'

/** An engine that missed a staged file of an import leaves the import alone for this time. */
export const leaveAloneMs = 60_000

/**
 * Imports of which this engine didn't find a staged file, although DATA_DIR has the mark of the installation. Each miss
 * is a failed try. Then the engine leaves the import alone for a while, so that others which see the file come first,
 * and so that a file server whose clients see new files late has time.
 */
export class MissedFiles {
  /** By import, the monotonic time until which the engine leaves it alone. */
  readonly #until = new Map<number, number>()
  readonly #metrics: Pick<EngineMetrics, 'fileMissing'>

  constructor(metrics: Pick<EngineMetrics, 'fileMissing'>) {
    this.#metrics = metrics
  }

  record(importId: number): void {
    this.#metrics.fileMissing()
    this.#until.set(importId, clock.monotonicMs() + leaveAloneMs)
  }

  /** Whether the engine leaves the import alone now. */
  has(importId: number): boolean {
    if (clock.monotonicMs() >= (this.#until.get(importId) ?? Infinity)) this.#until.delete(importId)
    return this.#until.has(importId)
  }

  /** Why the engine isn't ready. Null when it has missed no file lately. */
  get problem(): string | null {
    const count = [...this.#until.keys()].filter((id) => this.has(id)).length
    return count === 0
      ? null
      : `staged files of ${count} imports are missing in DATA_DIR of this engine: check that all processes have the same folder`
  }
}
