import type { BigIntStats } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import path from 'node:path'
import { errorCode } from '../../contract/errors.ts'
import { clock } from '../../runtime/clock.ts'
import { newUploadToken } from './upload-names.ts'

/** Inode, size and time of a file. A write to the file changes it. */
export const buildFingerprint = ({ ino, size, mtimeNs }: BigIntStats): string => `${ino}:${size}:${mtimeNs}`

/** Whether two fingerprints mean the same content. Inodes may differ after DATA_DIR was moved or restored. */
export const isSameContent = (a: string, b: string): boolean => withoutInode(a) === withoutInode(b)

const withoutInode = (fingerprint: string): string => fingerprint.replace(/^\d+:/, '')

/** The time in ms since 1970 by the clock that stamps the files of a folder, which may be that of a file server. */
export async function fileSystemTime(folder: string): Promise<number> {
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
    // In a read-only folder the clock of this machine is used.
    if (['EACCES', 'EROFS', 'EPERM'].includes(errorCode(error))) return clock.now().getTime()
    throw error
  }
}
