import { mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const retryMs = 50
/** A lock file that names nobody is one whose writer died between creating and filling it. */
const namelessAfterMs = 2_000

/**
 * Runs `work` while no other process of this machine runs work under the same lock file. The lock of a process
 * that died is taken over. For short work at start and stop, not for a hot path.
 */
export async function withFolderLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  await mkdir(path.dirname(file), { recursive: true })
  while (!(await tryLock(file))) {
    await removeIfAbandoned(file)
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
    await handle.writeFile(String(process.pid))
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
  const age = Date.now() - (await stat(file).catch(() => ({ mtimeMs: Date.now() }))).mtimeMs
  const abandoned = owner === '' ? age > namelessAfterMs : !processIsAlive(Number(owner))
  if (abandoned) await rm(file, { force: true })
}

export function processIsAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
