import { randomBytes } from 'node:crypto'
import path from 'node:path'

/**
 * Names in the upload directories: one directory per organization, flat; on disk
 * `<data folder>/uploads/<organization id>`. An upload in progress lies beside under a hidden name and takes its final
 * name when it is whole.
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

const unfinishedPrefix = '.unfinished-'

/** 16 hexadecimal digits. */
export const newUploadToken = (): string => randomBytes(8).toString('hex')

/**
 * Under which an upload lies until it is whole; no name that a client may give leads to it. The token is that of the
 * upload's lock (shared/contract/schemas/upload-lock.ts): whoever goes on with the file renames it first, so that the one
 * before has no file any more that it could give the final name.
 */
export const unfinishedName = (token: string, name: string): string => `${unfinishedPrefix}${token}-${name}`

/** The upload that an entry of the directory is what there is of; null when it is something else. */
export function parseUnfinished(entry: string): { token: string; name: string } | null {
  const match = /^\.unfinished-([0-9a-f]{16})-(.+)$/s.exec(entry)
  return match === null ? null : { token: match[1]!, name: match[2]! }
}
