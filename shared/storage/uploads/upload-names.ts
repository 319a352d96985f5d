import { randomBytes } from 'node:crypto'
import path from 'node:path'

/**
 * Names in the upload directories. Each organization has one flat directory; on disk it is the folder
 * `uploads/<organization id>` in DATA_DIR. An upload in progress has a hidden name there, and gets its final name when
 * it is complete.
 */

export function uploadFolder(dataFolder: string, organizationId: number): string {
  return path.join(dataFolder, 'uploads', String(organizationId))
}

export const maxFileNameBytes = 200

/** Clients may compose or decompose `Ü`, as macOS does: names are stored and compared composed. */
export const composeName = (name: string): string => name.normalize('NFC')

/** Why a composed name is not valid for an upload; null when it is valid. */
export function fileNameProblem(name: string): string | null {
  if (name === '') return 'must not be blank'
  if (name.includes('/') || name.includes('\\') || name === '.' || name === '..')
    return 'must be a plain file name without a path'
  if (/\p{Cc}/u.test(name)) return 'must not hold control characters'
  if (isHidden(name))
    return 'must not begin with ".unfinished-", ".copy-" or ".clock-" and 16 hexadecimal digits, as uploads in progress do'
  if (Buffer.byteLength(name) > maxFileNameBytes) return `must not be longer than ${maxFileNameBytes} bytes`
  return null
}

/** Whether an entry of the directory is one of those that no client names: an upload in progress and what it needs. */
export const isHidden = (entry: string): boolean => /^\.(unfinished|copy|clock)-[0-9a-f]{16}/.test(entry)

/** 16 hexadecimal digits. */
export const newUploadToken = (): string => randomBytes(8).toString('hex')

/**
 * The hidden name of an upload until it is complete. No valid name of a client matches it. `token` is a fencing
 * token, that of the upload's lock (shared/contract/schemas/upload.ts). A session that resumes the upload
 * renames the file first, so that the former session can't publish it.
 */
export const unfinishedName = (token: string, name: string): string => `.unfinished-${token}-${name}`

/** Token and name of an unfinished upload by its hidden name; null for other entries of the directory. */
export function parseUnfinished(entry: string): { token: string; name: string } | null {
  const [, token, name] = /^\.unfinished-([0-9a-f]{16})-(.+)$/s.exec(entry) ?? []
  return token === undefined || name === undefined ? null : { token, name }
}
