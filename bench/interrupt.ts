import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { errorMessage } from '../shared/contract/errors.ts'

/** They run last in, first out: what started later may need what started before. */
const endings: (() => Promise<unknown>)[] = []
const interruption = new AbortController()

/** Aborts at Ctrl-C, or a SIGTERM. */
export const interrupted = interruption.signal

/** Registers the end of a child process, which would otherwise outlive this one. The result unregisters it. */
export function endOnInterrupt(end: () => Promise<unknown>): () => void {
  endings.push(end)
  return () => {
    const at = endings.indexOf(end)
    if (at !== -1) endings.splice(at, 1)
  }
}

/**
 * Works in a scratch folder, then exits with the code that the work resolves to, 1 if it throws. After a signal it is
 * `process.exitCode` where the work has set that.
 */
export async function exitAfter(prefix: string, work: (folder: string) => Promise<number>): Promise<never> {
  const folder = await mkdtemp(path.join(tmpdir(), prefix))
  const endAll = async (exitCode: number) => {
    // One Ctrl-C arrives twice: from the terminal and from npm.
    if (interrupted.aborted) return
    interruption.abort()
    for (const end of endings.toReversed()) await end().catch(() => undefined)
    // Last, when no process is left that could write into it.
    await removeFolder(folder).finally(() => process.exit(process.exitCode ?? exitCode))
  }
  process.on('SIGINT', () => void endAll(130))
  process.on('SIGTERM', () => void endAll(143))
  let exitCode = 1
  try {
    exitCode = await work(folder)
  } catch (error) {
    await unlessInterrupted()
    console.error(errorMessage(error))
  }
  await unlessInterrupted()
  await removeFolder(folder)
  process.exit(exitCode)
}

/** Never resolves after a signal: the signal's handler ends the process, and nothing more may start or exit. */
export async function unlessInterrupted(): Promise<void> {
  if (interrupted.aborted) await new Promise(() => undefined)
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
}
