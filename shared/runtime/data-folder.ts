import { access, chmod, constants, mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { messageOf, StartError } from '../contract/errors.ts'
import type { Logger } from './logger.ts'

/**
 * Makes the folder for uploads, staged files and the embedded database, readable by this user alone. Throws a StartError
 * that names the setting.
 */
export async function ensureDataFolder(folder: string, log: Logger): Promise<void> {
  try {
    await makeFolder(path.resolve(folder), 0o700)
    await access(folder, constants.W_OK | constants.X_OK)
    await closeToOthers(path.resolve(folder), log)
  } catch (error) {
    throw new StartError(
      `DATA_DIR ${folder} can't be used: ${messageOf(error)}; set it to a folder that this user may write to`,
      { cause: error },
    )
  }
}

/**
 * A folder of an earlier version, or one that an operator made, may be open to other users. A folder that belongs to
 * another user or to everybody (/tmp has the sticky bit) is left as it is, with a warning.
 */
async function closeToOthers(folder: string, log: Logger): Promise<void> {
  const { mode, uid } = await stat(folder)
  if (process.platform === 'win32' || (mode & 0o077) === 0) return
  const isOurs = uid === process.getuid?.() && (mode & 0o1000) === 0 && path.dirname(folder) !== folder
  if (!isOurs) {
    log.warn(
      `DATA_DIR ${folder} is open to other users of this machine, and its mode isn't this user's to change: give it to this user with mode 0700`,
    )
    return
  }
  await chmod(folder, 0o700)
  log.info(`DATA_DIR ${folder} was open to other users of this machine; its mode is 0700 now`)
}

/** Level by level: the recursive mkdir of Node never comes back from places such as /proc. */
async function makeFolder(folder: string, mode?: number): Promise<void> {
  try {
    await mkdir(folder, { mode })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(folder)).isDirectory()) return
    if (code !== 'ENOENT' || path.dirname(folder) === folder) throw error
    await makeFolder(path.dirname(folder))
    await mkdir(folder, { mode }).catch((again: unknown) => {
      if ((again as NodeJS.ErrnoException).code !== 'EEXIST') throw again
    })
  }
}
