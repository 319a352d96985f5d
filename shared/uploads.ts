import { randomBytes } from 'node:crypto'
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

const unfinishedPrefix = '.unfinished-'

export const newUploadToken = (): string => randomBytes(8).toString('hex')

/**
 * Under which an upload lies until it is whole; no name that a client may give leads to it. The token is that of the
 * upload's lock (shared/schemas/upload-lock.ts): whoever goes on with the file renames it first, so that the one
 * before has no file any more that it could give the final name.
 */
export const unfinishedName = (token: string, name: string): string => `${unfinishedPrefix}${token}-${name}`

/** Whether an entry of the directory is what there is of an upload of that name. */
export function isUnfinished(entry: string, name: string): boolean {
  const end = `-${name}`
  return (
    entry.startsWith(unfinishedPrefix) &&
    entry.endsWith(end) &&
    /^[0-9a-f]{16}$/.test(entry.slice(unfinishedPrefix.length, -end.length))
  )
}
