import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const minIdleShare = 0.5
const sampleMs = 3_000
const maxSamples = 10

/**
 * Waits until half of the CPU time is unused, for half a minute at most. The load average isn't asked, because it covers
 * the last minutes. Time that a hypervisor takes counts as used.
 */
export async function becomesQuiet(): Promise<boolean> {
  for (let i = 0; i < maxSamples; i += 1) {
    const [before, startedAt] = [idleMs(), performance.now()]
    await sleep(sampleMs)
    const idleShare = (idleMs() - before) / ((performance.now() - startedAt) * cpus().length)
    if (idleShare >= minIdleShare) return true
  }
  return false
}

const idleMs = (): number => cpus().reduce((sum, { times }) => sum + times.idle, 0)
