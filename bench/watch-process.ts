/** CPU and memory of a Rollcall process, from its own metrics. */
export interface ProcessWatch {
  /** CPU seconds since the watch began, and the highest resident memory that was seen, in MB. */
  stop(): Promise<{ cpuSeconds: number; peakMemoryMB: number }>
}

const askEveryMs = 500

export async function watchProcess(metricsUrl: string): Promise<ProcessWatch> {
  let peak = 0
  const look = async () => {
    const text = await (await fetch(metricsUrl)).text()
    peak = Math.max(peak, metric(text, 'process_resident_memory_bytes') / 1e6)
    return metric(text, 'process_cpu_seconds_total')
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
  return metric(await (await fetch(metricsUrl)).text(), 'process_cpu_seconds_total')
}

function metric(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}
