import { constants, open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

/**
 * The upload directories: one per organization, `<data folder>/uploads/<organization id>`, flat. An upload in progress
 * lies beside under a hidden name and takes its final name when it is whole.
 */

export function uploadFolder(dataFolder: string, organizationId: number): string {
  return path.join(dataFolder, 'uploads', String(organizationId))
}

/** Why a name can't be that of an upload; null when it can. */
export function fileNameProblem(name: string): string | null {
  if (name === '') return 'must not be blank'
  if (name.includes('/') || name.includes('\\') || name === '.' || name === '..')
    return 'must be a plain file name without a path'
  if (/[\0-\x1f\x7f]/.test(name)) return 'must not hold control characters'
  if (name.startsWith('.')) return 'must not begin with a dot'
  if (Buffer.byteLength(name) > 200) return 'must not be longer than 200 bytes'
  return null
}

/** Opens an upload for reading; null when there is no such regular file (a link is none). */
export async function openUpload(
  dataFolder: string,
  organizationId: number,
  name: string,
): Promise<FileHandle | null> {
  if (fileNameProblem(name) !== null) return null
  let handle: FileHandle
  try {
    handle = await open(
      path.join(uploadFolder(dataFolder, organizationId), name),
      constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0),
    )
  } catch (error) {
    if (
      ['ENOENT', 'ENOTDIR', 'ELOOP', 'EMLINK', 'ENXIO'].includes((error as NodeJS.ErrnoException).code ?? '')
    )
      return null
    throw error
  }
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  return null
}

/** Under which an upload in progress lies; no name that a client may give leads to it. */
export const unfinishedName = (name: string): string => `.unfinished-${name}`
