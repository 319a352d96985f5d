import type { BigIntStats } from 'node:fs'
import { link, lstat, mkdir, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { readRange } from '../../containers/random-access-file.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import { fallbackOn } from '../../runtime/fallback-on.ts'
import { composeOnDisk } from './disk-folder.ts'
import { buildFingerprint, fileSystemTime, isSameContent } from './file-fingerprint.ts'
import type { DiskReserve } from '../staging/disk-reserve.ts'
import { DiskFile } from '../staging/disk-staging.ts'
import { copySteady, openRegular } from './steady-copy.ts'
import { fileNameProblem, newUploadToken, uploadFolder } from './upload-names.ts'
import type { PinnedUpload, UploadPin, Uploads } from './upload-store.ts'
import { isStable, originalFingerprint } from '../../store/stable-uploads.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'

/** Maximum size of a copied file. A larger one would delay all imports that begin. */
const maxCopiedBytes = 16 * binaryMegabyte
/** A file without a write for this time counts as complete. */
const quietMs = 10_000
/** Prefix of a reference to the upload itself, where a hard link is not possible and the file is not complete. */
const unpinnedPrefix = 'upload:'

export interface DiskPinsOptions {
  dataFolder: string
  /** Has the pins, in the folders of their imports. */
  stagingFolder: string
  collections: Collections
  /** While it is reached, uploads are refused. */
  reserve: DiskReserve
}

/**
 * A pin on disk is a hard link to the file in the staging folder of the import. Later uploads,
 * renames and removals do not change it, but writes into the file by other programs do. Small files of other programs
 * are therefore copied at once. For large ones the import compares its copy with the fingerprint that is recorded
 * here.
 */
export function diskPins(options: DiskPinsOptions): Pick<Uploads, 'pin' | 'releasePin' | 'openPin'> {
  const { dataFolder, stagingFolder, collections } = options
  const locate = (reference: string): string => {
    if (!reference.startsWith(unpinnedPrefix)) return path.join(stagingFolder, reference)
    const [id = '', ...name] = reference.slice(unpinnedPrefix.length).split('/')
    return path.join(uploadFolder(dataFolder, Number(id)), name.join('/'))
  }
  return {
    async pin({ organizationId, name, importId, signal }) {
      if (fileNameProblem(name) !== null) return null
      const folder = uploadFolder(dataFolder, organizationId)
      await composeOnDisk(folder, name)
      const source = path.join(folder, name)
      if ((await regularStats(source)) === null) return null
      const reference = `${importId}/pin-${newUploadToken()}`
      const target = locate(reference)
      await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
      const isLinked = await tryLink(source, target)
      const kept = isLinked ? target : source
      const found = await regularStats(kept)
      if (found === null) {
        await rm(target, { force: true })
        return null
      }
      /** The pin of a file that may still be written: the import waits until it is stable. */
      const watched = (stats: BigIntStats): UploadPin => ({
        reference: isLinked ? reference : `${unpinnedPrefix}${organizationId}/${name}`,
        fingerprint: buildFingerprint(stats),
        is_settled: false,
      })
      const isOurs = await isStable(collections, organizationId, buildFingerprint(found))
      if (!isOurs && !(await isQuiet(folder, Number(found.mtimeMs)))) return watched(found)
      if (isLinked && (isOurs || found.size > maxCopiedBytes))
        return { reference, fingerprint: buildFingerprint(found), is_settled: true }
      const copy = `${target}.copy`
      // The file was written meanwhile, so a copy could mix two versions.
      if (!(await copySteady(kept, copy, { signal, fingerprint: buildFingerprint(found) })))
        return watched((await regularStats(kept)) ?? found)
      await rename(copy, target)
      const copied = await lstat(target, { bigint: true })
      return { reference, fingerprint: buildFingerprint(copied), is_settled: true }
    },
    async releasePin({ reference }) {
      if (!reference.startsWith(unpinnedPrefix)) await rm(locate(reference), { force: true })
    },
    async openPin(organizationId, { reference, fingerprint }) {
      const file = locate(reference)
      const opened = await openRegular(file)
      if (opened === null) return null
      const { handle, stats } = opened
      const staged = reference.startsWith(unpinnedPrefix) ? null : reference
      return {
        ...pinnedFile(handle, Number(stats.size), path.dirname(file), staged),
        async fingerprint() {
          const now = buildFingerprint(await handle.stat({ bigint: true }))
          if (isSameContent(now, fingerprint)) return now
          const original = (of: string) => originalFingerprint(collections, organizationId, of)
          return (await original(now)) === (await original(fingerprint)) ? fingerprint : now
        },
      }
    },
  }
}

/**
 * Bytes of pinned files without a name in the upload directory: copies, and files whose only hard links are pins.
 */
export async function countPinnedBytes(stagingFolder: string, importIds: number[]): Promise<number> {
  /** By inode: the size, and the number of hard links that are no known pins. */
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

/**
 * Creates a hard link. False where that isn't possible: across file systems, or where linking others' files is
 * forbidden.
 */
const tryLink = (source: string, target: string): Promise<boolean> =>
  fallbackOn(
    noLinkCodes,
    false,
    link(source, target).then(() => true),
  )

const noLinkCodes = ['EXDEV', 'EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'ENOENT']

/** Null when there is no regular file; a symbolic link is none. Throws other errors of the file system. */
async function regularStats(file: string): Promise<BigIntStats | null> {
  const stats = await fallbackOn(['ENOENT', 'ENOTDIR'], null, lstat(file, { bigint: true }))
  return stats?.isFile() === true ? stats : null
}

/** Whether no program writes the file any more: it was uploaded, or its last write was long ago. */
export const isComplete = async (
  collections: Collections,
  organizationId: number,
  { folder, stats }: { folder: string; stats: BigIntStats },
): Promise<boolean> =>
  (await isStable(collections, organizationId, buildFingerprint(stats))) ||
  isQuiet(folder, Number(stats.mtimeMs))

/** A time ahead was set, as a write has the time of the file system. */
const isQuiet = async (folder: string, mtimeMs: number): Promise<boolean> =>
  Math.abs((await fileSystemTime(folder)) - mtimeMs) > quietMs

function pinnedFile(
  handle: FileHandle,
  size: number,
  folder: string,
  staged: string | null,
): Omit<PinnedUpload, 'fingerprint'> {
  const file = new DiskFile(handle, size)
  return {
    size,
    read: (target, position) => file.read(target, position),
    staged: async () => {
      // For files that were uploaded this returns at once, as they are synced already.
      if (staged !== null && process.platform !== 'win32') await handle.datasync()
      return staged
    },
    isQuiet: async () => isQuiet(folder, (await handle.stat()).mtimeMs),
    // Reads up to the present size, so that reading ends even while another program appends.
    async *content(signal) {
      yield* readRange(file, { start: 0, end: (await handle.stat()).size, signal })
    },
    close: () => file.close(),
  }
}
