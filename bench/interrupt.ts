import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { messageOf } from '../shared/contract/errors.ts'

/** How what this process started ends; what began last ends first, as it may need what was there before it. */
const endings: (() => Promise<unknown>)[] = []
let isInterrupted = false

/** Of a process that would outlive this one, or write meanwhile. To be forgotten when it has ended by itself. */
export function endOnInterrupt(end: () => Promise<unknown>): () => void {
  endings.push(end)
  return () => {
    const at = endings.indexOf(end)
    if (at !== -1) endings.splice(at, 1)
  }
}

/** Does a program's work in a folder of its own and ends the process with the exit code that it resolves to, 1 if it throws. */
export async function exitAfter(prefix: string, work: (folder: string) => Promise<number>): Promise<never> {
  const folder = await mkdtemp(path.join(tmpdir(), prefix))
  endOnSignals(folder)
  let exitCode = 1
  try {
    exitCode = await work(folder)
  } catch (error) {
    await unlessInterrupted()
    console.error(messageOf(error))
  }
  await unlessInterrupted()
  await removeFolder(folder)
  process.exit(exitCode)
}

/** SIGINT and SIGTERM end everything and this process; the folder goes when nobody is left who could write into it. */
function endOnSignals(folder: string): void {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)
    process.on(signal, () => {
      // The terminal and npm both tell of one Ctrl-C.
      if (isInterrupted) return
      isInterrupted = true
      void endEverything(folder).finally(() => process.exit(code))
    })
}

/** Never resolves once a signal came: whoever is about to exit, or to begin something, leaves that to the signal. */
export async function unlessInterrupted(): Promise<void> {
  if (isInterrupted) await new Promise(() => undefined)
}

async function endEverything(folder: string): Promise<void> {
  for (const end of endings.toReversed()) await end().catch(() => undefined)
  await removeFolder(folder)
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
}
