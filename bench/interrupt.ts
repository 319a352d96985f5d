import { rm } from 'node:fs/promises'

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

/** SIGINT and SIGTERM end everything and this process; the folder goes when nobody is left who could write into it. */
export function endOnSignals(folder: string): void {
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
