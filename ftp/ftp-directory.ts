import { Stats } from 'node:fs'
import type { Readable } from 'node:stream'
import { clock } from '../shared/runtime/clock.ts'
import type { UploadDirectory, UploadEntry } from '../shared/storage/uploads/upload-directory.ts'
import { composeName } from '../shared/storage/uploads/upload-names.ts'
import type { UploadRefusal, UploadRefused } from '../shared/storage/uploads/upload-refused.ts'
import type { Upload, UploadOptions } from '../shared/storage/uploads/upload.ts'
import { refusal, type FtpError } from './ftp-error.ts'

export type ListedFile = Stats & { name: string }

/**
 * An upload directory as FTP clients see it: by paths below `/`, with the facts of `ls -l`. It never shows paths of the
 * server. Methods throw FtpError, and UploadRefused, which `toFtpError` maps.
 */
export class FtpDirectory {
  readonly #uploads: UploadDirectory

  constructor(uploads: UploadDirectory) {
    this.#uploads = uploads
  }

  /** The name in the organization's directory of the file with this path. */
  nameOf(path: string): string {
    return composeName(toName(path))
  }

  currentDirectory(): string {
    return '/'
  }

  /** Throws FtpError 550 for every path but the root. */
  async chdir(path = '.'): Promise<string> {
    if (isRoot(path)) return '/'
    throw refusal(550, path, 'no such folder, all files lie in /')
  }

  /** The finished file, or with `resumable` the unfinished one where there is one. */
  async get(path: string, { resumable = false } = {}): Promise<ListedFile> {
    if (isRoot(path)) return toStats({ name: '.', size: 0, modifiedAt: clock.now() }, folderMode)
    const name = toName(path)
    return toStats(await (resumable ? this.#uploads.findResumable(name) : this.#uploads.find(name)))
  }

  /** The finished files, or the one of that name. */
  async list(path = '.'): Promise<ListedFile[]> {
    if (!isRoot(path)) return [await this.get(path)]
    return (await this.#uploads.list()).map((entry) => toStats(entry))
  }

  /** The finished file from byte `start`. Throws FtpError 554 when it ends before. */
  async read(path: string, start: number): Promise<{ content: Readable; size: number }> {
    const name = toName(path)
    const file = await this.#uploads.open(name)
    if (start <= file.size) return { content: file.stream({ start }), size: file.size }
    await file.close()
    throw refusal(554, name, `has ${file.size} bytes, so it can't be read from byte ${start}`)
  }

  delete(path: string): Promise<void> {
    return this.#uploads.delete(toName(path))
  }

  rename(from: string, to: string): Promise<void> {
    return this.#uploads.rename(toName(from), toName(to))
  }

  setTime(path: string, time: Date): Promise<void> {
    return this.#uploads.setTime(toName(path), time)
  }

  beginUpload(path: string, options: UploadOptions): Promise<Upload> {
    return this.#uploads.beginUpload(toName(path), options)
  }
}

const replyCodes: Record<UploadRefusal, number> = {
  bad_name: 553,
  no_such_file: 550,
  wrong_start: 554,
  locked: 450,
  over_quota: 552,
  disk_full: 452,
  changed: 450,
  taken_over: 426,
}

export function toFtpError({ code, filename, message }: UploadRefused): FtpError {
  // A name with a slash is a path to a folder that doesn't exist.
  const replyCode = code === 'bad_name' && filename.includes('/') ? 550 : replyCodes[code]
  return refusal(replyCode, filename, code === 'wrong_start' ? `${message}; ask SIZE` : message)
}

const rootPaths = ['', '.', '/', './', '/.', '..', '/..', '//', '~', '~/']
const isRoot = (path: string): boolean => rootPaths.includes(path)

const toName = (path: string): string => path.replace(/^(\.?\/)+/, '')

const fileMode = 0o100640
const folderMode = 0o040750

/** What ftp-srv makes a line of a listing from; the files themselves may lie in the database. */
function toStats({ name, size, modifiedAt }: UploadEntry, mode = fileMode): ListedFile {
  const times = { mtime: modifiedAt, mtimeMs: modifiedAt.getTime() }
  const stats = Object.create(Stats.prototype) as Stats
  return Object.assign(stats, { name, size, mode, nlink: 1, uid: 0, gid: 0, ...times })
}
