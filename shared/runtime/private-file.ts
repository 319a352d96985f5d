import { randomBytes } from 'node:crypto'
import { chmod, link, readFile, rm, writeFile } from 'node:fs/promises'
import { fallbackOn } from './fallback-on.ts'

/** Files that only the user of this process may read. */

/**
 * Returns the secret in the file. When the file is missing or empty, a random secret of 256 bits is written in
 * hexadecimal digits.
 */
export async function readOrCreateSecret(file: string): Promise<string> {
  const read = async () => (await fallbackOn(['ENOENT'], '', readFile(file, 'utf8'))).trim()
  if ((await read()) === '') {
    await rm(file, { force: true })
    await createPrivateFile(file, randomBytes(32).toString('hex'))
  }
  // A copy or a restored backup may have lost the mode, and mongod refuses a key file that others can read.
  await chmod(file, 0o600)
  return read()
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
