import { flushCompileCache } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Ends the process whose id is the argument when the parent process disconnects, or dies, even by SIGKILL. The embedded
 * MongoDB server is started beside this program, because mongod itself doesn't notice the death of its parent.
 */
const pid = Number(process.argv[2])
const stopTimeoutMs = 8_000
const pollIntervalMs = 25

// SIGKILL would end this program before its code is cached, and without the cache it takes 12 MB more.
flushCompileCache()

/** Signal 0 only asks. False when the process is gone. */
function signal(name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}

// A service manager may signal all processes at once, and this one is needed until its parent has ended.
for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, () => undefined)

process.once('disconnect', () => void endProcess())

async function endProcess(): Promise<void> {
  signal('SIGTERM')
  for (let waitedMs = 0; waitedMs < stopTimeoutMs && signal(0); waitedMs += pollIntervalMs)
    await sleep(pollIntervalMs)
  signal('SIGKILL')
}
