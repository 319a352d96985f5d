import { clock } from '../../shared/runtime/clock.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { recheckDelayMs } from '../store/missing-files.ts'
import type { EngineMetrics } from '../metrics.ts'

/**
 * Staged files that this engine didn't find and no other engine has missed since: most likely the engine sees another
 * folder than the others (engine/store/missing-files.ts).
 */
export class MissedFiles {
  /** When the engine last missed a file of an import, by the monotonic clock. */
  readonly #missedAt = new Map<number, number>()
  readonly #metrics: Pick<EngineMetrics, 'fileMissing'>

  constructor(metrics: Pick<EngineMetrics, 'fileMissing'>) {
    this.#metrics = metrics
  }

  /** The engine has noted in an import that a file of it is missing. */
  note(importId: number): void {
    this.#metrics.fileMissing()
    this.#missedAt.set(importId, clock.monotonicMs())
  }

  /** Why the engine isn't ready; null where it missed nothing lately. */
  get problem(): string | null {
    const count = this.#missedAt.size
    return count === 0
      ? null
      : `staged files of ${count} imports are missing in DATA_DIR of this engine, and no other engine has missed them: do all processes have the same folder?`
  }

  /** Forgets what is long ago, and imports that failed since: their files are missing everywhere. */
  async forget({ imports }: Collections): Promise<void> {
    for (const [id, at] of this.#missedAt)
      if (clock.monotonicMs() - at > recheckDelayMs) this.#missedAt.delete(id)
    if (this.#missedAt.size === 0) return
    const failed = { _id: { $in: [...this.#missedAt.keys()] }, state: 'failed' as const }
    for await (const { _id } of imports.find(failed, { projection: { _id: 1 } })) this.#missedAt.delete(_id)
  }
}
