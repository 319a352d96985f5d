import { Stats } from 'node:fs'
import type { Readable } from 'node:stream'
import { clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { UploadLimits } from '../../shared/store/upload-usage.ts'
import { fileNameProblem } from '../../shared/storage/uploads/upload-names.ts'
import type { UploadEntry, Uploads, UploadStore } from '../../shared/storage/uploads/upload-store.ts'
import { noSuchFile, refusal } from '../ftp-error.ts'
import { UploadLock } from './upload-lock.ts'
import { UploadQuota } from './upload-quota.ts'
import { Upload, type UploadOptions } from './upload.ts'

export interface UploadDirectoryOptions {
  uploads: Uploads
  limits: UploadLimits
  organizationId: number
  collections: Collections
  log: Logger
}

/**
 * The directory of one organization as FTP clients see it: flat, with regular files only. It never shows paths of the
 * server. An upload in progress lies under a hidden name and gets its final name when it is complete; REST and APPE
 * resume the hidden file.
 */
export class UploadDirectory {
  readonly #options: UploadDirectoryOptions
  readonly #store: UploadStore
  readonly #quota: UploadQuota

  constructor(options: UploadDirectoryOptions) {
    const { uploads, limits, organizationId, collections } = options
    this.#options = options
    this.#store = uploads.directory(organizationId)
    this.#quota = new UploadQuota({ collections, organizationId, limits, store: this.#store })
  }

  /** Creates the directory. */
  async prepare(): Promise<void> {
    await this.#store.prepare()
  }

  currentDirectory(): string {
    return '/'
  }

  /** Throws FtpError 550 for every path but the root. */
  async chdir(path = '.'): Promise<string> {
    if (isRoot(path)) return '/'
    throw refusal(550, path, 'no such folder, all files lie in /')
  }

  /** `resumable`: the unfinished upload, when there is one. Throws FtpError 550 and 553. */
  async get(path: string, options: { resumable?: boolean } = {}): Promise<Stats & { name: string }> {
    if (isRoot(path)) return toStats({ name: '.', size: 0, modifiedAt: clock.now() }, folderMode)
    const name = parseName(path)
    const entry =
      (options.resumable === true ? await this.#findUnfinished(name) : null) ?? (await this.#store.find(name))
    if (entry === null) throw noSuchFile(name)
    return toStats(entry)
  }

  /** The finished files, or the one of that name; throws as `get`. */
  async list(path = '.'): Promise<(Stats & { name: string })[]> {
    if (!isRoot(path)) return [await this.get(path)]
    return (await this.#store.list()).map((entry) => toStats(entry))
  }

  /** The finished file from byte `start`. Throws FtpError 550 without such a file, 554 when it ends before `start`. */
  async read(path: string, start: number): Promise<Readable> {
    const name = parseName(path)
    const entry = await this.#store.find(name)
    if (entry !== null && start > entry.size)
      throw refusal(554, name, `has ${entry.size} bytes, so it can't be read from byte ${start}`)
    const content = entry === null ? null : await this.#store.read(name, start)
    if (content === null) throw noSuchFile(name)
    return content
  }

  /**
   * Deletes the finished file, or else the unfinished upload. Throws FtpError 550 when there is neither, and 450 while
   * a session uploads the unfinished one.
   */
  async delete(path: string): Promise<void> {
    const name = parseName(path)
    if (await this.#quota.remove(name)) return
    if ((await this.#store.findUnfinished(name)) === null) throw noSuchFile(name)
    const lock = await this.#acquireLock(name)
    try {
      await this.#quota.removeUnfinished(name)
    } finally {
      await lock.release()
    }
  }

  /** Replaces a file of the new name. Throws FtpError 550 without a file of the old name, 552 over the limit of names. */
  async rename(from: string, to: string): Promise<void> {
    const source = parseName(from)
    const target = parseName(to)
    const outcome = await this.#quota.rename(source, target)
    if (outcome === 'missing') throw noSuchFile(source)
    if (outcome === 'over limit')
      throw refusal(
        552,
        source,
        'the directory is full, and an unfinished upload keeps this name; delete a file first',
      )
  }

  /** Begins an upload. Throws FtpError 450, 552, 553 and 554 before anything has changed. */
  async beginUpload(path: string, options: UploadOptions): Promise<Upload> {
    const name = parseName(path)
    const lock = await this.#acquireLock(name)
    try {
      return await Upload.begin(this.#store, name, { ...options, lock, quota: this.#quota })
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  /**
   * Waits for the end of an upload in progress. A client that was cut off asks for the size at once, while
   * its last bytes may still be on their way to the disk.
   */
  async #findUnfinished(name: string): Promise<UploadEntry | null> {
    if ((await this.#store.findUnfinished(name)) === null) return null
    await UploadLock.waitUntilFree(this.#options.collections, this.#lockId(name))
    return this.#store.findUnfinished(name)
  }

  async #acquireLock(name: string): Promise<UploadLock> {
    const { collections, log } = this.#options
    const lock = await UploadLock.acquire(collections, this.#lockId(name), log)
    if (lock === null) throw refusal(450, name, 'another session is uploading this file; try again later')
    return lock
  }

  #lockId(name: string): string {
    return `${this.#options.organizationId}/${name}`
  }
}

const isRoot = (path: string): boolean => ['', '.', '/', './', '/.', '..', '/..'].includes(path)

function parseName(path: string): string {
  const name = path.replace(/^(\.?\/)+/, '')
  const problem = fileNameProblem(name)
  if (problem !== null) throw refusal(name.includes('/') ? 550 : 553, name, `the file name ${problem}`)
  return name
}

const fileMode = 0o100640
const folderMode = 0o040750

/** What ftp-srv makes a line of a listing from; the files themselves may lie in the database. */
function toStats({ name, size, modifiedAt }: UploadEntry, mode = fileMode): Stats & { name: string } {
  const times = { mtime: modifiedAt, mtimeMs: modifiedAt.getTime() }
  const stats = Object.create(Stats.prototype) as Stats
  return Object.assign(stats, { name, size, mode, nlink: 1, uid: 0, gid: 0, ...times })
}
