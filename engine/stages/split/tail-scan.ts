import { secondHalfOffset } from '../../../shared/csv/partition-file.ts'
import type { FileFormat, ImportPlan } from '../../../shared/contract/schemas/import.ts'
import { openSource } from '../../../shared/storage/staging/packed-content.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import { countingStaging, StepProgress } from '../../scheduler/step-progress.ts'
import type { Noticed } from './file-warnings.ts'
import { PartitionOutput, type Range, type RangeContent } from './range-writer.ts'
import { SourceScan } from './source-scan.ts'

/**
 * The tail of a source, scanned by a second thread while the first one scans what is before it. It begins behind a
 * line feed, between two lines with an even number of enclosures where some follow each other (findSecondHalf in split.ts),
 * on the guess that none is open there; whether that is so the first thread knows when it comes there, and if not it
 * goes on alone.
 */

/** Plain values: a task for another thread. */
export interface SecondHalfTask {
  kind: 'second_half'
  /** Names of the staged source, and of the file that the records go to. */
  source: string
  output: string
  /** The tail's bytes: [from, to). */
  from: number
  to: number
  borders: Uint8Array[]
  bufferSize: number
  targetBytes: number
  plan: ImportPlan
  format: FileFormat
  /** Two Int32: whose the task is, and whether it is to stop. */
  cancellation: SharedArrayBuffer
  /** The step's (step-progress.ts). */
  progress: SharedArrayBuffer
}

/** What came of it; records and lines count from the tail's beginning. */
export interface SecondHalfReport {
  records: number
  noticed: Noticed
  /** One for each of the task's ranges. */
  sorted: RangeContent[]
  unidentified: Range[]
}

const owner = 0
const stop = 1
const owners = { nobody: 0, second: 1, dropped: 2 } as const

/** In the second thread. Null when the task was dropped before, or stopped. */
export async function scanSecondHalf(
  uncounted: Staging,
  task: SecondHalfTask,
): Promise<SecondHalfReport | null> {
  const staging = countingStaging(uncounted, new StepProgress(task.progress))
  const cancellation = new Int32Array(task.cancellation)
  if (Atomics.compareExchange(cancellation, owner, owners.nobody, owners.second) !== owners.nobody)
    return null
  const isStopped = () => Atomics.load(cancellation, stop) === 1
  const source = await openSource(staging, task.source)
  if (source === null) return null
  try {
    const file = await staging.create(task.output)
    const output = new PartitionOutput(file, secondHalfOffset)
    try {
      const borders = task.borders.map((border) => Buffer.from(border))
      const scan = new SourceScan({ ...task, source, output, borders, isSecondHalf: true })
      await scan.scanTo(task.to, isStopped)
      if (isStopped()) return null
      const ranges = await scan.end()
      return { ...ranges, records: scan.sorter.records, noticed: scan.sorter.warnings.noticed }
    } finally {
      await output.rest()
      await file.close()
    }
  } finally {
    await source.close()
  }
}

export interface HelperThread {
  /** Names of the staged source, and of the file for what comes of its tail. */
  source: string
  output: string
  /** Bytes from which on a source is large. */
  minBytes?: number | undefined
  progress: SharedArrayBuffer
  scan: (task: SecondHalfTask) => Promise<SecondHalfReport | null>
  /** Told what a scan was rejected with: the first thread goes on alone, and meets it too where it lasts. */
  onBrokenOff: (error: unknown) => void
  /** Removes the file for what comes of a tail, when nothing of use did. Never rejects. */
  removeOutput: () => Promise<void>
}

/** In the first thread: the task that another one has, or will have. */
export class SecondHalfScan {
  readonly #cancellation = new Int32Array(new SharedArrayBuffer(8))
  readonly #ended: Promise<SecondHalfReport | null>

  constructor(
    second: HelperThread,
    secondHalf: Omit<SecondHalfTask, 'kind' | 'source' | 'output' | 'cancellation' | 'progress'>,
  ) {
    const { source, output, progress } = second
    this.#ended = second
      .scan({
        ...secondHalf,
        kind: 'second_half',
        source,
        output,
        progress,
        cancellation: this.#cancellation.buffer,
      })
      .catch((error: unknown) => {
        second.onBrokenOff(error)
        return null
      })
  }

  /** Null when there is none: it was stopped, broke off, or hasn't begun, and then never will. */
  report(): Promise<SecondHalfReport | null> {
    const had = Atomics.compareExchange(this.#cancellation, owner, owners.nobody, owners.dropped)
    return had === owners.second ? this.#ended : Promise.resolve(null)
  }

  /** Resolves when nothing is written any more. */
  async stop(): Promise<void> {
    Atomics.store(this.#cancellation, stop, 1)
    await this.report()
  }
}
