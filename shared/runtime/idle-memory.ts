import { performance } from 'node:perf_hooks'
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const checkEveryMs = 10_000
/** An idle thread runs for less than this share of the time. */
const idleUtilization = 0.02
/** V8 begins with a young generation of this size, and a thread at rest needs no larger one. */
const maxYoungBytes = 4 * 1024 * 1024

/**
 * Returns memory to the system whenever this thread has been idle for 10 s. Its young generation grows while the process
 * starts or has work, and V8 makes it smaller in no ordinary collection. It grows again with the next work.
 */
export function trimHeapWhenIdle(): void {
  let last = performance.eventLoopUtilization()
  setInterval(() => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, last)
    last = now
    const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')
    if (utilization < idleUtilization && (young?.physical_space_size ?? 0) > maxYoungBytes) collectAll()
  }, checkEveryMs).unref()
}

function collectAll(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: Record<string, string>) => void
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}
