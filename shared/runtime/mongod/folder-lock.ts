import { readFileSync } from 'node:fs'
import { mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../clock.ts'

const retryMs = 50
/** A lock file that names nobody is one whose writer died between creating and filling it. */
const namelessAfterMs = 2_000

/** Thrown when the lock wasn't free in time. */
export class LockNotFree extends Error {}

/**
 * Runs `work` while no other process of this machine runs work under the same lock file. The lock of a process
 * that died is taken over. For short work at start and stop, not for a hot path. With `timeoutMs` it throws
 * LockNotFree when others have the lock for longer.
 */
export async function withFolderLock<T>(
  file: string,
  work: () => Promise<T>,
  timeoutMs = Infinity,
): Promise<T> {
  await mkdir(path.dirname(file), { recursive: true })
  const until = clock.monotonicMs() + timeoutMs
  while (!(await tryLock(file))) {
    await removeIfAbandoned(file)
    if (clock.monotonicMs() > until) throw new LockNotFree(`${file} is held by another process`)
    await sleep(retryMs)
  }
  try {
    return await work()
  } finally {
    await rm(file, { force: true })
  }
}

async function tryLock(file: string): Promise<boolean> {
  try {
    const handle = await open(file, 'wx')
    await handle.writeFile(ownProcess())
    await handle.close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

async function removeIfAbandoned(file: string): Promise<void> {
  const owner = await readFile(file, 'utf8').catch(() => null)
  if (owner === null) return
  const now = clock.now().getTime()
  const age = now - (await stat(file).catch(() => ({ mtimeMs: now }))).mtimeMs
  const abandoned = owner === '' ? age > namelessAfterMs : !processIsAlive(owner)
  if (abandoned) await rm(file, { force: true })
}

/** This process, for `processIsAlive`: its id, and when it began, because ids are given out again. */
export const ownProcess = (): string => processName(process.pid)

/** For `processIsAlive`; for a process that is gone, or where the system tells no start, its id alone. */
export const processName = (pid: number): string => `${pid} ${startOf(pid)}`

/** Whether the process of that name lives, and not another one that has its id now. */
export function processIsAlive(name: string): boolean {
  const [id = '', start = ''] = name.split(' ')
  const pid = Number(id)
  if (!Number.isInteger(pid) || pid < 1 || !exists(pid)) return false
  return start === '' || startOf(pid) === '' || startOf(pid) === start
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Ticks from the machine's start to the process's, where the system tells (Linux), else nothing. */
function startOf(pid: number): string {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // Behind the name of the program, which may hold anything, in parentheses.
    return line.slice(line.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
