import { measuredProcess } from '../../bench/processes.ts'

const askEveryMs = 500

/** Watches the resident memory of a Rollcall process by its metrics; `stop` resolves to the maximum, in MB. */
export function watchMemory(metricsUrl: string): { stop: () => Promise<number> } {
  const { usage } = measuredProcess('', metricsUrl)
  let peak = 0
  const sample = async () => {
    peak = Math.max(peak, (await usage()).memoryMB)
  }
  const timer = setInterval(() => void sample().catch(() => undefined), askEveryMs)
  return {
    async stop() {
      clearInterval(timer)
      await sample()
      return peak
    },
  }
}
