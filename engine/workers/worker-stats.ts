import type { EventLoopUtilization } from 'node:perf_hooks'
import type { Worker } from 'node:worker_threads'

/** How a worker thread is. */
export interface WorkerStats {
  /** Bytes. */
  heapUsed: number
  heapLimit: number
  /** Share of the time since it was last asked for in which it was computing. */
  computing: number
}

const before = new WeakMap<Worker, EventLoopUtilization>()

/** Asks the threads themselves: one that computes without a pause answers when it comes to it. */
export async function workerStats(threads: readonly Worker[]): Promise<WorkerStats[]> {
  const found = await Promise.all(threads.map((thread) => statsOf(thread).catch(() => null)))
  return found.filter((stats) => stats !== null)
}

async function statsOf(thread: Worker): Promise<WorkerStats> {
  const heap = await thread.getHeapStatistics()
  const now = thread.performance.eventLoopUtilization()
  const last = before.get(thread)
  before.set(thread, now)
  const { utilization } = last === undefined ? now : thread.performance.eventLoopUtilization(now, last)
  return { heapUsed: heap.used_heap_size, heapLimit: heap.heap_size_limit, computing: utilization }
}
