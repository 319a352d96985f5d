import type { BigIntStats } from 'node:fs'
import { link, lstat, mkdir, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import type { Collections } from '../../contract/schemas/collections.ts'
import { fingerprintOf, timeIn } from './file-fingerprint.ts'
import { copySteady, openRegular } from './steady-copy.ts'
import { fileNameProblem, newUploadToken, uploadFolder } from './upload-names.ts'
import type { PinnedUpload, UploadPin, Uploads } from './upload-store.ts'

/** Larger files would hold up all imports that begin. */
const copiedBytes = 16 * 1024 * 1024
/** A file that was written last so long ago is not being written. */
const quietMs = 10_000
/** Where no second name is possible and the file isn't whole, it stands for itself. */
const unpinned = 'upload:'

export interface DiskPinsOptions {
  dataFolder: string
  /** Where pins lie, in the folders of their imports. */
  stagingFolder: string
  collections: Collections
}

/**
 * A pin on disk is a second name of the file, in the import's staging folder: what our FTP server does later, and
 * whoever renames or removes, doesn't reach it. Writes in place do, so small files that others may write into are
 * copied at once; of large ones the copy that the import takes is compared with what was noted here.
 */
export function diskPins(options: DiskPinsOptions): Pick<Uploads, 'pin' | 'releasePin' | 'openPin'> {
  const { dataFolder, stagingFolder, collections } = options
  const locate = (reference: string): string => {
    if (!reference.startsWith(unpinned)) return path.join(stagingFolder, reference)
    const [id = '', ...name] = reference.slice(unpinned.length).split('/')
    return path.join(uploadFolder(dataFolder, Number(id)), name.join('/'))
  }
  const isOurs = async (organizationId: number, stats: BigIntStats) =>
    (await collections.settledUploads.findOne({ _id: `${organizationId}/${fingerprintOf(stats)}` })) !== null

  return {
    async pin({ organizationId, name, importId, signal }) {
      if (fileNameProblem(name) !== null) return null
      const folder = uploadFolder(dataFolder, organizationId)
      const source = path.join(folder, name)
      if ((await regularStats(source)) === null) return null
      const reference = `${importId}/pin-${newUploadToken()}`
      const target = locate(reference)
      await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
      const isLinked = await linked(source, target)
      const kept = isLinked ? target : source
      const found = await regularStats(kept)
      if (found === null) {
        await rm(target, { force: true })
        return null
      }
      /** Of what can't be copied as it is now: the import watches it. */
      const watched = (stats: BigIntStats): UploadPin => ({
        reference: isLinked ? reference : `${unpinned}${organizationId}/${name}`,
        fingerprint: fingerprintOf(stats),
        is_settled: false,
      })
      const ours = await isOurs(organizationId, found)
      const isQuiet = (await timeIn(folder)) - Number(found.mtimeNs / 1_000_000n) > quietMs
      if (!ours && !isQuiet) return watched(found)
      if (isLinked && (ours || found.size > copiedBytes))
        return { reference, fingerprint: fingerprintOf(found), is_settled: true }
      const copy = `${target}.copy`
      // Written into meanwhile: nobody can tell what a copy would be of.
      if (!(await copySteady(kept, copy, { signal, fingerprint: fingerprintOf(found) })))
        return watched((await regularStats(kept)) ?? found)
      await rename(copy, target)
      const copied = await lstat(target, { bigint: true })
      return { reference, fingerprint: fingerprintOf(copied), is_settled: true }
    },
    async releasePin({ reference }) {
      if (!reference.startsWith(unpinned)) await rm(locate(reference), { force: true })
    },
    async openPin({ reference }) {
      const file = locate(reference)
      const handle = await openRegular(file)
      if (handle === null) return null
      return pinnedFile(handle, path.dirname(file), reference.startsWith(unpinned) ? null : reference)
    },
  }
}

/**
 * Bytes of pins to which no name leads any more: those whose file has no further name than the pins themselves, and
 * copies.
 */
export async function countPinnedBytes(stagingFolder: string, importIds: number[]): Promise<number> {
  /** By file: its size, and how many of its names are not known to be pins. */
  const files = new Map<string, { bytes: number; others: number }>()
  for (const id of importIds) {
    const folder = path.join(stagingFolder, String(id))
    const pins = (await readdir(folder).catch(() => [])).filter((name) => name.startsWith('pin-'))
    for (const pin of pins) {
      const stats = await regularStats(path.join(folder, pin))
      if (stats === null) continue
      const key = `${stats.dev}/${stats.ino}`
      const file = files.get(key) ?? { bytes: Number(stats.size), others: Number(stats.nlink) }
      files.set(key, { ...file, others: file.others - 1 })
    }
  }
  return [...files.values()].reduce((sum, { bytes, others }) => sum + (others > 0 ? 0 : bytes), 0)
}

/** False where that isn't possible: on two file systems, or where the system lets nobody link others' files. */
async function linked(source: string, target: string): Promise<boolean> {
  try {
    await link(source, target)
    return true
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['EXDEV', 'EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'ENOENT'].includes(code))
      return false
    throw error
  }
}

/** Null for everything that isn't a regular file, and for nothing; links are none. Throws what the file system says. */
async function regularStats(file: string): Promise<BigIntStats | null> {
  try {
    const stats = await lstat(file, { bigint: true })
    return stats.isFile() ? stats : null
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}

function pinnedFile(handle: FileHandle, folder: string, staged: string | null): PinnedUpload {
  return {
    staged: async () => {
      // Nothing to wait for where our FTP server wrote it.
      if (staged !== null && process.platform !== 'win32') await handle.datasync()
      return staged
    },
    fingerprint: async () => fingerprintOf(await handle.stat({ bigint: true })),
    isQuiet: async () => (await timeIn(folder)) - (await handle.stat()).mtimeMs > quietMs,
    content: (signal) => contentOf(handle, signal),
    close: () => handle.close(),
  }
}

/** What it has now, so that reading ends however fast somebody appends. */
async function* contentOf(handle: FileHandle, signal: AbortSignal): AsyncGenerator<Buffer> {
  const { size } = await handle.stat()
  if (size === 0) return
  const options = { autoClose: false, start: 0, end: size - 1, highWaterMark: 1024 * 1024, signal }
  yield* handle.createReadStream(options) as AsyncIterable<Buffer>
}
