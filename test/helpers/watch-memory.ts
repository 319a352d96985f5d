import { metric } from '../../bench/processes.ts'

const askEveryMs = 500

/** Watches the resident memory of a Rollcall process by its metrics; `stop` resolves to the maximum, in MB. */
export function watchMemory(metricsUrl: string): { stop: () => Promise<number> } {
  let peak = 0
  const sample = async () => {
    const metrics = await (await fetch(metricsUrl)).text()
    peak = Math.max(peak, metric(metrics, 'process_resident_memory_bytes') / 1e6)
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
