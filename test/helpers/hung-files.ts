import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { link, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import type { Downloads } from './hasty-engine-setting.ts'

/** Files that hang when they are opened, as on a file server that gives no answer, and engines that soon notice. */

/** The bounds of work that stands still, by a clock that runs 100 times as fast. */
export const hasty: Downloads = { watch: { checkEveryMs: 150, stalledAfterMs: 3_000 } }
/** Threads of the process for files, as `npm run engine` has them. */
export const threads = { UV_THREADPOOL_SIZE: '32' }

export interface HungFile {
  /** Puts the file back; opens from now on succeed. */
  comeBack: () => Promise<void>
  /** Ends the reads that hang in it. */
  letGo: () => void
}

/** Puts a FIFO in place of the file: an open waits for a writer. */
export async function hang(t: Test, file: string): Promise<HungFile> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-hung-'))
  const [kept, fifo] = [path.join(folder, 'kept'), path.join(folder, 'fifo')]
  execFileSync('mkfifo', [fifo])
  await rename(file, kept)
  await link(fifo, file)
  const letGo = () => {
    try {
      closeSync(openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK))
    } catch (error) {
      // No read waits in it.
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error
    }
  }
  t.teardown(async () => {
    letGo()
    await rm(folder, { recursive: true })
  })
  return { letGo, comeBack: () => rename(kept, file) }
}

export const importOf = (content: string, options: Record<string, unknown> = {}) => ({
  subscriber_import: {
    ...{ column_mapping: ['email'], file_format: { csv_has_headers: false }, ...options },
    file_source: { type: 'json', content },
  },
})
