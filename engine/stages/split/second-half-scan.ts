import { secondHalfOffset } from '../../../shared/csv/partition-file.ts'
import type { ContentFormat, ImportPlan } from '../../../shared/contract/schemas/import.ts'
import { openSource } from '../../../shared/storage/staging/packed-content.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import { countingStaging, StepProgress } from '../../scheduler/step-progress.ts'
import type { FileFindings } from '../../../shared/csv/file-warnings.ts'
import { PartitionOutput, type Range, type RangeContent } from './range-writer.ts'
import { SourceScan } from './source-scan.ts'

/**
 * The second half of a source, scanned by a helper thread while the main thread scans the first half. It begins after a
 * line feed where probably no enclosure is open (findSecondHalf in split.ts). The main thread knows whether that is so
 * when it gets there; if not, it scans the second half too and drops the helper's result.
 */

/** A task for the helper thread. Plain values. */
export interface SecondHalfTask {
  kind: 'second_half'
  /** Names of the staged source, and of the file that the records go to. */
  source: string
  output: string
  /** The bytes [from, to) of the source. */
  from: number
  to: number
  borders: Uint8Array[]
  bufferSize: number
  targetBytes: number
  plan: ImportPlan
  format: ContentFormat
  /** Two Int32: `ownerIndex` and `stopIndex`. */
  cancellation: SharedArrayBuffer
  /** The step's (step-progress.ts). */
  progress: SharedArrayBuffer
}

/** The result of a scan; records and lines count from the beginning of the second half. */
export interface SecondHalfReport {
  records: number
  findings: FileFindings
  /** One for each of the task's ranges. */
  sorted: RangeContent[]
  unidentified: Range[]
}

/**
 * The one of the two threads that first moves the owner from `none` has the task: the helper does it, or the main
 * drops it.
 */
const ownerIndex = 0
const owners = { none: 0, helper: 1, main: 2 } as const
/** 1 asks the helper to stop. */
const stopIndex = 1

/** Runs in the helper thread. Null when the task was dropped before it began, or stopped. */
export async function scanSecondHalf(
  uncounted: Staging,
  task: SecondHalfTask,
): Promise<SecondHalfReport | null> {
  const staging = countingStaging(uncounted, new StepProgress(task.progress))
  const cancellation = new Int32Array(task.cancellation)
  const owner = Atomics.compareExchange(cancellation, ownerIndex, owners.none, owners.helper)
  if (owner !== owners.none) return null
  const isStopped = () => Atomics.load(cancellation, stopIndex) === 1
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
      return { ...ranges, records: scan.sorter.records, findings: scan.sorter.warnings.findings }
    } finally {
      await output.close()
      await file.close()
    }
  } finally {
    await source.close()
  }
}

/** What the main thread needs to have a second half scanned. */
export interface HelperThread {
  /** Names of the staged source, and of the file that the helper writes. */
  source: string
  output: string
  /** Size in bytes from which a source is split by two threads. */
  minBytes?: number | undefined
  progress: SharedArrayBuffer
  scan: (task: SecondHalfTask) => Promise<SecondHalfReport | null>
  /** Told why a scan failed. The main thread scans the second half then, and meets the error itself if it persists. */
  onFailed: (error: unknown) => void
  /** Removes the helper's file when its result is not used. Never rejects. */
  removeOutput: () => Promise<void>
}

/** The main thread's side of a task that the helper does, or will do. */
export class SecondHalfScan {
  readonly #cancellation = new Int32Array(new SharedArrayBuffer(8))
  readonly #ended: Promise<SecondHalfReport | null>

  constructor(
    helper: HelperThread,
    secondHalf: Omit<SecondHalfTask, 'kind' | 'source' | 'output' | 'cancellation' | 'progress'>,
  ) {
    const { source, output, progress } = helper
    this.#ended = helper
      .scan({
        ...secondHalf,
        kind: 'second_half',
        source,
        output,
        progress,
        cancellation: this.#cancellation.buffer,
      })
      .catch((error: unknown) => {
        helper.onFailed(error)
        return null
      })
  }

  /** Null when the scan was stopped, failed, or has not begun; then it never begins. */
  async report(): Promise<SecondHalfReport | null> {
    const owner = Atomics.compareExchange(this.#cancellation, ownerIndex, owners.none, owners.main)
    return owner === owners.helper ? this.#ended : null
  }

  /** Resolves when the helper no longer writes. */
  async stop(): Promise<void> {
    Atomics.store(this.#cancellation, stopIndex, 1)
    await this.report()
  }
}
