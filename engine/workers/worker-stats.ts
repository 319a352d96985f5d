import type { EventLoopUtilization } from 'node:perf_hooks'
import type { Worker } from 'node:worker_threads'

/** Memory and load of a worker thread. */
export interface WorkerStats {
  /** Bytes. */
  heapUsed: number
  heapLimit: number
  /** Share of the time since the last read in which the thread was computing. */
  computing: number
}

/** Reads the stats of worker threads; each read covers the time since the last one. */
export class WorkerStatsReader {
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
