import { readFileSync } from 'node:fs'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode } from '../../contract/errors.ts'
import { clock } from '../clock.ts'
import { fallbackOn } from '../fallback-on.ts'

const retryMs = 50
/** An empty lock file is abandoned after this time: its writer died, or the disk was full, before it was filled. */
const emptyLockTimeoutMs = 2_000

export class LockNotFree extends Error {}

/**
 * Runs `work` under an exclusive lock between the processes of this machine. The lock of a dead process is taken over.
 * It is meant for short work at start and stop. Throws LockNotFree when the lock isn't free within `timeoutMs`.
 */
export async function withFolderLock<T>(
  file: string,
  work: () => Promise<T>,
  timeoutMs = Infinity,
): Promise<T> {
  await mkdir(path.dirname(file), { recursive: true })
  const deadline = clock.monotonicMs() + timeoutMs
  while (!(await tryLock(file))) {
    await removeIfAbandoned(file)
    if (clock.monotonicMs() > deadline) throw new LockNotFree(`${file} is locked by another process`)
    await sleep(retryMs)
  }
  try {
    return await work()
  } finally {
    await rm(file, { force: true })
  }
}

/** False when another process has the lock. `writeFile` closes the file also where the disk is full. */
async function tryLock(file: string): Promise<boolean> {
  const locking = writeFile(file, currentProcessName(), { flag: 'wx' }).then(() => true)
  return fallbackOn(['EEXIST'], false, locking)
}

async function removeIfAbandoned(file: string): Promise<void> {
  const owner = await readFile(file, 'utf8').catch(() => null)
  if (owner === null) return
  const now = clock.now().getTime()
  const age = now - (await stat(file).catch(() => ({ mtimeMs: now }))).mtimeMs
  const abandoned = owner === '' ? age > emptyLockTimeoutMs : !processIsAlive(owner)
  if (abandoned) await rm(file, { force: true })
}

/** This process's name for `processIsAlive`: its id and its start time, because ids are reused. */
export const currentProcessName = (): string => processName(process.pid)

/** For `processIsAlive`. The start time is empty for a dead process, and on systems that don't report it. */
export const processName = (pid: number): string => `${pid} ${readStartTime(pid)}`

/** Whether the process with that name is alive, and its id wasn't reused by another process. */
export function processIsAlive(name: string): boolean {
  const [id = '', start = ''] = name.split(' ')
  const pid = Number(id)
  if (!Number.isInteger(pid) || pid < 1 || !exists(pid)) return false
  return start === '' || readStartTime(pid) === '' || readStartTime(pid) === start
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errorCode(error) === 'EPERM'
  }
}

/** Start time in ticks since the boot of the machine, on Linux; empty on other systems. */
function readStartTime(pid: number): string {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The fields follow the name of the program, which is in parentheses and may contain any characters.
    return line.slice(line.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
