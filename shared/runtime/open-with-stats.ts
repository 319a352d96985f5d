import type { BigIntStats } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'

export interface OpenFile {
  handle: FileHandle
  stats: BigIntStats
}

/**
 * Opens a file and reads its state. A handle whose state can't be read is closed, because Node ends the process when it
 * collects an open one.
 */
export async function openWithStats(file: string, flags: string | number, mode?: number): Promise<OpenFile> {
  const handle = await open(file, flags, mode)
  try {
    return { handle, stats: await handle.stat({ bigint: true }) }
  } catch (error) {
    await handle.close()
    throw error
  }
}
