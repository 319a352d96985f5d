import type { StagedFile, Staging } from '../../shared/storage/staging/staging.ts'

/** Counts the progress of a step: finished reads and writes of its files, subscribers read or changed. */
export class StepProgress {
  count = 0
  /** Whether the step waits for a lane of the worker pool. */
  waitsForLane = (): boolean => false
  /** The reads and writes of files in progress. */
  readonly #waits = new Set<{ for: string }>()

  readonly add = (): void => {
    this.count += 1
  }

  /** The count, for the watchdog. A wait for a lane raises it, because the chunks in the lanes are watched themselves. */
  sample(): number {
    if (this.waitsForLane()) this.add()
    return this.count
  }

  /** What the step waits for, for the log. */
  get waitingFor(): string {
    const waits = [...this.#waits].map((wait) => wait.for)
    return waits.length === 0 ? 'no file' : waits.join(', ')
  }

  /** Counts the end of a read or write of a file, which `what` names. */
  async during<T>(what: string, work: Promise<T>): Promise<T> {
    const wait = { for: what }
    this.#waits.add(wait)
    try {
      return await work
    } finally {
      this.#waits.delete(wait)
      this.add()
    }
  }
}

/**
 * The staging, with each read and write counted when it ends. One that ends after the step was aborted throws the signal's
 * reason. A step that hung thus can't continue with files and a quota that were released meanwhile.
 */
export function countingStaging(staging: Staging, progress: StepProgress, signal?: AbortSignal): Staging {
  const counted = async <T>(what: string, work: Promise<T>): Promise<T> => {
    const result = await progress.during(what, work)
    signal?.throwIfAborted()
    return result
  }
  return {
    ...staging,
    write: (name, content) =>
      counted(`a write of ${name}`, staging.write(name, countPieces(content, progress, signal))),
    create: async (name) => {
      const file = await staging.create(name)
      return {
        append: (buffers) => counted(`a write of ${name}`, file.append(buffers)),
        close: () => file.close(),
      }
    },
    open: async (name) => {
      const file = await progress.during(`the opening of ${name}`, staging.open(name))
      if (signal?.aborted === true) await file?.close()
      signal?.throwIfAborted()
      if (file === null) return null
      return {
        size: file.size,
        read: (target, position) => counted(`a read of ${name}`, file.read(target, position)),
        close: () => file.close(),
      } satisfies StagedFile
    },
  }
}

/** The consumer pulls a piece when it has written the one before it, so a pull counts as a write. */
async function* countPieces(
  content: AsyncIterable<Uint8Array>,
  progress: StepProgress,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const piece of content) {
    yield piece
    signal?.throwIfAborted()
    progress.add()
  }
}
