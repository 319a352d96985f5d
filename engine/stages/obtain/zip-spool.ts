import type { SpooledFile } from '../../../shared/containers/unpack.ts'
import type { StepRun } from '../../scheduler/step.ts'

/**
 * Stores the zips of a source next to it in the staging while they are unpacked: at most two, the second of which is in
 * the first.
 */
export class ZipSpool {
  readonly #run: StepRun
  readonly #target: string
  readonly #within: 'all' | 'staged'
  /** Sizes of the zips that are there, by their staged names. */
  readonly #sizes = new Map<string, number>()

  constructor(run: StepRun, { target, within }: { target: string; within: 'all' | 'staged' }) {
    this.#run = run
    this.#target = target
    this.#within = within
  }

  /** Throws ImportError `quota_exceeded`, and the errors of the staging. */
  async store(content: AsyncIterable<Buffer>): Promise<SpooledFile> {
    const { staging, quota, document } = this.#run
    const name = `${this.#target}-zip${this.#sizes.size}`
    const besides = () => [...this.#sizes.values()].reduce((sum, size) => sum + size, 0)
    const size = await staging.write(name, quota.reserved(document, content, this.#within, besides))
    const file = await staging.open(name)
    if (file === null) throw new Error(`the staged file ${name} is gone: was DATA_DIR/staging emptied?`)
    this.#sizes.set(name, size)
    return {
      size,
      read: (target, position) => file.read(target, position),
      close: async () => {
        this.#sizes.delete(name)
        await file.close()
        await staging.remove(name)
      },
    }
  }
}
