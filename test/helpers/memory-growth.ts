import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

interface MemoryGrowth {
  /** In MB, as the others. */
  before: number
  highest: number
  growth: number
}

/** Runs the work, and resolves to the resident memory of a process meanwhile; 0 where the system doesn't show it. */
export async function memoryGrowth(
  pid: number | undefined,
  work: () => Promise<unknown>,
): Promise<MemoryGrowth> {
  const before = await residentMB(pid)
  let highest = before
  let isOver = false
  const sampling = (async () => {
    while (!isOver) {
      highest = Math.max(highest, await residentMB(pid))
      await sleep(20)
    }
  })()
  await work().finally(() => (isOver = true))
  await sampling
  return { before, highest, growth: highest - before }
}

async function residentMB(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024
}
