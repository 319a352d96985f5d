import type { BigIntStats } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import path from 'node:path'
import { clock } from '../../runtime/clock.ts'
import { newUploadToken } from './upload-names.ts'

/** What a file is at this moment: its inode, size and time. Another one after a write to it. */
export const fingerprintOf = ({ ino, size, mtimeNs }: BigIntStats): string => `${ino}:${size}:${mtimeNs}`

/** Whether a pin has what it had. Its inode is another one when DATA_DIR was restored from a backup, or moved. */
export const isSameContent = (a: string, b: string): boolean => withoutInode(a) === withoutInode(b)

const withoutInode = (fingerprint: string): string => fingerprint.replace(/^\d+:/, '')

/** The time by the clock that stamps the files of a folder, in ms since 1970: another machine's, where it is mounted. */
export async function timeIn(folder: string): Promise<number> {
  const probe = path.join(folder, `.clock-${newUploadToken()}`)
  try {
    const handle = await open(probe, 'wx')
    try {
      return (await handle.stat()).mtimeMs
    } finally {
      await handle.close()
      await rm(probe, { force: true })
    }
  } catch (error) {
    // A folder that may only be read.
    if (['EACCES', 'EROFS', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? ''))
      return clock.now().getTime()
    throw error
  }
}
