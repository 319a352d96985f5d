import { Stats } from 'node:fs'
import type { Readable } from 'node:stream'
import { clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { UploadLimits } from '../../shared/store/upload-usage.ts'
import { fileNameProblem } from '../../shared/storage/uploads/upload-names.ts'
import type { UploadEntry, Uploads, UploadStore } from '../../shared/storage/uploads/upload-store.ts'
import { FtpError, noSuchFile } from '../ftp-error.ts'
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
 * The directory of one organization as an FTP client sees it: flat, regular files only. An upload in progress lies
 * beside under a hidden name, and takes its final name when all of it is there; going on with it (REST, APPE) means the
 * hidden one. What our commands call; nothing of the server's paths leaves it.
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

  async prepare(): Promise<void> {
    await this.#store.prepare()
  }

  currentDirectory(): string {
    return '/'
  }

  async chdir(text = '.'): Promise<string> {
    if (this.#isRoot(text)) return '/'
    throw new FtpError(550, 'there are no folders here')
  }

  /** For SIZE, MDTM and the like. `resumable`: of the unfinished upload, where there is one. Throws FtpError 550, 553. */
  async get(text: string, options: { resumable?: boolean } = {}): Promise<Stats & { name: string }> {
    if (this.#isRoot(text)) return statsOf({ name: '.', size: 0, modifiedAt: clock.now() }, folderMode)
    const name = this.#nameOf(text)
    const entry =
      (options.resumable === true ? await this.#ofUpload(name) : null) ?? (await this.#store.find(name))
    if (entry === null) throw noSuchFile(name)
    return statsOf(entry)
  }

  /** The finished files, or the one of that name; throws as `get`. */
  async list(text = '.'): Promise<(Stats & { name: string })[]> {
    if (!this.#isRoot(text)) return [await this.get(text)]
    return (await this.#store.list()).map((entry) => statsOf(entry))
  }

  /** The finished file from byte `start` on. Throws FtpError 550 when there is none, 554 when it ends before. */
  async read(text: string, start: number): Promise<Readable> {
    const name = this.#nameOf(text)
    const entry = await this.#store.find(name)
    if (entry !== null && start > entry.size) throw new FtpError(554, 'the file ends before that')
    const content = entry === null ? null : await this.#store.read(name, start)
    if (content === null) throw noSuchFile(name)
    return content
  }

  /**
   * Removes the finished file, or an unfinished upload that stands alone. Throws FtpError 550 when there is neither, 450
   * while somebody uploads it.
   */
  async delete(text: string): Promise<void> {
    const name = this.#nameOf(text)
    if (await this.#quota.remove(name)) return
    if ((await this.#store.findUnfinished(name)) === null) throw noSuchFile(name)
    const lock = await this.#lockOf(name)
    try {
      await this.#quota.removeUnfinished(name)
    } finally {
      await lock.release()
    }
  }

  /** A file that has the other name is replaced. Throws FtpError 550 when there is none to rename, 552 over the limit. */
  async rename(from: string, to: string): Promise<void> {
    const source = this.#nameOf(from)
    const target = this.#nameOf(to)
    const outcome = await this.#quota.rename(source, target)
    if (outcome === 'missing') throw noSuchFile(source)
    if (outcome === 'over limit')
      throw new FtpError(552, 'the upload directory is full, and an unfinished upload keeps the old name')
  }

  /** Begins an upload; what speaks against it (FtpError 450, 552, 553, 554) is said before anything changes. */
  async beginUpload(text: string, options: UploadOptions): Promise<Upload> {
    const name = this.#nameOf(text)
    const lock = await this.#lockOf(name)
    try {
      return await Upload.begin(this.#store, name, { ...options, lock, quota: this.#quota })
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  /**
   * Of the unfinished upload. A client asks for its size in order to go on there, often right after it broke off: what
   * it sent last may still be on its way to the disk, and must be counted.
   */
  async #ofUpload(name: string): Promise<UploadEntry | null> {
    if ((await this.#store.findUnfinished(name)) === null) return null
    await UploadLock.awaitEnd(this.#options.collections, this.#lockId(name))
    return this.#store.findUnfinished(name)
  }

  async #lockOf(name: string): Promise<UploadLock> {
    const { collections, log } = this.#options
    const lock = await UploadLock.take(collections, this.#lockId(name), log)
    if (lock === null) throw new FtpError(450, 'another session is uploading this file')
    return lock
  }

  #isRoot(text: string): boolean {
    return ['', '.', '/', './', '/.', '..', '/..'].includes(text)
  }

  #nameOf(text: string | null): string {
    const name = (text ?? '').replace(/^(\.?\/)+/, '')
    const problem = fileNameProblem(name)
    if (problem !== null) throw new FtpError(name.includes('/') ? 550 : 553, `the file name ${problem}`)
    return name
  }

  #lockId(name: string): string {
    return `${this.#options.organizationId}/${name}`
  }
}

const fileMode = 0o100640
const folderMode = 0o040750

/** What listings are made of, whatever the files lie on. */
function statsOf({ name, size, modifiedAt }: UploadEntry, mode = fileMode): Stats & { name: string } {
  const times = { mtime: modifiedAt, mtimeMs: modifiedAt.getTime() }
  const stats = Object.create(Stats.prototype) as Stats
  return Object.assign(stats, { name, size, mode, nlink: 1, uid: 0, gid: 0, ...times })
}
