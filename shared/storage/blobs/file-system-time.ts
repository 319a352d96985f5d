import { randomBytes } from 'node:crypto'
import { open, rm } from 'node:fs/promises'
import path from 'node:path'
import { errorCode } from '../../contract/errors.ts'
import { clock } from '../../runtime/clock.ts'

/** The time in ms since 1970 by the clock that stamps the files of a folder, which may be that of a file server. */
export async function fileSystemTime(folder: string): Promise<number> {
  const probe = path.join(folder, `.clock-${randomBytes(8).toString('hex')}`)
  try {
    const handle = await open(probe, 'wx')
    try {
      return (await handle.stat()).mtimeMs
    } finally {
      await handle.close()
      await rm(probe, { force: true })
    }
  } catch (error) {
    // In a read-only folder the clock of this machine is used.
    if (['EACCES', 'EROFS', 'EPERM'].includes(errorCode(error))) return clock.now().getTime()
    throw error
  }
}
