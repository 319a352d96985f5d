import type { EventLoopUtilization } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import type { Worker } from 'node:worker_threads'
import { Piscina } from 'piscina'
import type { BatchReport } from '../stages/write/chunk-run.ts'
import {
  lanesPerWorker,
  type ChunkReport,
  type ChunkTask,
  type SmallImportReport,
  type SmallImportTask,
  type WorkerStart,
} from './messages.ts'

/** Memory and load of a worker thread. */
export interface WorkerStats {
  /** Bytes. */
  heapUsed: number
  heapLimit: number
  /** Share of the time since the last read in which the thread was computing. */
  computing: number
}

/** The engine's worker threads. */
export type WorkerPool = ReturnType<typeof startWorkerPool>

/**
 * Starts the first thread. The others start with the first chunks that find no free lane, because each takes 25 MB at
 * rest, and small imports need none of them. Each connects to the database itself, and tasks wait until it has. A task is
 * rejected with the error that it threw, or with the reason why its thread ended.
 */
export function startWorkerPool(options: {
  workers: number
  start: WorkerStart
  onBatch: (report: BatchReport) => void
  /** Called when a thread without a task broke off. */
  onError: (error: Error) => void
}) {
  // Little survives a garbage collection, and V8's helper threads delayed each one by 2 ms when the cores were busy.
  setFlagsFromString('--no-parallel-scavenge')
  // Messages to the database count as heap growth, and made V8 mark 20 MB of modules every half second.
  setFlagsFromString('--heap-growing-percent=100')
  const piscina = new Piscina<ChunkTask | SmallImportTask, unknown>({
    filename: new URL('./chunk-worker.ts', import.meta.url).href,
    workerData: options.start,
    minThreads: 1,
    maxThreads: options.workers,
    concurrentTasksPerWorker: lanesPerWorker,
    // A thread that waits in Atomics.wait can't run the heartbeats of its database connections.
    atomics: 'disabled',
    // A thread that ended when idle would close its connections, and the next one would need other stripes and sessions.
    idleTimeout: Infinity,
    // The limit of the old space is a fuse: V8 ends a thread that needs more, and its chunks are done again. With a small
    // young space V8 collects more often, which is cheap because nearly nothing survives.
    resourceLimits: { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 24 },
  })
  piscina.on('message', (message: BatchReport) => {
    options.onBatch(message)
  })
  piscina.on('error', options.onError)
  const lanes = options.workers * lanesPerWorker
  const statsReader = new WorkerStatsReader()
  return {
    /** Chunks that can run at once. */
    lanes,
    run: (task: ChunkTask) => piscina.run(task) as Promise<ChunkReport>,
    /** Waits for a lane before the next chunk does. */
    writeSmallImport: (task: SmallImportTask) => piscina.run(task) as Promise<SmallImportReport>,
    /** Ends the threads without waiting for their tasks. */
    destroy: () => piscina.destroy(),
    stats: () => statsReader.read(piscina.threads),
  }
}

/** Reads the stats of worker threads; each read covers the time since the last one. */
class WorkerStatsReader {
  readonly #last = new WeakMap<Worker, EventLoopUtilization>()

  /** Asks the threads themselves: a busy one answers when its current work pauses. Threads that have ended are left out. */
  async read(threads: readonly Worker[]): Promise<WorkerStats[]> {
    const found = await Promise.all(threads.map((thread) => this.#readThread(thread).catch(() => null)))
    return found.filter((stats) => stats !== null)
  }

  async #readThread(thread: Worker): Promise<WorkerStats> {
    const heap = await thread.getHeapStatistics()
    const now = thread.performance.eventLoopUtilization()
    const last = this.#last.get(thread)
    this.#last.set(thread, now)
    const { utilization } = last === undefined ? now : thread.performance.eventLoopUtilization(now, last)
    return { heapUsed: heap.used_heap_size, heapLimit: heap.heap_size_limit, computing: utilization }
  }
}
