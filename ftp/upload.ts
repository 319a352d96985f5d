import { constants } from 'node:fs'
import { copyFile, lstat, open, readdir, rename, rm, truncate, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { isStagingFull } from '../shared/staging/staging.ts'
import { isUnfinished, unfinishedName } from '../shared/uploads.ts'
import { FtpError } from './ftp-error.ts'
import type { UploadLock } from './upload-lock.ts'

/**
 * One upload: refused or begun -> opened -> received -> published, or left unfinished. Before `open` nothing changes
 * on the disk. After it the data lie in a file that bears the token of the upload's lock. Who goes on with it renames
 * it, so an upload that lost its lock in any moment has no file that it could publish.
 */

export interface UploadOptions {
  append: boolean
  /** Where to go on, from REST; undefined begins anew. */
  start: number | undefined
}

const noFollow = constants.O_NOFOLLOW ?? 0

export class Upload {
  readonly #folder: string
  readonly #name: string
  readonly #lock: UploadLock
  readonly #options: UploadOptions
  readonly #ownPath: string
  #handle: FileHandle | null = null
  /** There is nothing in our file that the finished one doesn't have. */
  #isCopy = false

  /** Takes over the lock, unless it throws. */
  static async begin(
    folder: string,
    name: string,
    options: UploadOptions & { lock: UploadLock },
  ): Promise<Upload> {
    const { append, start = 0, lock } = options
    if (!append && start > 0) {
      const present = (await findUnfinished(folder, name)) ?? name
      const size = (await statFile(path.join(folder, present)))?.size ?? 0
      if (start > size) throw new FtpError(554, `the upload has only ${size} bytes so far`)
    }
    return new Upload(folder, name, lock, options)
  }

  private constructor(folder: string, name: string, lock: UploadLock, options: UploadOptions) {
    this.#folder = folder
    this.#name = name
    this.#lock = lock
    this.#options = options
    this.#ownPath = path.join(folder, unfinishedName(lock.token, name))
  }

  /** Aborted when another session took the upload over. */
  get lost(): AbortSignal {
    return this.#lock.lost
  }

  async open(): Promise<void> {
    const { append, start = 0 } = this.#options
    const goesOn = append || start > 0
    const before = await findUnfinished(this.#folder, this.#name)
    if (before !== null) await rename(path.join(this.#folder, before), this.#ownPath)
    await tellingFullDisk(async () => {
      if (goesOn) await this.#takeUp(before !== null)
      else await rm(this.#ownPath, { force: true })
      if (!append && goesOn) await truncate(this.#ownPath, start)
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | noFollow
      this.#handle = await open(this.#ownPath, flags, 0o640)
    })
  }

  /** Writes what comes. An error of the source passes through. */
  async receive(data: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const piece of data) {
      await tellingFullDisk(() => this.#handle!.writeFile(piece))
      this.#isCopy = false
    }
  }

  async sync(): Promise<void> {
    await tellingFullDisk(() => this.#handle!.sync())
  }

  /** Gives the file its final name; throws when the upload isn't ours any more. */
  async publish(): Promise<void> {
    if (!(await this.#lock.confirm())) throw takenOver()
    await rename(this.#ownPath, path.join(this.#folder, this.#name)).catch((error: unknown) => {
      throw (error as NodeJS.ErrnoException).code === 'ENOENT' ? takenOver() : error
    })
    this.#isCopy = false
  }

  /** Whatever became of it: what isn't published stays for REST and APPE. */
  async end(): Promise<void> {
    try {
      await this.#handle?.close()
      if (this.#isCopy || this.lost.aborted) await rm(this.#ownPath, { force: true })
    } finally {
      await this.#lock.release()
    }
  }

  /** Makes our file of what there is: the unfinished upload, or the finished file. */
  async #takeUp(isThere: boolean): Promise<void> {
    const finished = path.join(this.#folder, this.#name)
    if (!isThere) {
      if ((await statFile(finished)) === null) return
      await this.#copy(finished)
      this.#isCopy = true
    } else if (this.#lock.wasLeft) {
      // Who left it may wake up and write to the file that it has open.
      await this.#copy(this.#ownPath)
    }
  }

  /** A copy that broke off must not be taken for the unfinished upload: it gets its name when it is whole. */
  async #copy(from: string): Promise<void> {
    const copy = path.join(this.#folder, `.copy-${this.#lock.token}`)
    try {
      await copyFile(from, copy, constants.COPYFILE_FICLONE)
      await rename(copy, this.#ownPath)
    } catch (error) {
      await rm(copy, { force: true })
      throw error
    }
  }
}

const takenOver = () => new FtpError(426, 'another session has taken the upload over')

/** The entry that holds what there is of an upload of that name. */
export async function findUnfinished(folder: string, name: string): Promise<string | null> {
  return (await readdir(folder)).find((entry) => isUnfinished(entry, name)) ?? null
}

/** Null for everything that isn't a regular file; links are none. */
export async function statFile(file: string) {
  const stats = await lstat(file).catch(() => null)
  return stats?.isFile() === true ? stats : null
}

async function tellingFullDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isStagingFull(error) ? new FtpError(452, 'there is no space left on the server') : error
  }
}
