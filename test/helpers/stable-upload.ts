import { utimes } from 'node:fs/promises'

/** Makes a file look old, so that an import doesn't wait first until it is no longer written. */
export async function finalizeUpload(file: string): Promise<void> {
  const hourAgo = new Date(Date.now() - 3_600_000)
  await utimes(file, hourAgo, hourAgo)
}
