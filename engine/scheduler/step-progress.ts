import { messageOf } from '../../shared/contract/errors.ts'
import type { StagedFile, Staging } from '../../shared/storage/staging/staging.ts'
import { stampStep } from '../../shared/store/import-steps.ts'
import type { StepRun } from './step.ts'

/** How a step that stands still is found out; all times in milliseconds. */
export interface StepBounds {
  /** Between two stamps of a step that moves. */
  stampEveryMs: number
  /** Without a stamp, after which others take the step over. */
  stalledMs: number
  /** Between the order to end and the moment from which on the engine no longer waits for the step. */
  endMs: number
  /** After which an import of an uploaded file begins without the pin that its engine tries to make. */
  pinMs: number
}

export const stepBounds: StepBounds = {
  stampEveryMs: 15_000,
  // Longer than any wait after which a step that is well moves again: 60 s for a silent server or a query, 120 s for a
  // transaction among conflicts.
  stalledMs: 5 * 60_000,
  endMs: 5_000,
  // The largest file that is copied has 16 MiB, which a slow file server has read and written by then.
  pinMs: 60_000,
}

/** Counts what a step moves: reads and writes of its files that ended, subscribers read or changed. Threads share it. */
export class StepProgress {
  readonly shared: SharedArrayBuffer
  readonly #count: Int32Array

  constructor(shared = new SharedArrayBuffer(4)) {
    this.shared = shared
    this.#count = new Int32Array(shared)
  }

  readonly add = (): void => {
    Atomics.add(this.#count, 0, 1)
  }

  get count(): number {
    return Atomics.load(this.#count, 0)
  }
}

/**
 * The staging, with each read and write counted when it ends. Those that end after the step was told to end throw the
 * signal's reason: what hung for long mustn't go on with files and a quota that were given back meanwhile.
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

/** A piece is asked for when the one before it is written. */
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

/** Stamps the step from time to time, where something of it has moved since the last stamp. Returns what ends that. */
export function stampWhileMoving({ database, step, progress, stepBounds, log }: StepRun): () => void {
  let stamped = progress.count
  const timer = setInterval(() => {
    const moved = progress.count
    if (moved === stamped) return
    stamped = moved
    stampStep(database.collections, step).catch((error: unknown) => {
      // The next one stamps whether more has moved or not.
      stamped = -1
      log.debug(`the progress of a step couldn't be noted, trying again: ${messageOf(error)}`)
    })
  }, stepBounds.stampEveryMs)
  return () => {
    clearInterval(timer)
  }
}
