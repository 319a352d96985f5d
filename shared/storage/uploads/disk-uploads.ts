import { constants, type BigIntStats } from 'node:fs'
import { lstat, mkdir, rename, rm, truncate, unlink, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { fallbackOn } from '../../runtime/fallback-on.ts'
import { openWithStats } from '../../runtime/open-with-stats.ts'
import { recordNewTime, recordStable } from '../../store/stable-uploads.ts'
import { isUploadLocked } from '../../store/upload-locks.ts'
import { dayMs } from '../../values/durations.ts'
import { DiskFile } from '../staging/disk-staging.ts'
import { countPinnedBytes, diskPins, isComplete, type DiskPinsOptions } from './disk-pins.ts'
import { composeOnDisk, listNames, readEntry, tryRename } from './disk-folder.ts'
import { DiskUpload } from './disk-upload.ts'
import { buildFingerprint, fileSystemTime } from './file-fingerprint.ts'
import { copySteady, openRegular, type SteadyCopyOptions } from './steady-copy.ts'
import { fileNameProblem, isHidden, parseUnfinished, unfinishedName, uploadFolder } from './upload-names.ts'
import {
  UploadChanged,
  type ResumeOptions,
  type UploadFile,
  type Uploads,
  type UploadStore,
} from './upload-store.ts'

const noFollow = constants.O_NOFOLLOW ?? 0
/** Maximum age of hidden files that are no uploads. */
export const maxStrayAgeMs = dayMs

/**
 * Upload directories as folders. Processes of several machines may share them, and other programs than ours may
 * write to them. Entries that are no regular files (links, folders) count as absent.
 */
export function diskUploads(options: DiskPinsOptions): Uploads {
  const root = path.join(options.dataFolder, 'uploads')
  return {
    ...diskPins(options),
    directory: (organizationId) => diskDirectory(options, organizationId),
    // Pins are in the staging folder of their import, and are removed with it.
    unpin: () => Promise.resolve(),
    listPinned: () => Promise.resolve([]),
    async purge({ olderThanMs }) {
      const ids = (await listNames(root)).map(Number).filter(Number.isSafeInteger)
      let removed = 0
      for (const id of ids) removed += await purgeFolder(options, id, olderThanMs)
      return removed
    },
  }
}

function diskDirectory(
  { dataFolder, stagingFolder, collections, reserve }: DiskPinsOptions,
  organizationId: number,
): UploadStore {
  const folder = uploadFolder(dataFolder, organizationId)
  const locate = (name: string) => path.join(folder, name)
  const find = async (name: string) => {
    await composeOnDisk(folder, name)
    return readEntry(locate(name), name)
  }
  const unfinishedEntry = async (name: string) =>
    (await listNames(folder)).find((entry) => parseUnfinished(entry)?.name === name) ?? null
  return {
    async prepare() {
      await mkdir(folder, { recursive: true, mode: 0o700 })
    },
    async list() {
      const visible = (await listNames(folder)).filter((name) => fileNameProblem(name) === null).sort()
      const found = await mapInGroups(visible, (name) => readEntry(locate(name), name))
      return found.filter((entry) => entry !== null)
    },
    find,
    async findUnfinished(name) {
      const entry = await unfinishedEntry(name)
      return entry === null ? null : readEntry(locate(entry), name)
    },
    async listUnfinished() {
      const entries = (await listNames(folder)).flatMap((entry) => {
        const name = parseUnfinished(entry)?.name
        return name === undefined ? [] : [{ entry, name }]
      })
      const found = await mapInGroups(entries, ({ entry, name }) => readEntry(locate(entry), name))
      return found.filter((entry) => entry !== null)
    },
    async open(name) {
      await composeOnDisk(folder, name)
      const opened = await openRegular(locate(name))
      return opened === null ? null : new OpenUpload(opened.handle, opened.stats)
    },
    async remove(name) {
      if ((await find(name)) === null) return false
      // A concurrent call may have removed it.
      return fallbackOn(
        ['ENOENT'],
        false,
        unlink(locate(name)).then(() => true),
      )
    },
    async removeUnfinished(name) {
      const entry = await unfinishedEntry(name)
      if (entry !== null) await rm(locate(entry), { force: true })
    },
    async rename(from, to) {
      if ((await find(from)) === null) return false
      return tryRename(locate(from), locate(to))
    },
    async setTime(name, time) {
      await composeOnDisk(folder, name)
      const opened = await openRegular(locate(name))
      if (opened === null) return false
      const { handle, stats } = opened
      try {
        const before = buildFingerprint(stats)
        const after = buildFingerprint({ ...stats, mtimeNs: BigInt(time.getTime()) * 1_000_000n })
        // Recorded first, so that no import that has pinned the file takes the new time for a write.
        if (before !== after && (await isComplete(collections, organizationId, { folder, stats })))
          await recordNewTime(collections, organizationId, { before, after })
        await handle.utimes(time, time)
        return true
      } finally {
        await handle.close()
      }
    },
    async beginOrResume({ name, token, wasAbandoned, keep, signal }: ResumeOptions) {
      await reserve.check()
      const unfinished = locate(unfinishedName(token, name))
      const copy = locate(`.copy-${token}`)
      const before = await unfinishedEntry(name)
      if (before !== null && !(await tryRename(locate(before), unfinished))) throw uploadChanged(name)
      let isCopy = false
      if (keep === 0) {
        await rm(unfinished, { force: true })
      } else if (before !== null) {
        // A session that was taken for dead may still append to the file that it has open.
        if (wasAbandoned) await copyWhole(unfinished, unfinished, { name, copy, signal, mayGrow: true })
      } else if ((await find(name)) !== null) {
        await copyWhole(locate(name), unfinished, { name, copy, signal })
        isCopy = true
      }
      if (keep !== null && keep > 0) {
        // The file may have been replaced since the upload was requested.
        const { size = 0 } = (await readEntry(unfinished, name)) ?? {}
        if (size < keep) {
          if (isCopy) await rm(unfinished, { force: true })
          throw uploadChanged(name)
        }
        if (size > keep) await truncate(unfinished, keep)
      }
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | noFollow
      const { handle, stats } = await openWithStats(unfinished, flags, 0o600)
      return new DiskUpload({
        handle,
        reserve,
        unfinishedPath: unfinished,
        finalPath: locate(name),
        size: Number(stats.size),
        isCopy,
        onStable: (fingerprint) => recordStable(collections, organizationId, fingerprint),
      })
    },
    async count() {
      const finished = new Map<string, number>()
      const unfinished = new Map<string, number>()
      await mapInGroups(await listNames(folder), async (entry) => {
        const { size } = (await readEntry(locate(entry), entry)) ?? {}
        if (size === undefined) return
        const upload = parseUnfinished(entry)
        if (upload !== null) unfinished.set(upload.name, size)
        else if (fileNameProblem(entry) === null) finished.set(entry, size)
      })
      return { finished, unfinished }
    },
    countPinned: (importIds) => countPinnedBytes(stagingFolder, importIds),
  }
}

/** A stream without bytes that closes the file, because a range of a file has at least one byte. */
function emptyStream(handle: FileHandle): Readable {
  return Readable.from([], { objectMode: false }).once('close', () => void handle.close())
}

/** At most 64 at a time, as each call occupies one of the few threads of the process. */
async function mapInGroups<T, R>(items: T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let i = 0; i < items.length; i += 64)
    results.push(...(await Promise.all(items.slice(i, i + 64).map(work))))
  return results
}

