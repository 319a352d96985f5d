import { access, constants, mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { messageOf, StartError } from './errors.ts'

/** Makes the folder for uploads, staged files and the embedded database. Throws a StartError that names the setting. */
export async function ensureDataFolder(folder: string): Promise<void> {
  try {
    await makeFolder(path.resolve(folder))
    await access(folder, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new StartError(
      `DATA_DIR ${folder} can't be used: ${messageOf(error)}; set it to a folder that this user may write to`,
      { cause: error },
    )
  }
}

/** Level by level: the recursive mkdir of Node never comes back from places such as /proc. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(folder)).isDirectory()) return
    if (code !== 'ENOENT' || path.dirname(folder) === folder) throw error
    await makeFolder(path.dirname(folder))
    await mkdir(folder).catch((again: unknown) => {
      if ((again as NodeJS.ErrnoException).code !== 'EEXIST') throw again
    })
  }
}
