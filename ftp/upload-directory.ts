import { constants, type Stats } from 'node:fs'
import {
  copyFile,
  lstat,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  truncate,
  type FileHandle,
} from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { isStagingFull } from '../shared/staging/staging.ts'
import { fileNameProblem, unfinishedName } from '../shared/uploads.ts'

/**
 * The directory of one organization as an FTP client sees it: flat, regular files only. An upload in progress lies
 * beside under a hidden name, and takes its final name when all of it is there; going on with it (REST, APPE) means the
 * hidden one. It is the file system that ftp-srv asks; nothing of the server's paths leaves it.
 */

/** A refusal with the FTP reply code that it deserves. */
export class FtpError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export interface UploadOptions {
  append: boolean
  /** Where to go on, from REST; undefined begins anew. */
  start: number | undefined
}

/** Names that a session of this process is uploading to just now. */
const uploading = new Set<string>()

export class UploadDirectory {
  readonly root: string
  readonly cwd = '/'

  constructor(root: string) {
    this.root = root
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
    const unfinished = options.resumable === true ? await this.#stat(unfinishedName(name)) : null
    const stats = unfinished ?? (await this.#stat(name))
    if (stats === null) throw noSuchFile(name)
    return Object.assign(stats, { name })
  }

  async list(text = '.'): Promise<(Stats & { name: string })[]> {
    if (!this.#isRoot(text)) return [await this.get(text)]
    const names = (await readdir(this.root)).filter((name) => fileNameProblem(name) === null).sort()
    const entries = await Promise.all(names.map(async (name) => ({ name, stats: await this.#stat(name) })))
    return entries.flatMap(({ name, stats }) => (stats === null ? [] : [Object.assign(stats, { name })]))
  }

  async read(
    text: string,
    { start }: { start?: number } = {},
  ): Promise<{ stream: Readable; clientPath: string }> {
    const name = this.#nameOf(text)
    const handle = await this.#openFile(name)
    return { stream: handle.createReadStream(start === undefined ? {} : { start }), clientPath: `/${name}` }
  }

  /** Removes the finished file, or an unfinished upload that stands alone. */
  async delete(text: string): Promise<void> {
    const name = this.#nameOf(text)
    const target = (await this.#stat(name)) === null ? unfinishedName(name) : name
    if (target !== name && uploading.has(this.#pathOf(name)))
      throw new FtpError(450, 'the file is being uploaded')
    if ((await this.#stat(target)) === null) throw noSuchFile(name)
    await rm(this.#pathOf(target), { force: true })
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

  /** Begins an upload; what speaks against it is said before the client sends anything. */
  async beginUpload(text: string, options: UploadOptions): Promise<Upload> {
    const name = this.#nameOf(text)
    const finalPath = this.#pathOf(name)
    if (uploading.has(finalPath)) throw new FtpError(450, 'another session is uploading this file')
    uploading.add(finalPath)
    try {
      return new Upload(
        await this.#openUnfinished(name, options),
        this.#pathOf(unfinishedName(name)),
        finalPath,
      )
    } catch (error) {
      uploading.delete(finalPath)
      throw error
    }
  }

  /** The hidden file, positioned where the data are to go. A finished file that is gone on with is copied first. */
  async #openUnfinished(name: string, { append, start }: UploadOptions): Promise<FileHandle> {
    const hidden = this.#pathOf(unfinishedName(name))
    const goesOn = append || (start ?? 0) > 0
    if (goesOn && (await this.#stat(unfinishedName(name))) === null && (await this.#stat(name)) !== null) {
      await copyFile(this.#pathOf(name), hidden, constants.COPYFILE_FICLONE)
    }
    if (goesOn && !append) {
      const size = (await this.#stat(unfinishedName(name)))?.size ?? 0
      if (start! > size) throw new FtpError(554, `the upload has only ${size} bytes so far`)
      await truncate(hidden, start)
    }
    const flags =
      constants.O_WRONLY |
      constants.O_CREAT |
      (constants.O_NOFOLLOW ?? 0) |
      (goesOn ? constants.O_APPEND : constants.O_TRUNC)
    return open(hidden, flags, 0o640)
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

  /** Null for everything that isn't a regular file; links are none. */
  async #stat(name: string): Promise<Stats | null> {
    const stats = await lstat(this.#pathOf(name)).catch(() => null)
    return stats?.isFile() === true ? stats : null
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

  #pathOf(name: string): string {
    return path.join(this.root, name)
  }
}

/** An upload that has begun; `receive` ends it. */
export class Upload {
  readonly #handle: FileHandle
  readonly #hiddenPath: string
  readonly #finalPath: string

  constructor(handle: FileHandle, hiddenPath: string, finalPath: string) {
    this.#handle = handle
    this.#hiddenPath = hiddenPath
    this.#finalPath = finalPath
  }

  /**
   * Takes the data. `isComplete` is asked when all of it is on the disk: only if it says yes, the file takes its final
   * name. Resolves to whether it did; what came is kept in any case.
   */
  async receive(data: AsyncIterable<Uint8Array>, isComplete: () => Promise<boolean>): Promise<boolean> {
    try {
      for await (const piece of data) await this.#handle.writeFile(piece)
      await this.#handle.sync()
      if (!(await isComplete())) return false
      await rename(this.#hiddenPath, this.#finalPath)
      return true
    } catch (error) {
      throw isStagingFull(error) ? new FtpError(452, 'there is no space left on the server') : error
    } finally {
      uploading.delete(this.#finalPath)
      await this.#handle.close()
    }
  }
}

const noSuchFile = (name: string) => new FtpError(550, `there is no file ${name}`)
