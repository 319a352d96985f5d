import { setTimeout as sleep } from 'node:timers/promises'
import type { UploadDocument } from '../../contract/schemas/upload.ts'
import { clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/logger.ts'
import type { UploadLimits } from '../../store/ledger.ts'
import { hasFinishedFile } from '../../store/upload-folders.ts'
import {
  findPair,
  listUploads,
  removeFinished,
  removeUnfinished,
  renameUpload,
  setUploadTime,
} from '../../store/uploads.ts'
import {
  composeName,
  fileNameProblem,
  joinName,
  splitName,
  uploadNameProblem,
} from '../../values/upload-names.ts'
import type { UploadFile, Uploads } from './open-uploads.ts'
import { isUploadedElsewhere, noSuchFile, refuseName, UploadRefused } from './upload-refused.ts'
import { Upload, type UploadOptions } from './upload.ts'

/** How long a session waits for the end of another one: a client that was cut off often reconnects at once. */
const lockTimeoutMs = 1_500
const lockRetryMs = 50

interface UploadDirectoryOptions {
  uploads: Uploads
  limits: UploadLimits
  organizationId: number
  /** The folder of the caller's key, which is then all that there is; null for the whole directory. */
  folder: string | null
  log: Logger
}

export interface UploadEntry {
  /** As the caller sees it. */
  name: string
  /** In bytes. */
  size: number
  /** When it was complete, or the time that a client has set since. */
  modifiedAt: Date
}

/** The finished and the unfinished file of a name; at least one of them is there. */
export interface NamedUpload {
  name: string
  finished: UploadEntry | null
  unfinished: UploadEntry | null
}

/**
 * The directory of one organization as clients see it over any protocol: regular files with names, or FOLDER/NAME for
 * those in partners' folders. A partner's key sees its folder alone, and NAME of its names. An upload gets its name when
 * it is complete; a later upload of the name may resume one that broke off. Names may come decomposed. All methods throw
 * UploadRefused for a name that isn't valid.
 */
export class UploadDirectory {
  readonly #options: UploadDirectoryOptions

  constructor(options: UploadDirectoryOptions) {
    this.#options = options
  }

  /** Whether there may be folders in it. */
  get hasFolders(): boolean {
    return this.#options.folder === null
  }

  /** The finished files, by name; with `folder` those in a folder of the organization. */
  async list(folder: string | null = null): Promise<UploadEntry[]> {
    const { uploads, organizationId, folder: own } = this.#options
    await uploads.require()
    const within = { folder: own ?? folder, state: 'finished' } as const
    const records = await listUploads(uploads.collections, organizationId, within)
    return records.map((record) => this.#toEntry(record))
  }

  /** Whether a finished file lies in the folder of the organization. */
  async hasFolder(folder: string): Promise<boolean> {
    const { uploads, organizationId } = this.#options
    return this.hasFolders && hasFinishedFile(uploads.collections, organizationId, folder)
  }

  /** Why a composed name isn't valid; null when it is. */
  nameProblem(name: string): string | null {
    return this.hasFolders ? uploadNameProblem(name) : fileNameProblem(name)
  }

  /** Finished and unfinished files, by name. Bytes of uploads in progress that are on their way are missing. */
  async listPairs(): Promise<NamedUpload[]> {
    const { uploads, organizationId, folder } = this.#options
    await uploads.require()
    const pairs = new Map<string, NamedUpload>()
    for (const record of await listUploads(uploads.collections, organizationId, { folder })) {
      const name = this.#shownName(record.name)
      const pair = pairs.get(name) ?? { name, finished: null, unfinished: null }
      if (record.state === 'finished') pair.finished = this.#toEntry(record)
      else pair.unfinished = await this.#unfinishedEntry(record)
      pairs.set(name, pair)
    }
    return [...pairs.values()]
  }

  async findPair(filename: string): Promise<NamedUpload> {
    const name = this.#validName(filename)
    const { finished, unfinished } = await this.#pair(name)
    return {
      name,
      finished: finished === null ? null : this.#toEntry(finished),
      unfinished: unfinished === null ? null : await this.#unfinishedEntry(unfinished),
    }
  }

  /** The finished file. Throws UploadRefused without one. */
  async find(filename: string): Promise<UploadEntry> {
    const { name, finished } = await this.findPair(filename)
    if (finished === null) throw noSuchFile(name)
    return finished
  }

  /**
   * The unfinished file, or else the finished one. Throws UploadRefused without either. Waits for the end of an upload
   * in progress: a client that was cut off asks for the size at once, while its last bytes may still be on their way to
   * the disk.
   */
  async findResumable(filename: string): Promise<UploadEntry> {
    const deadline = clock.monotonicMs() + lockTimeoutMs
    const name = this.#validName(filename)
    while ((await this.#pair(name)).unfinished?.is_leased === true && clock.monotonicMs() < deadline)
      await sleep(lockRetryMs)
    const { finished, unfinished } = await this.findPair(name)
    const entry = unfinished ?? finished
    if (entry === null) throw noSuchFile(name)
    return entry
  }

  /** Opens the finished file. Throws UploadRefused without one. */
  async open(filename: string): Promise<UploadFile> {
    const name = this.#validName(filename)
    const { uploads, organizationId } = this.#options
    const file = await uploads.open(organizationId, this.nameInOrganization(name))
    if (file === null) throw noSuchFile(name)
    return file
  }

  /**
   * Deletes the finished file, or else the unfinished upload. Throws UploadRefused when there is neither, and while the
   * unfinished one is being uploaded.
   */
  async delete(filename: string): Promise<void> {
    const name = this.#validName(filename)
    const { uploads, organizationId } = this.#options
    await uploads.require()
    const unused = await untilFree(async () => {
      const { finished, unfinished } = await this.#pair(name)
      if (finished !== null) {
        const removed = await removeFinished(uploads, organizationId, finished.name)
        if (removed !== null) return removed
      } else if (unfinished === null) throw noSuchFile(name)
      else {
        const removed = await removeUnfinished(uploads, unfinished, ({ is_leased }) => !is_leased)
        if (removed.length > 0) return removed
      }
      throw isUploadedElsewhere(name)
    })
    void uploads.removeBlobs(unused)
  }

  /** Replaces a file of the new name. Throws UploadRefused without a file of the old name, and over the limit of names. */
  async rename(from: string, to: string): Promise<void> {
    const { uploads, organizationId, folder: own, limits } = this.#options
    const names = {
      from: this.nameInOrganization(this.#validName(from)),
      to: this.nameInOrganization(this.#validName(to)),
    }
    await uploads.require()
    const outcome = await refuseName(to, () =>
      renameUpload(uploads, organizationId, { ...names, own }, limits),
    )
    if (outcome === 'missing') throw noSuchFile(from)
    if (outcome === 'over_quota')
      throw new UploadRefused(
        'over_quota',
        from,
        'the directory is full, and an unfinished upload keeps this name; delete a file first',
      )
    void uploads.removeBlobs(outcome)
  }

  /** Sets the time of the finished file. Throws UploadRefused without one. */
  async setTime(filename: string, time: Date): Promise<void> {
    const name = this.#validName(filename)
    const { uploads, organizationId } = this.#options
    if (!(await setUploadTime(uploads.collections, organizationId, this.nameInOrganization(name), time)))
      throw noSuchFile(name)
  }

  /** Begins an upload. Throws UploadRefused before anything has changed. */
  async beginUpload(filename: string, options: UploadOptions): Promise<Upload> {
    const name = this.#validName(filename)
    await this.#options.uploads.require()
    const context = { ...this.#options, name, storedName: this.nameInOrganization(name) }
    return untilFree(() => Upload.begin(context, options))
  }

  /** The name of a file as the keys of the organization see it. */
  nameInOrganization(name: string): string {
    return joinName(this.#options.folder, name)
  }

  async #pair(name: string) {
    const { uploads, organizationId } = this.#options
    await uploads.require()
    return findPair(uploads.collections, organizationId, this.nameInOrganization(name))
  }

  async #unfinishedEntry(record: UploadDocument): Promise<UploadEntry> {
    const entry = this.#toEntry(record)
    return record.lease === null
      ? entry
      : { ...entry, size: await this.#options.uploads.blobs.size(record.blob) }
  }

  #toEntry({ name, size, modified_at: modifiedAt }: UploadDocument): UploadEntry {
    return { name: this.#shownName(name), size, modifiedAt }
  }

  #validName(filename: string): string {
    const name = composeName(filename)
    const problem = this.nameProblem(name)
    if (problem !== null) throw new UploadRefused('bad_name', name, `the file name ${problem}`)
    return name
  }

  #shownName(storedName: string): string {
    return this.hasFolders ? storedName : splitName(storedName).file
  }
}

/** Tries again while another session uploads the file, for a moment. */
async function untilFree<T>(work: () => Promise<T>): Promise<T> {
  const deadline = clock.monotonicMs() + lockTimeoutMs
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const isLocked = error instanceof UploadRefused && error.code === 'locked'
      if (!isLocked || clock.monotonicMs() > deadline) throw error
      await sleep(lockRetryMs)
    }
  }
}
