import { setFlagsFromString } from 'node:v8'
import { Piscina } from 'piscina'
import type { SecondHalfReport, SecondHalfTask } from '../stages/split/tail-scan.ts'
import type { BatchReport } from '../stages/write/batch-writer.ts'
import { lanesPerWorker, type ChunkReport, type ChunkTask, type WorkerStart } from './messages.ts'
import { workerStats, type WorkerStats } from './worker-stats.ts'

/** The engine's worker threads. */
export interface WorkerPool {
  /** Chunks that can run at once, while no tail is scanned. */
  lanes: number
  /** Those that tails leave them, half of all at least. */
  lanesForChunks: () => number
  run(task: ChunkTask): Promise<ChunkReport>
  /** Has the next lane that is free; null where it isn't to have one. */
  runSecondHalf(task: SecondHalfTask): Promise<SecondHalfReport | null>
  /** Ends the threads at once. */
  destroy(): Promise<void>
  /** How the threads are. */
  stats(): Promise<WorkerStats[]>
}

/**
 * Starts the threads, which connect for themselves; tasks wait until they have. A task is rejected with what it threw, or
 * with why its thread broke off or was ended.
 */
export function startWorkerPool(options: {
  workers: number
  start: WorkerStart
  onBatch: (report: BatchReport) => void
  /** Chunks may have a lane that a tail had. */
  onSecondHalfEnd: () => void
  /** A thread broke off that had no task in hand. */
  onError: (error: Error) => void
}): WorkerPool {
  // Little survives a collection, and helpers that have to wait for a busy core first held each one up for 2 ms.
  setFlagsFromString('--no-parallel-scavenge')
  // Messages on their way to the database count as growth, and had 20 MB of modules marked again every half second.
  setFlagsFromString('--heap-growing-percent=100')
  const piscina = new Piscina<ChunkTask | SecondHalfTask, unknown>({
    filename: new URL('./chunk-worker.ts', import.meta.url).href,
    workerData: options.start,
    minThreads: options.workers,
    maxThreads: options.workers,
    concurrentTasksPerWorker: lanesPerWorker,
    // A thread that waits in Atomics.wait can't answer the database's heartbeats.
    atomics: 'disabled',
    // A thread that ends when idle takes its connections with it.
    idleTimeout: Infinity,
    // The old space is a fuse: a thread that needs more is ended, and its chunks are done again. V8 takes a small young
    // space for a reason to collect more often, which is cheap where nearly nothing survives.
    resourceLimits: { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 24 },
  })
  piscina.on('message', (message: BatchReport) => {
    options.onBatch(message)
  })
  piscina.on('error', options.onError)
  const lanes = options.workers * lanesPerWorker
  let tails = 0
  return {
    lanes,
    lanesForChunks: () => lanes - tails,
    run: (task) => piscina.run(task) as Promise<ChunkReport>,
    runSecondHalf: async (task) => {
      // Of many large files at once some are split by one thread: other imports' chunks aren't to wait for them.
      if (tails === options.workers) return null
      tails += 1
      try {
        return (await piscina.run(task)) as SecondHalfReport | null
      } finally {
        tails -= 1
        options.onSecondHalfEnd()
      }
    },
    destroy: () => piscina.destroy(),
    stats: () => workerStats(piscina.threads),
  }
}
