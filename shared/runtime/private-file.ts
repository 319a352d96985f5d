import { randomBytes } from 'node:crypto'
import { chmod, link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { fallbackOn } from './fallback-on.ts'

/** Files that only the user of this process may read. */

/**
 * Returns the secret in the file. When the file is missing or empty, a random secret of 256 bits is written in
 * hexadecimal digits. Not safe for two processes at once.
 */
export async function readOrCreateSecret(file: string): Promise<string> {
  const secret = (await fallbackOn(['ENOENT'], '', readFile(file, 'utf8'))).trim()
  if (secret !== '') {
    // A copy or a restored backup may have lost the mode, and mongod refuses a key file that others can read.
    await chmod(file, 0o600)
    return secret
  }
  const made = randomBytes(32).toString('hex')
  await replacePrivateFile(file, made)
  return made
}

/**
 * Creates the file atomically unless it exists. When several processes do so at once, the first one's content stays.
 */
export async function createPrivateFile(file: string, content: string): Promise<void> {
  const unfinished = `${file}.${randomBytes(8).toString('hex')}.new`
  try {
    await writeFile(unfinished, content, { mode: 0o600, flush: true, flag: 'wx' })
    await fallbackOn(['EEXIST'], undefined, link(unfinished, file))
  } finally {
    await rm(unfinished, { force: true })
  }
}

/** Replaces the file atomically: readers find the old content or the complete new one. */
export async function replacePrivateFile(file: string, content: string): Promise<void> {
  const unfinished = `${file}.new`
  // A process that died here may have left a file with another mode.
  await rm(unfinished, { force: true })
  await writeFile(unfinished, content, { mode: 0o600, flush: true })
  await rename(unfinished, file)
}
