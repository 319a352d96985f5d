import { lstat, readdir, rename, unlink } from 'node:fs/promises'
import path from 'node:path'
import { fallbackOn } from '../../runtime/fallback-on.ts'
import { composeName, fileNameProblem } from './upload-names.ts'
import type { UploadEntry } from './upload-store.ts'

/** False when the file is gone. */
export const tryRename = (from: string, to: string): Promise<boolean> =>
  fallbackOn(
    ['ENOENT'],
    false,
    rename(from, to).then(() => true),
  )

/** Null when there is no regular file; a symbolic link is none. */
export async function readEntry(file: string, name: string): Promise<UploadEntry | null> {
  const stats = await lstat(file).catch(() => null)
  return stats?.isFile() === true ? { name, size: stats.size, modifiedAt: stats.mtime } : null
}

/** The names in a folder, after `renameDecomposed`. */
export async function listNames(folder: string): Promise<string[]> {
  const names = await fallbackOn(['ENOENT'], [], readdir(folder))
  const decomposed = names.filter((name) => name !== composeName(name) && fileNameProblem(name) === null)
  if (decomposed.length === 0) return names
  for (const name of decomposed) await renameDecomposed(folder, name)
  return readdir(folder)
}

/** To call before a file of this name is looked for. */
export async function composeOnDisk(folder: string, name: string): Promise<void> {
  if (name !== name.normalize('NFD')) await listNames(folder)
}

/**
 * Gives a file that another program put there with a decomposed name its composed one. Of two files with the same
 * composed name the newer one stays.
 */
async function renameDecomposed(folder: string, name: string): Promise<void> {
  const [from, to] = [path.join(folder, name), path.join(folder, composeName(name))]
  const [found, other] = [await readEntry(from, name), await readEntry(to, name)]
  if (found === null) return
  const isOlder = other !== null && other.modifiedAt > found.modifiedAt
  // A process that may only read leaves the name as it is.
  await fallbackOn(
    ['ENOENT', 'EACCES', 'EPERM', 'EROFS'],
    undefined,
    isOlder ? unlink(from) : rename(from, to),
  )
}
