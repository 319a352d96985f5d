import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

/** A process whose CPU time and memory are measured. */
export interface MeasuredProcess {
  name: string
  usage: () => Promise<Usage>
}

export interface Usage {
  /** Since its start. */
  cpuSeconds: number
  /** Resident, now. */
  memoryMB: number
}

/** A process of Rollcall, by its metrics. This works on each system and costs it 1-2 ms of CPU time a reading. */
export function measuredProcess(
  name: string,
  metricsUrl: string | undefined,
  onMetrics: (metrics: string) => void = () => undefined,
): MeasuredProcess {
  if (metricsUrl === undefined) throw new Error(`the service has no metrics of the ${name}`)
  return {
    name,
    usage: async () => {
      const text = await (await fetch(metricsUrl)).text()
      onMetrics(text)
      return {
        cpuSeconds: metric(text, 'process_cpu_seconds_total'),
        memoryMB: metric(text, 'process_resident_memory_bytes') / 1e6,
      }
    },
  }
}

/** The process in which the benchmark itself runs, with its threads. */
export function thisProcess(name: string): MeasuredProcess {
  return {
    name,
    usage: async () => {
      const { user, system } = process.cpuUsage()
      return { cpuSeconds: (user + system) / 1e6, memoryMB: process.memoryUsage.rss() / 1e6 }
    },
  }
}

/**
 * A child of this process, by its id while it runs. When it has ended, its CPU time is what the system added to this
 * process (on Linux; elsewhere the last sample stays). So no other child may end meanwhile.
 */
export async function childProcess(name: string, pid: () => number | undefined): Promise<MeasuredProcess> {
  const endedBefore = await endedChildrenCpuSeconds()
  let last: Usage = { cpuSeconds: 0, memoryMB: 0 }
  return {
    name,
    usage: async () => {
      const id = pid()
      if (id === undefined) return last
      const ofEnded = async () => ({
        cpuSeconds: Math.max(last.cpuSeconds, (await endedChildrenCpuSeconds()) - endedBefore),
        memoryMB: 0,
      })
      last = (await usageOfProcess(id)) ?? (await ofEnded())
      return last
    },
  }
}

const ticksPerSecond = 100

/** Null where there is no such process. */
async function usageOfProcess(pid: number): Promise<Usage | null> {
  try {
    if (process.platform !== 'linux') return await usageByPs(pid)
    const [fields, status] = [await statFields(pid), await readFile(`/proc/${pid}/status`, 'utf8')]
    // A zombie has no memory any more.
    const resident = /^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]
    if (resident === undefined) return null
    return {
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond,
      memoryMB: (Number(resident) * 1024) / 1e6,
    }
  } catch {
    return null
  }
}

async function usageByPs(pid: number): Promise<Usage> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'rss=,time=', '-p', String(pid)])
  const [resident, time = ''] = stdout.trim().split(/\s+/)
  const cpuSeconds = time.split(/[:-]/).reduce((sum, part) => sum * 60 + Number(part), 0)
  return { cpuSeconds, memoryMB: (Number(resident) * 1024) / 1e6 }
}

async function endedChildrenCpuSeconds(): Promise<number> {
  if (process.platform !== 'linux') return 0
  const fields = await statFields('self')
  return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond
}

/** The fields after the process's name, which may contain anything. */
async function statFields(pid: number | string): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8')
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

export function metric(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}
