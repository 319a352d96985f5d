import { readFile, writeFile } from 'node:fs/promises'

/** A process whose CPU time and memory are measured, or several that do the same. */
export interface MeasuredProcess {
  name: string
  /** Of those that run now. */
  pids: () => number[]
  /** CPU time since the start. */
  cpuSeconds: () => Promise<number>
}

/** A process of Rollcall, by its metrics, which cost it 1-2 ms of CPU time a reading and are exact. */
export function measuredProcess(
  name: string,
  metricsUrl: string | undefined,
  pid: number | undefined,
  onMetrics: (metrics: string) => void = () => undefined,
): MeasuredProcess {
  if (metricsUrl === undefined || pid === undefined) throw new Error(`the service has no ${name}`)
  return {
    name,
    pids: () => [pid],
    cpuSeconds: async () => {
      const text = await (await fetch(metricsUrl)).text()
      onMetrics(text)
      return metric(text, 'process_cpu_seconds_total')
    },
  }
}

/** The process in which the benchmark itself runs, with its threads. */
export function thisProcess(name: string): MeasuredProcess {
  const cpuSeconds = async () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
  return { name, pids: () => [process.pid], cpuSeconds }
}

/**
 * The highest resident memory since `resetPeak`, by the kernel (Linux), which misses no moment between two samples. Of
 * several processes the sum; 0 where it isn't known.
 */
export async function readPeakMB(pids: number[]): Promise<number> {
  const texts = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')))
  return texts.reduce((sum, text) => sum + (Number(/^VmHWM:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024) / 1e6, 0)
}

/** Where it isn't allowed, a peak is that since the process's start. */
export const resetPeak = (pid: number): Promise<void> =>
  writeFile(`/proc/${pid}/clear_refs`, '5').catch(() => undefined)

/**
 * Children of this process, by their ids while they run. The CPU time of those that have ended is what the system added
 * to this process. So no other child may end meanwhile. On Linux alone.
 */
export async function childProcesses(name: string, pids: () => number[]): Promise<MeasuredProcess> {
  const readCpu = async () => {
    const all = await Promise.all([
      readCpuSeconds('self', 13),
      ...pids().map((pid) => readCpuSeconds(pid, 11)),
    ])
    return all.reduce((sum, seconds) => sum + seconds, 0)
  }
  const endedBefore = await readCpuSeconds('self', 13)
  let last = 0
  const cpuSeconds = async () => (last = Math.max(last, (await readCpu()) - endedBefore))
  return { name, pids, cpuSeconds }
}

const ticksPerSecond = 100

/** User and system time are two fields beside each other: from 11 on a process's own, from 13 on that of its ended children. */
async function readCpuSeconds(pid: number | 'self', field: 11 | 13): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // After the process's name, which may contain anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[field] ?? 0) + Number(fields[field + 1] ?? 0)) / ticksPerSecond
}

export function metric(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}
