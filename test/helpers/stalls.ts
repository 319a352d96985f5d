import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

/** Suspends some process below this one for 1 to 5 s each `seconds`, until the signal, as a machine with other work does. */
export async function stallProcesses(seconds: number, signal: AbortSignal): Promise<void> {
  const wait = (forSeconds: number) => sleep(forSeconds * 1000, undefined, { signal }).catch(() => undefined)
  for (;;) {
    await wait(seconds * (0.5 + Math.random()))
    if (signal.aborted) return
    const pids = runningBelow(process.pid)
    const pid = pids[Math.floor(Math.random() * pids.length)]
    if (pid === undefined || !kill(pid, 'SIGSTOP')) continue
    await wait(1 + Math.random() * 4)
    kill(pid, 'SIGCONT')
  }
}

/** The programs of tests and services among the descendants of a process, without those that a test has suspended. */
function runningBelow(root: number): number[] {
  const below = new Set([root])
  const running: number[] = []
  // In the order of their starts, so parents come first.
  for (const line of execFileSync('ps', ['-eo', 'pid=,ppid=,stat=,comm=', '--sort=start_time'])
    .toString()
    .split('\n')) {
    const [pid, parent, state = '', ...name] = line.trim().split(/\s+/)
    if (!below.has(Number(parent))) continue
    below.add(Number(pid))
    if (/^[SRD]/.test(state) && /^(node|MainThread|mongod)/.test(name.join(' '))) running.push(Number(pid))
  }
  return running
}

function kill(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}