/** Renames the copy only when it is complete, so that a partial one is never taken for the unfinished upload. */
async function copyWhole(
  from: string,
  to: string,
  { name, copy, ...options }: SteadyCopyOptions & { name: string; copy: string },
): Promise<void> {
  if (!(await copySteady(from, copy, options))) throw uploadChanged(name)
  await rename(copy, to)
}

const uploadChanged = (name: string) =>
  new UploadChanged(`${JSON.stringify(name)} was changed or removed while the upload began`)

/**
 * Removes hidden files that exceed their maximum age, except uploads in progress; resolves to how many of them were
 * uploads. One that was resumed has its old time until its next byte comes.
 */
async function purgeFolder(
  { dataFolder, collections }: DiskPinsOptions,
  organizationId: number,
  maxUnfinishedAgeMs: number,
): Promise<number> {
  const folder = uploadFolder(dataFolder, organizationId)
  const hidden = (await listNames(folder)).filter(isHidden)
  if (hidden.length === 0) return 0
  const now = await fileSystemTime(folder)
  let removed = 0
  for (const entry of hidden) {
    const upload = parseUnfinished(entry)
    const stats = await lstat(path.join(folder, entry)).catch(() => null)
    if (stats === null || now - stats.mtimeMs < (upload === null ? maxStrayAgeMs : maxUnfinishedAgeMs))
      continue
    if (upload !== null && (await isUploadLocked(collections, `${organizationId}/${upload.name}`))) continue
    await rm(path.join(folder, entry), { force: true })
    removed += upload === null ? 0 : 1
  }
  return removed
}

class OpenUpload extends DiskFile implements UploadFile {
  readonly modifiedAt: Date
  readonly version: string
  readonly #handle: FileHandle

  constructor(handle: FileHandle, { size, mtime, birthtime }: BigIntStats) {
    super(handle, Number(size))
    this.#handle = handle
    this.modifiedAt = mtime
    this.version = [mtime, birthtime].map((time) => time.getTime().toString(16)).join('-')
  }

  /** `end` of a stream is its last byte. A file that other programs extend is read up to its present size. */
  stream({ start = 0, end = this.size }: { start?: number; end?: number } = {}): Readable {
    return end > start ? this.#handle.createReadStream({ start, end: end - 1 }) : emptyStream(this.#handle)
  }
}
