import { errorMessage } from '../../shared/contract/errors.ts'
import type { StagedFile, Staging } from '../../shared/storage/staging/staging.ts'
import { stalledAfterMs, stampStep } from '../../shared/store/import-steps.ts'
import type { StepRun } from './step.ts'

/** Bounds by which a step that stands still is detected; all times in milliseconds. */
export const stepBounds = {
  /** Interval of the stamps of a step that moves. */
  stampIntervalMs: 15_000,
  /** Other engines take the step over after this time without a stamp. */
  stalledAfterMs,
  /** A step that was told to end counts as hung after this time, and its engine waits no longer. */
  endTimeoutMs: 5_000,
  /**
   * An import of an uploaded file begins without a pin when its engine hasn't made one by then. Even a slow file server
   * copies the largest file, of 16 MiB, in this time.
   */
  pinTimeoutMs: 60_000,
}

export type StepBounds = typeof stepBounds

/** Counts the progress of a step: finished reads and writes of its files, subscribers read or changed. */
export class StepProgress {
  count = 0

  readonly add = (): void => {
    this.count += 1
  }
}

/**
 * The staging, with each read and write counted when it ends. One that ends after the step was aborted throws the signal's
 * reason. A step that hung thus can't continue with files and a quota that were released meanwhile.
 */
export function countingStaging(staging: Staging, { add }: StepProgress, signal?: AbortSignal): Staging {
  const moved = () => {
    signal?.throwIfAborted()
    add()
  }
  return {
    ...staging,
    write: (name, content) => staging.write(name, counted(content, moved)),
    create: async (name) => {
      const file = await staging.create(name)
      return {
        append: async (buffers) => {
          await file.append(buffers)
          moved()
        },
        close: () => file.close(),
      }
    },
    open: async (name) => {
      const file = await staging.open(name)
      if (signal?.aborted === true) await file?.close()
      moved()
      return file === null ? null : countingFile(file, moved)
    },
  }
}

/** The consumer pulls a piece when it has written the one before it, so a pull counts as a write. */
async function* counted(content: AsyncIterable<Uint8Array>, moved: () => void): AsyncGenerator<Uint8Array> {
  for await (const piece of content) {
    yield piece
    moved()
  }
}

const countingFile = (file: StagedFile, moved: () => void): StagedFile => ({
  size: file.size,
  read: async (target, position) => {
    const read = await file.read(target, position)
    moved()
    return read
  },
  close: () => file.close(),
})

/** Stamps the step at an interval while it makes progress. Returns the function that ends the stamps. */
export function stampWhileMoving({ database, step, progress, stepBounds, log }: StepRun): () => void {
  let stamped = progress.count
  const timer = setInterval(() => {
    const moved = progress.count
    if (moved === stamped) return
    stamped = moved
    stampStep(database.collections, step).catch((error: unknown) => {
      // The next interval stamps in any case.
      stamped = -1
      log.debug(`the progress of a step couldn't be stored, trying again: ${errorMessage(error)}`)
    })
  }, stepBounds.stampIntervalMs)
  return () => {
    clearInterval(timer)
  }
}
