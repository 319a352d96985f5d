import { measuredProcess } from './processes.ts'

/** CPU and memory of a Rollcall process, from its own metrics. */
export interface ProcessWatch {
  /** CPU seconds since the watch began, and the highest resident memory that was seen, in MB. */
  stop(): Promise<{ cpuSeconds: number; peakMemoryMB: number }>
}

const askEveryMs = 500

export async function watchProcess(metricsUrl: string): Promise<ProcessWatch> {
  const { usage } = measuredProcess('', metricsUrl)
  let peak = 0
  const look = async () => {
    const { cpuSeconds, memoryMB } = await usage()
    peak = Math.max(peak, memoryMB)
    return cpuSeconds
  }
  const before = await look()
  const timer = setInterval(() => void look().catch(() => undefined), askEveryMs)
  return {
    async stop() {
      clearInterval(timer)
      return { cpuSeconds: (await look()) - before, peakMemoryMB: peak }
    },
  }
}

export async function processCpuSeconds(metricsUrl: string): Promise<number> {
  return (await measuredProcess('', metricsUrl).usage()).cpuSeconds
}
