import { setTimeout as sleep } from 'node:timers/promises'
import type { RunningProcess } from './service.ts'

interface Watched {
  processes: Record<string, Pick<RunningProcess, 'ready'>>
}

/**
 * Runs a scenario, and again while its result may be due to a busy machine. Resolves to the first other result, or to
 * that of the third run. With a service a result is in doubt only where this process or one of the service's stood still
 * for a while meanwhile: what the product does too late on a quiet machine is no doubt.
 */
export async function repeatWhile<T>(
  run: (attempt: number) => Promise<T>,
  isDoubtful: (result: T) => boolean,
  service?: Watched,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const stalls = service === undefined ? null : watchStalls(service)
    const result = await run(attempt)
    const hasStalled = stalls === null || (await stalls.longestMs()) > 300
    if (attempt === 3 || !hasStalled || !isDoubtful(result)) return result
  }
}

/** How late a timer of this process is, and how long the processes take to answer that they and the database work. */
function watchStalls({ processes }: Watched) {
  const urls = Object.values(processes).flatMap(({ ready }) => Object.values(ready.metrics))
  let [longestMs, isOver] = [0, false]
  const watch = async (url?: string) => {
    while (!isOver) {
      const startedAt = performance.now()
      await sleep(50)
      if (url !== undefined)
        await fetch(url.replace(/metrics$/, 'readyz'))
          .then((response) => response.text())
          .catch(() => undefined)
      longestMs = Math.max(longestMs, performance.now() - startedAt - 50)
    }
  }
  const watching = Promise.all([undefined, ...urls].map(watch))
  return {
    async longestMs() {
      isOver = true
      await watching
      return longestMs
    },
  }
}
