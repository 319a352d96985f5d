import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

interface MemoryGrowth {
  /** In MB, as the others. */
  before: number
  highest: number
  growth: number
}

/** Runs the work, and resolves to the resident memory of a process meanwhile; 0 where the system doesn't show it. */
async function memoryGrowth(pid: number | undefined, work: () => Promise<unknown>): Promise<MemoryGrowth> {
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

/**
 * The least growth of up to three runs, each above the memory before the first one, in MB: uncollected garbage differs
 * each time, what the work costs is there every time. The first run below the bound is the last.
 */
export async function minGrowth(
  pid: number | undefined,
  maxMB: number,
  work: () => Promise<unknown>,
): Promise<number> {
  const { before, growth: first } = await memoryGrowth(pid, work)
  let growth = first
  for (let runs = 1; runs < 3 && growth >= maxMB; runs += 1)
    growth = Math.min(growth, (await memoryGrowth(pid, work)).highest - before)
  return growth
}

async function residentMB(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024
}
