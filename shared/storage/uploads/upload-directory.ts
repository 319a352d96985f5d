import type { Logger } from '../../runtime/logger.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { UploadLimits } from '../../store/upload-usage.ts'
import { composeName, fileNameProblem } from './upload-names.ts'
import { noSuchFile, UploadRefused } from './upload-refused.ts'
import type { UploadEntry, UploadFile, Uploads, UploadStore } from './upload-store.ts'
import { UploadLock } from './upload-lock.ts'
import { UploadQuota } from './upload-quota.ts'
import { Upload, type UploadOptions } from './upload.ts'

interface UploadDirectoryOptions {
  uploads: Uploads
  limits: UploadLimits
  organizationId: number
  collections: Collections
  log: Logger
}

/** The finished and the unfinished file of a name; at least one of them is there. */
export interface UploadPair {
  name: string
  finished: UploadEntry | null
  unfinished: UploadEntry | null
}

/**
 * The directory of one organization as clients see it over any protocol: flat, with regular files only. An upload in
 * progress lies under a hidden name and gets its final name when it is complete. A later upload of the name may resume
 * the hidden file. Names may come decomposed. All methods throw UploadRefused for a name that isn't valid.
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

  /** The finished files, by name. */
  list(): Promise<UploadEntry[]> {
    return this.#store.list()
  }

  /** Finished and unfinished files, by name. Bytes of uploads in progress that are on their way are missing. */
  async listPairs(): Promise<UploadPair[]> {
    // In this order, so that an upload that is published meanwhile is in at least one of the lists.
    const unfinished = await this.#store.listUnfinished()
    const finished = await this.#store.list()
    const finishedByName = new Map(finished.map((entry) => [entry.name, entry]))
    const unfinishedByName = new Map(unfinished.map((entry) => [entry.name, entry]))
    return [...new Set([...finishedByName.keys(), ...unfinishedByName.keys()])].sort().map((name) => ({
      name,
      finished: finishedByName.get(name) ?? null,
      unfinished: unfinishedByName.get(name) ?? null,
    }))
  }

  async findPair(filename: string): Promise<UploadPair> {
    const name = validName(filename)
    const unfinished = await this.#store.findUnfinished(name)
    const finished = await this.#store.find(name)
    return { name, finished, unfinished }
  }

  /** The finished file. Throws UploadRefused without one. */
  async find(filename: string): Promise<UploadEntry> {
    const name = validName(filename)
    const entry = await this.#store.find(name)
    if (entry === null) throw noSuchFile(name)
    return entry
  }

  /**
   * The unfinished file, or else the finished one. Throws UploadRefused without either. Waits for the end of an upload
   * in progress: a client that was cut off asks for the size at once, while its last bytes may still be on their way to
   * the disk.
   */
  async findResumable(filename: string): Promise<UploadEntry> {
    const name = validName(filename)
    if ((await this.#store.findUnfinished(name)) === null) return this.find(name)
    await UploadLock.waitUntilFree(this.#options.collections, this.#lockId(name))
    return (await this.#store.findUnfinished(name)) ?? this.find(name)
  }

  /** Opens the finished file. Throws UploadRefused without one. */
  async open(filename: string): Promise<UploadFile> {
    const name = validName(filename)
    const file = await this.#store.open(name)
    if (file === null) throw noSuchFile(name)
    return file
  }

  /**
   * Deletes the finished file, or else the unfinished upload. Throws UploadRefused when there is neither, and while the
   * unfinished one is being uploaded.
   */
  async delete(filename: string): Promise<void> {
    const name = validName(filename)
    if (await this.#quota.remove(name)) return
    if ((await this.#store.findUnfinished(name)) === null) throw noSuchFile(name)
    const lock = await this.#acquireLock(name)
    try {
      await this.#quota.removeUnfinished(name)
      lock.markContentReplaced()
    } finally {
      await lock.release()
    }
  }

  /** Replaces a file of the new name. Throws UploadRefused without a file of the old name, and over the limit of names. */
  async rename(from: string, to: string): Promise<void> {
    const outcome = await this.#quota.rename(validName(from), validName(to))
    if (outcome === 'missing') throw noSuchFile(from)
    if (outcome === 'over_quota')
      throw new UploadRefused(
        'over_quota',
        from,
        'the directory is full, and an unfinished upload keeps this name; delete a file first',
      )
  }

  /** Sets the time of the finished file. Throws UploadRefused without one. */
  async setTime(filename: string, time: Date): Promise<void> {
    const name = validName(filename)
    if (!(await this.#store.setTime(name, time))) throw noSuchFile(name)
  }

  /** Begins an upload. Throws UploadRefused before anything has changed. */
  async beginUpload(filename: string, options: UploadOptions): Promise<Upload> {
    const name = validName(filename)
    const lock = await this.#acquireLock(name)
    try {
      return await Upload.begin(this.#store, name, { ...options, lock, quota: this.#quota })
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  async #acquireLock(name: string): Promise<UploadLock> {
    const { collections, log } = this.#options
    const lock = await UploadLock.acquire(collections, this.#lockId(name), log)
    if (lock === null)
      throw new UploadRefused('locked', name, 'another session is uploading this file; try again later')
    return lock
  }

  #lockId(name: string): string {
    return `${this.#options.organizationId}/${name}`
  }
}

function validName(filename: string): string {
  const name = composeName(filename)
  const problem = fileNameProblem(name)
  if (problem !== null) throw new UploadRefused('bad_name', name, `the file name ${problem}`)
  return name
}
