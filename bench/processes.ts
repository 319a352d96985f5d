import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

/** A process that does a contender's work, and what it has used so far. */
export interface ProcessOfContender {
  name: string
  usage: () => Promise<Usage>
}

export interface Usage {
  /** Since its start. */
  cpuSeconds: number
  /** Resident, at this moment. */
  memoryMB: number
}

/**
 * A process of Rollcall, by its metrics: right on each system, at 1-2 ms of its CPU time a look. What else they say can
 * be read at each look.
 */
export function measuredProcess(
  name: string,
  metricsUrl: string,
  read: (metrics: string) => void = () => undefined,
): ProcessOfContender {
  return {
    name,
    usage: async () => {
      const text = await (await fetch(metricsUrl)).text()
      read(text)
      return {
        cpuSeconds: metric(text, 'process_cpu_seconds_total'),
        memoryMB: metric(text, 'process_resident_memory_bytes') / 1e6,
      }
    },
  }
}

/** The process in which the benchmark itself runs, its threads included. */
export function thisProcess(name: string): ProcessOfContender {
  return {
    name,
    usage: async () => {
      const { user, system } = process.cpuUsage()
      return { cpuSeconds: (user + system) / 1e6, memoryMB: process.memoryUsage.rss() / 1e6 }
    },
  }
}

/**
 * A child of this process. While it runs it is asked by its id; when it has ended, what the system adds to its parent
 * (on Linux; elsewhere what was seen last stands). So no other child may end meanwhile.
 */
export async function childProcess(name: string, pid: () => number | undefined): Promise<ProcessOfContender> {
  const endedBefore = await endedChildrenCpuSeconds()
  let last: Usage = { cpuSeconds: 0, memoryMB: 0 }
  return {
    name,
    usage: async () => {
      const id = pid()
      if (id === undefined) return last
      const seen = await usageOf(id)
      last = seen ?? {
        cpuSeconds: Math.max(last.cpuSeconds, (await endedChildrenCpuSeconds()) - endedBefore),
        memoryMB: 0,
      }
      return last
    },
  }
}

/** A server that works in children of its own, on Linux; elsewhere nothing is seen of it. */
export function treeOf(name: string, pid: number): ProcessOfContender {
  return {
    name,
    usage: async () => {
      const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
      const pids = children.split(' ').filter((id) => id !== '')
      const usages = await Promise.all([String(pid), ...pids].map(shareOf))
      return {
        cpuSeconds: usages.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
        memoryMB: usages.reduce((sum, { memoryMB }) => sum + memoryMB, 0),
      }
    },
  }
}

/** With what its ended children used; memory that several share counts for each in part. */
async function shareOf(pid: string): Promise<Usage> {
  try {
    const [fields, memory] = [await statFields(pid), await readFile(`/proc/${pid}/smaps_rollup`, 'utf8')]
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
    const share = Number(/^Pss:\s+(\d+) kB/m.exec(memory)?.[1] ?? 0)
    return { cpuSeconds: ticks / ticksPerSecond, memoryMB: (share * 1024) / 1e6 }
  } catch {
    // It has just ended.
    return { cpuSeconds: 0, memoryMB: 0 }
  }
}

const ticksPerSecond = 100

/** Null where there is no such process. */
async function usageOf(pid: number): Promise<Usage | null> {
  if (process.platform !== 'linux') return usageByPs(pid)
  try {
    const [fields, status] = [await statFields(pid), await readFile(`/proc/${pid}/status`, 'utf8')]
    // One that has ended and wasn't waited for has no memory any more.
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

async function usageByPs(pid: number): Promise<Usage | null> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'rss=,time=', '-p', String(pid)])
    const [resident, time] = stdout.trim().split(/\s+/) as [string, string]
    const cpuSeconds = time.split(/[:-]/).reduce((sum, part) => sum * 60 + Number(part), 0)
    return { cpuSeconds, memoryMB: (Number(resident) * 1024) / 1e6 }
  } catch {
    return null
  }
}

async function endedChildrenCpuSeconds(): Promise<number> {
  if (process.platform !== 'linux') return 0
  const fields = await statFields('self')
  return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond
}

/** What stands behind the process's name, which may hold anything. */
async function statFields(pid: number | string): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8')
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

export function metric(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}
