import { constants } from 'node:fs'
import { open, rm, type FileHandle } from 'node:fs/promises'
import { fingerprintOf } from './file-fingerprint.ts'

/**
 * Copies of files that others may write into meanwhile. Our own loop: the system's `copyFile` never ends when its source
 * becomes shorter under it, and can't be stopped.
 */

const bufferBytes = 1024 * 1024
const noFollow = constants.O_NOFOLLOW ?? 0

export interface SteadyCopyOptions {
  signal?: AbortSignal | undefined
  /** What the source must be when the copy begins; see fingerprintOf. */
  fingerprint?: string
  /** Somebody may still append to it; what it has when the copy begins is enough. */
  mayGrow?: boolean
}

/**
 * Copies what the file has when the copy begins. False, and no copy, when there is no regular file, or when it isn't the
 * same any more at the end.
 */
export async function copySteady(
  from: string,
  to: string,
  { signal, fingerprint, mayGrow = false }: SteadyCopyOptions = {},
): Promise<boolean> {
  const source = await openRegular(from)
  if (source === null) return false
  try {
    const before = await source.stat({ bigint: true })
    if (fingerprint !== undefined && fingerprintOf(before) !== fingerprint) return false
    const isWhole = await copyBytes(source, to, Number(before.size), signal)
    const after = await source.stat({ bigint: true })
    const isSame = mayGrow ? after.size >= before.size : fingerprintOf(after) === fingerprintOf(before)
    if (!isWhole || !isSame) await rm(to, { force: true })
    return isWhole && isSame
  } catch (error) {
    await rm(to, { force: true })
    throw error
  } finally {
    await source.close()
  }
}

/** False when the source ends before that. */
async function copyBytes(
  source: FileHandle,
  to: string,
  size: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | noFollow
  const target = await open(to, flags, 0o600)
  try {
    const buffer = Buffer.allocUnsafeSlow(Math.max(1, Math.min(bufferBytes, size)))
    for (let position = 0; position < size;) {
      signal?.throwIfAborted()
      const wanted = Math.min(buffer.length, size - position)
      const { bytesRead } = await source.read(buffer, 0, wanted, position)
      if (bytesRead === 0) return false
      await target.writeFile(buffer.subarray(0, bytesRead))
      position += bytesRead
    }
    return true
  } finally {
    await target.close()
  }
}

/** Null for everything that isn't a regular file. */
export async function openRegular(file: string): Promise<FileHandle | null> {
  let handle: FileHandle
  try {
    handle = await open(file, constants.O_RDONLY | noFollow | (constants.O_NONBLOCK ?? 0))
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EMLINK', 'ENXIO'].includes(code)) return null
    throw error
  }
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  return null
}
