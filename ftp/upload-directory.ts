import { constants, type Stats } from 'node:fs'
import { lstat, mkdir, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import type { Logger } from '../shared/logger.ts'
import type { Collections } from '../shared/schemas/collections.ts'
import { fileNameProblem } from '../shared/uploads.ts'
import { FtpError, noSuchFile } from './ftp-error.ts'
import { findUnfinished, statFile, Upload, type UploadOptions } from './upload.ts'
import { UploadLock } from './upload-lock.ts'

/**
 * The directory of one organization as an FTP client sees it: flat, regular files only. An upload in progress lies
 * beside under a hidden name, and takes its final name when all of it is there; going on with it (REST, APPE) means the
 * hidden one. It is the file system that ftp-srv asks; nothing of the server's paths leaves it.
 */

export interface UploadDirectoryOptions {
  root: string
  organizationId: number
  collections: Collections
  log: Logger
}

export class UploadDirectory {
  readonly root: string
  readonly cwd = '/'
  readonly #options: UploadDirectoryOptions

  constructor(options: UploadDirectoryOptions) {
    this.root = options.root
    this.#options = options
  }

  async prepare(): Promise<void> {
    await mkdir(this.root, { recursive: true, mode: 0o750 })
  }

  currentDirectory(): string {
    return '/'
  }

  async chdir(text = '.'): Promise<string> {
    if (this.#isRoot(text)) return '/'
    throw new FtpError(550, 'there are no folders here')
  }

  /** For SIZE, MDTM and the like. `resumable`: of the unfinished upload, where there is one. */
  async get(text: string, options: { resumable?: boolean } = {}): Promise<Stats & { name: string }> {
    if (this.#isRoot(text)) return Object.assign(await lstat(this.root), { name: '.' })
    const name = this.#nameOf(text)
    const stats = (options.resumable === true ? await this.#ofUpload(name) : null) ?? (await this.#stat(name))
    if (stats === null) throw noSuchFile(name)
    return Object.assign(stats, { name })
  }

  async list(text = '.'): Promise<(Stats & { name: string })[]> {
    if (!this.#isRoot(text)) return [await this.get(text)]
    const names = (await readdir(this.root)).filter((name) => fileNameProblem(name) === null).sort()
    const entries = await Promise.all(names.map(async (name) => ({ name, stats: await this.#stat(name) })))
    return entries.flatMap(({ name, stats }) => (stats === null ? [] : [Object.assign(stats, { name })]))
  }

  async read(text: string, start: number): Promise<Readable> {
    const name = this.#nameOf(text)
    const handle = await this.#openFile(name)
    if (start > (await handle.stat()).size) {
      await handle.close()
      throw new FtpError(554, 'the file ends before that')
    }
    return handle.createReadStream({ start })
  }

  /** Removes the finished file, or an unfinished upload that stands alone. */
  async delete(text: string): Promise<void> {
    const name = this.#nameOf(text)
    if ((await this.#stat(name)) !== null) return rm(this.#pathOf(name), { force: true })
    if ((await findUnfinished(this.root, name)) === null) throw noSuchFile(name)
    const lock = await this.#lockOf(name)
    try {
      const unfinished = await findUnfinished(this.root, name)
      if (unfinished !== null) await rm(this.#pathOf(unfinished), { force: true })
    } finally {
      await lock.release()
    }
  }

  async mkdir(): Promise<never> {
    throw new FtpError(550, 'folders are not possible here')
  }

  async rename(from: string, to: string): Promise<void> {
    const source = this.#nameOf(from)
    const target = this.#nameOf(to)
    if ((await this.#stat(source)) === null) throw noSuchFile(source)
    await rename(this.#pathOf(source), this.#pathOf(target))
  }

  /** Begins an upload; what speaks against it is said before anything changes. */
  async beginUpload(text: string, options: UploadOptions): Promise<Upload> {
    const name = this.#nameOf(text)
    const lock = await this.#lockOf(name)
    try {
      return await Upload.begin(this.root, name, { ...options, lock })
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  /**
   * Of the unfinished upload. A client asks for its size in order to go on there, often right after it broke off: what
   * it sent last may still be on its way to the disk, and must be counted.
   */
  async #ofUpload(name: string): Promise<Stats | null> {
    if ((await findUnfinished(this.root, name)) === null) return null
    await UploadLock.awaitEnd(this.#options.collections, this.#lockId(name))
    const unfinished = await findUnfinished(this.root, name)
    return unfinished === null ? null : this.#stat(unfinished)
  }

  async #lockOf(name: string): Promise<UploadLock> {
    const { collections, log } = this.#options
    const lock = await UploadLock.take(collections, this.#lockId(name), log)
    if (lock === null) throw new FtpError(450, 'another session is uploading this file')
    return lock
  }

  async #openFile(name: string): Promise<FileHandle> {
    const handle = await open(this.#pathOf(name), constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)).catch(
      () => null,
    )
    if (handle === null) throw noSuchFile(name)
    if ((await handle.stat()).isFile()) return handle
    await handle.close()
    throw noSuchFile(name)
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

  #stat(name: string): Promise<Stats | null> {
    return statFile(this.#pathOf(name))
  }

  #pathOf(name: string): string {
    return path.join(this.root, name)
  }
}
