import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const minIdleShare = 0.5
const waitMs = 3_000
const looks = 10

/**
 * Whether half of the CPU time goes unused, within half a minute: what ran just before may still be ending. What a
 * hypervisor takes away counts as used. Not by the load average, which tells of the last minutes.
 */
export async function becomesQuiet(): Promise<boolean> {
  for (let look = 0; look < looks; look += 1) if ((await idleShare(waitMs)) >= minIdleShare) return true
  return false
}

/** From 0 to 1, over so many milliseconds. */
async function idleShare(milliseconds: number): Promise<number> {
  const [before, startedAt] = [idleMs(), performance.now()]
  await sleep(milliseconds)
  return (idleMs() - before) / ((performance.now() - startedAt) * cpus().length)
}

const idleMs = (): number => cpus().reduce((sum, { times }) => sum + times.idle, 0)
