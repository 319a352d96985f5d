import { randomBytes } from 'node:crypto'
import { chmod, link, readFile, rename, rm, writeFile } from 'node:fs/promises'

/** Files that only the user of the processes may read. */

/**
 * The secret that the file holds; a random one of 256 bits, in hexadecimal digits, is made and kept where it is missing or
 * empty. Two processes must not make it at once.
 */
export async function keptSecret(file: string): Promise<string> {
  const kept = await readFile(file, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return ''
  })
  const secret = kept.trim()
  if (secret !== '') {
    // A copy or a restored backup may have lost the mode, and mongod refuses a key file that others can read.
    await chmod(file, 0o600)
    return secret
  }
  const made = randomBytes(32).toString('hex')
  await writePrivately(file, made)
  return made
}

/** Makes the file where there is none, whole; of several processes that do so at once the first one's stays. */
export async function makePrivately(file: string, content: string): Promise<void> {
  const unfinished = `${file}.${randomBytes(8).toString('hex')}.new`
  try {
    await writeFile(unfinished, content, { mode: 0o600, flush: true, flag: 'wx' })
    await link(unfinished, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(unfinished, { force: true })
  }
}

/** Replaces the file in one step: a reader finds the content of before, or all of the new one. */
export async function writePrivately(file: string, content: string): Promise<void> {
  const unfinished = `${file}.new`
  // What a process left that died here may have another mode.
  await rm(unfinished, { force: true })
  await writeFile(unfinished, content, { mode: 0o600, flush: true })
  await rename(unfinished, file)
}
