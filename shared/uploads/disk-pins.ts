import { constants, type BigIntStats } from 'node:fs'
import { copyFile, link, lstat, mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import type { Collections } from '../schemas/collections.ts'
import { fileNameProblem, newUploadToken, uploadFolder } from '../uploads.ts'
import { identityOf, timeIn } from './file-identity.ts'
import type { PinnedUpload, Uploads } from './upload-store.ts'

/**
 * A pin on disk is a second name of the file, in the import's staging folder: what our FTP server does later, and
 * whoever renames or removes, doesn't reach it. Writes in place do, so small files that others may write into are
 * copied at once; of large ones the copy that the import takes is compared with what was noted here.
 */

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

export function diskPins(options: DiskPinsOptions): Pick<Uploads, 'pin' | 'releasePin' | 'openPin'> {
  const { dataFolder, stagingFolder, collections } = options
  const locate = (reference: string): string => {
    if (!reference.startsWith(unpinned)) return path.join(stagingFolder, reference)
    const [id = '', ...name] = reference.slice(unpinned.length).split('/')
    return path.join(uploadFolder(dataFolder, Number(id)), name.join('/'))
  }
  const isOurs = async (organizationId: number, stats: BigIntStats) =>
    (await collections.settledUploads.findOne({ _id: `${organizationId}/${identityOf(stats)}` })) !== null

  return {
    async pin({ organizationId, name, importId }) {
      if (fileNameProblem(name) !== null) return null
      const folder = uploadFolder(dataFolder, organizationId)
      const source = path.join(folder, name)
      if ((await regularStats(source)) === null) return null
      const reference = `${importId}/pin-${newUploadToken()}`
      const target = locate(reference)
      await mkdir(path.dirname(target), { recursive: true })
      const isLinked = await linked(source, target)
      const found = await regularStats(isLinked ? target : source)
      if (found === null) {
        await rm(target, { force: true })
        return null
      }
      const ours = await isOurs(organizationId, found)
      const isQuiet = (await timeIn(folder)) - Number(found.mtimeNs / 1_000_000n) > quietMs
      const isSettled = ours || isQuiet
      if (!isLinked && !isSettled)
        return {
          reference: `${unpinned}${organizationId}/${name}`,
          identity: identityOf(found),
          is_settled: false,
        }
      const isCopied = isSettled && (!isLinked || (!ours && found.size <= copiedBytes))
      if (!isCopied) return { reference, identity: identityOf(found), is_settled: isSettled }
      const copied = await copyOf(isLinked ? target : source, target, found)
      return { reference, identity: identityOf(copied), is_settled: isQuietCopy(copied, found) }
    },
    async releasePin({ reference }) {
      if (!reference.startsWith(unpinned)) await rm(locate(reference), { force: true })
    },
    async openPin({ reference }) {
      const file = locate(reference)
      const handle = await openRegular(file)
      return handle === null ? null : pinnedFile(handle, path.dirname(file))
    },
  }
}

/** Copies beside and puts the copy in the place of the link. */
async function copyOf(source: string, target: string, before: BigIntStats): Promise<BigIntStats> {
  const copy = `${target}.copy`
  await copyFile(source, copy, constants.COPYFILE_FICLONE)
  const after = await lstat(source, { bigint: true })
  // Written into meanwhile: the link stays, and the import watches it.
  if (identityOf(after) !== identityOf(before) && source === target) {
    await rm(copy, { force: true })
    return after
  }
  await rename(copy, target)
  return lstat(target, { bigint: true })
}

/** Whether the copy is what was found, not the link that stayed. */
const isQuietCopy = (pinned: BigIntStats, found: BigIntStats): boolean =>
  pinned.ino !== found.ino || identityOf(pinned) === identityOf(found)

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

/** Null for everything that isn't a regular file; links are none. */
async function regularStats(file: string): Promise<BigIntStats | null> {
  const stats = await lstat(file, { bigint: true }).catch(() => null)
  return stats?.isFile() === true ? stats : null
}

async function pinnedFile(handle: FileHandle, folder: string): Promise<PinnedUpload> {
  return {
    identity: async () => identityOf(await handle.stat({ bigint: true })),
    isQuiet: async () => (await timeIn(folder)) - (await handle.stat()).mtimeMs > quietMs,
    content: (signal) =>
      handle.createReadStream({ autoClose: false, start: 0, highWaterMark: 1024 * 1024, signal }),
    close: () => handle.close(),
  }
}

/** Null for everything that isn't a regular file. */
export async function openRegular(file: string): Promise<FileHandle | null> {
  let handle: FileHandle
  try {
    handle = await open(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0))
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EMLINK', 'ENXIO'].includes(code)) return null
    throw error
  }
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  return null
}
