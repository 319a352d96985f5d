import { access, chmod, constants, mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { errorCode, errorMessage, StartError } from '../contract/errors.ts'
import { fallbackOn } from './fallback-on.ts'
import type { Logger } from './logger.ts'

/**
 * Creates the folder for uploads, staged files and the embedded database, with access for this user only. Throws a
 * StartError that names the setting.
 */
export async function ensureDataFolder(folder: string, log: Logger): Promise<void> {
  try {
    await createFolder(path.resolve(folder), 0o700)
    await access(folder, constants.W_OK | constants.X_OK)
    await removeAccessOfOthers(path.resolve(folder), log)
  } catch (error) {
    throw new StartError(
      `DATA_DIR ${folder} can't be used: ${errorMessage(error)}; set it to a folder that this user may write to`,
      { cause: error },
    )
  }
}

/**
 * Removes access of other users from a folder that an operator created. A folder of another user, or a shared one (/tmp
 * has the sticky bit), is left unchanged, with a warning.
 */
async function removeAccessOfOthers(folder: string, log: Logger): Promise<void> {
  const { mode, uid } = await stat(folder)
  if (process.platform === 'win32' || (mode & 0o077) === 0) return
  const isOwnFolder = uid === process.getuid?.() && (mode & 0o1000) === 0 && path.dirname(folder) !== folder
  if (!isOwnFolder) {
    log.warn(
      `DATA_DIR ${folder} is open to other users of this machine, and this user can't change its mode: make this user its owner and set its mode to 0700`,
    )
    return
  }
  await chmod(folder, 0o700)
  log.info(`DATA_DIR ${folder} was open to other users of this machine; its mode is 0700 now`)
}

/** Creates the folder level by level, because Node's recursive mkdir never returns for paths such as those in /proc. */
async function createFolder(folder: string, mode?: number): Promise<void> {
  try {
    await mkdir(folder, { mode })
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EEXIST' && (await stat(folder)).isDirectory()) return
    if (code !== 'ENOENT' || path.dirname(folder) === folder) throw error
    await createFolder(path.dirname(folder))
    await fallbackOn(['EEXIST'], undefined, mkdir(folder, { mode }))
  }
}
