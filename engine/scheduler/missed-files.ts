import { clock } from '../../shared/runtime/clock.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { recheckDelayMs } from '../store/missing-files.ts'
import type { EngineMetrics } from '../metrics.ts'

/**
 * Imports of which this engine didn't find a staged file, and no other engine has reported it missing since. The likely
 * cause is that this engine's DATA_DIR is another folder than that of the others (engine/store/missing-files.ts).
 */
export class MissedFiles {
  /** By import, the monotonic time at which the engine last missed a file of it. */
  readonly #missedAt = new Map<number, number>()
  readonly #metrics: Pick<EngineMetrics, 'fileMissing'>

  constructor(metrics: Pick<EngineMetrics, 'fileMissing'>) {
    this.#metrics = metrics
  }

  /** Called after the engine has stored in the import that a file of it is missing. */
  record(importId: number): void {
    this.#metrics.fileMissing()
    this.#missedAt.set(importId, clock.monotonicMs())
  }

  /** Why the engine isn't ready. Null when it has missed no file lately. */
  get problem(): string | null {
    const count = this.#missedAt.size
    return count === 0
      ? null
      : `staged files of ${count} imports are missing in DATA_DIR of this engine, and no other engine has missed them: check that all processes have the same folder`
  }

  /** Removes old entries, and those of imports that failed since, because their files are missing on every engine. */
  async removeOld({ imports }: Collections): Promise<void> {
    for (const [id, at] of this.#missedAt)
      if (clock.monotonicMs() - at > recheckDelayMs) this.#missedAt.delete(id)
    if (this.#missedAt.size === 0) return
    const failed = { _id: { $in: [...this.#missedAt.keys()] }, state: 'failed' as const }
    for await (const { _id } of imports.find(failed, { projection: { _id: 1 } })) this.#missedAt.delete(_id)
  }
}
