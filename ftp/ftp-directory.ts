import { Stats } from 'node:fs'
import type { Readable } from 'node:stream'
import { clock } from '../shared/runtime/clock.ts'
import type { UploadDirectory, UploadEntry } from '../shared/storage/uploads/upload-directory.ts'
import type { UploadRefusal, UploadRefused } from '../shared/storage/uploads/upload-refused.ts'
import type { Upload, UploadOptions } from '../shared/storage/uploads/upload.ts'
import { composeName, isFolderName, splitName } from '../shared/values/upload-names.ts'
import { refusal, type FtpError } from './ftp-error.ts'

export type ListedFile = Stats & { name: string }

/**
 * An upload directory as FTP clients see it: by paths below `/`, with the facts of `ls -l`. A folder is a directory while
 * a finished file lies in it. It never shows paths of the server. Methods throw FtpError, and UploadRefused, which
 * `toFtpError` maps.
 */
export class FtpDirectory {
  readonly #uploads: UploadDirectory
  /** The folder that is the current directory; null for the root. */
  #current: string | null = null

  constructor(uploads: UploadDirectory) {
    this.#uploads = uploads
  }

  /** The name in the organization's directory of the file with this path. */
  nameOf(path: string): string {
    return this.#uploads.nameInOrganization(composeName(this.#fileName(path)))
  }

  currentDirectory(): string {
    return this.#current === null ? '/' : `/${this.#current}`
  }

  /** Throws FtpError 550 for a path that is no directory. */
  async chdir(path = '.'): Promise<string> {
    const folder = this.#resolve(path)
    if (folder !== '' && !(await this.#isFolder(folder)))
      throw refusal(
        550,
        path,
        this.#uploads.hasFolders ? 'no such folder' : 'no such folder, all files lie in /',
      )
    this.#current = folder === '' ? null : folder
    return this.currentDirectory()
  }

  /** The finished file, or with `resumable` the unfinished one where there is one; or a directory. */
  async get(path: string, { resumable = false } = {}): Promise<ListedFile> {
    const name = this.#resolve(path)
    if (name === '') return toFolder('.')
    const file = this.#fileName(path)
    try {
      return toStats(await (resumable ? this.#uploads.findResumable(file) : this.#uploads.find(file)))
    } catch (error) {
      // Files come first, as most paths are theirs: no file has the name of a folder.
      if (await this.#isFolder(name)) return toFolder(name)
      throw error
    }
  }

  /** The finished files and the folders of a directory, or the one file of that name. */
  async list(path = '.'): Promise<ListedFile[]> {
    return (await this.listDirectory(path)) ?? [await this.get(path)]
  }

  /** The finished files and the folders of a directory; null when the path is none. */
  async listDirectory(path: string): Promise<ListedFile[] | null> {
    const folder = this.#resolve(path)
    if (folder !== '' && !(await this.#isFolder(folder))) return null
    const entries = await this.#uploads.list(folder === '' ? null : folder)
    if (folder !== '') return entries.map((entry) => toStats(entry))
    const folders = new Map<string, Date>()
    for (const { name, modifiedAt } of entries) {
      const { folder: of } = splitName(name)
      if (of !== null && modifiedAt >= (folders.get(of) ?? modifiedAt)) folders.set(of, modifiedAt)
    }
    return [
      ...[...folders].map(([name, modifiedAt]) => toFolder(name, modifiedAt)),
      ...entries.filter(({ name }) => splitName(name).folder === null).map((entry) => toStats(entry)),
    ]
  }

  /** The path from the root. */
  absolute(path: string): string {
    return `/${this.#resolve(path)}`
  }

  /** The finished file from byte `start`. Throws FtpError 554 when it ends before. */
  async read(path: string, start: number): Promise<{ content: Readable; size: number }> {
    const name = this.#fileName(path)
    const file = await this.#uploads.open(name)
    if (start <= file.size) return { content: file.stream({ start }), size: file.size }
    await file.close()
    throw refusal(554, name, `has ${file.size} bytes, so it can't be read from byte ${start}`)
  }

  delete(path: string): Promise<void> {
    return this.#uploads.delete(this.#fileName(path))
  }

  rename(from: string, to: string): Promise<void> {
    return this.#uploads.rename(this.#fileName(from), this.#fileName(to))
  }

  setTime(path: string, time: Date): Promise<void> {
    return this.#uploads.setTime(this.#fileName(path), time)
  }

  beginUpload(path: string, options: UploadOptions): Promise<Upload> {
    return this.#uploads.beginUpload(this.#fileName(path), options)
  }

  /** The path below the root, with one slash between its parts; blank for the root. */
  #resolve(path: string): string {
    if (/^(~\/?|\/\.\.)$/.test(path) || (path === '..' && this.#current === null)) return ''
    const parts = path.startsWith('/') || this.#current === null ? [] : [this.#current]
    for (const part of path.split('/')) {
      // Above the root `..` stays, and is no name.
      if (part === '..' && parts.length > 0 && parts.at(-1) !== '..') parts.pop()
      else if (part !== '' && part !== '.') parts.push(part)
    }
    return parts.join('/')
  }

  /** A path that ends with a slash names no file. */
  #fileName(path: string): string {
    const name = this.#resolve(path)
    return name !== '' && path.endsWith('/') ? `${name}/` : name
  }

  /** The current directory stays one when its last file is gone. */
  async #isFolder(name: string): Promise<boolean> {
    return isFolderName(name) && (name === this.#current || (await this.#uploads.hasFolder(name)))
  }
}

const replyCodes: Record<UploadRefusal, number> = {
  bad_name: 553,
  is_folder: 553,
  no_such_folder: 550,
  no_such_file: 550,
  wrong_start: 554,
  locked: 450,
  over_quota: 552,
  disk_full: 452,
  changed: 450,
  taken_over: 426,
}

export function toFtpError({ code, filename, message }: UploadRefused): FtpError {
  const { folder, file } = splitName(filename)
  const isInNoFolder = folder !== null && (!isFolderName(folder) || file.includes('/'))
  const replyCode = code === 'bad_name' && isInNoFolder ? 550 : replyCodes[code]
  return refusal(replyCode, filename, code === 'wrong_start' ? `${message}; ask SIZE` : message)
}

const fileMode = 0o100640
const folderMode = 0o040750

/** What ftp-srv makes a line of a listing from; the files themselves may lie in the database. */
function toStats({ name, size, modifiedAt }: UploadEntry, mode = fileMode): ListedFile {
  const times = { mtime: modifiedAt, mtimeMs: modifiedAt.getTime() }
  const stats = Object.create(Stats.prototype) as Stats
  return Object.assign(stats, {
    ...{ name: splitName(name).file, size, mode, nlink: 1, uid: 0, gid: 0 },
    ...times,
  })
}

const toFolder = (name: string, modifiedAt = clock.now()): ListedFile =>
  toStats({ name, size: 0, modifiedAt }, folderMode)
