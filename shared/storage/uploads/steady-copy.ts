import { constants } from 'node:fs'
import { open, rm, type FileHandle } from 'node:fs/promises'
import { fallbackOn } from '../../runtime/fallback-on.ts'
import { openWithStats, type OpenFile } from '../../runtime/open-with-stats.ts'
import { buildFingerprint } from './file-fingerprint.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'

/**
 * Copies files that other programs may write meanwhile. It has a loop of its own, because the system's `copyFile`
 * never ends when its source is truncated meanwhile, and can't be aborted.
 */

const bufferBytes = binaryMegabyte
const noFollow = constants.O_NOFOLLOW ?? 0

export interface SteadyCopyOptions {
  signal?: AbortSignal | undefined
  /** The expected fingerprint of the source when the copy begins. */
  fingerprint?: string
  /** Other programs may append to the source; the copy has its bytes at the beginning. */
  mayGrow?: boolean
}

/**
 * Copies the bytes that the file has when the copy begins. False, without a copy, when there is no regular file, or
 * when it has changed by the end.
 */
export async function copySteady(
  from: string,
  to: string,
  { signal, fingerprint, mayGrow = false }: SteadyCopyOptions = {},
): Promise<boolean> {
  const opened = await openRegular(from)
  if (opened === null) return false
  const { handle: source, stats: before } = opened
  try {
    if (fingerprint !== undefined && buildFingerprint(before) !== fingerprint) return false
    const isWhole = await copyBytes(source, to, Number(before.size), signal)
    const after = await source.stat({ bigint: true })
    const isSame = mayGrow ? after.size >= before.size : buildFingerprint(after) === buildFingerprint(before)
    if (!isWhole || !isSame) await rm(to, { force: true })
    return isWhole && isSame
  } catch (error) {
    await rm(to, { force: true })
    throw error
  } finally {
    await source.close()
  }
}

/** False when the source ends before `size`. */
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

/** Opens a file for reading; null when there is no regular file. */
export async function openRegular(file: string): Promise<OpenFile | null> {
  const opening = openWithStats(file, constants.O_RDONLY | noFollow | (constants.O_NONBLOCK ?? 0))
  const opened = await fallbackOn(['ENOENT', 'ENOTDIR', 'ELOOP', 'EMLINK', 'ENXIO'], null, opening)
  if (opened === null || opened.stats.isFile()) return opened
  await opened.handle.close()
  return null
}
