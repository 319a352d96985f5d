import { setTimeout as sleep } from 'node:timers/promises'
import type { UploadDocument } from '../../contract/schemas/upload.ts'
import { clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/logger.ts'
import type { UploadLimits } from '../../store/ledger.ts'
import {
  findPair,
  listUploads,
  removeFinished,
  removeUnfinished,
  renameUpload,
  setUploadTime,
} from '../../store/uploads.ts'
import type { UploadFile, Uploads } from './open-uploads.ts'
import { composeName, fileNameProblem } from './upload-names.ts'
import { isUploadedElsewhere, noSuchFile, UploadRefused } from './upload-refused.ts'
import { Upload, type UploadOptions } from './upload.ts'

/** How long a session waits for the end of another one: a client that was cut off often reconnects at once. */
const lockTimeoutMs = 1_500
const lockRetryMs = 50

interface UploadDirectoryOptions {
  uploads: Uploads
  limits: UploadLimits
  organizationId: number
  log: Logger
}

export interface UploadEntry {
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
 * The directory of one organization as clients see it over any protocol: flat, with regular files only. An upload gets
 * its name when it is complete; a later upload of the name may resume one that broke off. Names may come decomposed. All
 * methods throw UploadRefused for a name that isn't valid.
 */
export class UploadDirectory {
  readonly #options: UploadDirectoryOptions

  constructor(options: UploadDirectoryOptions) {
    this.#options = options
  }

  /** The finished files, by name. */
  async list(): Promise<UploadEntry[]> {
    const { uploads, organizationId } = this.#options
    await uploads.require()
    return (await listUploads(uploads.collections, organizationId, 'finished')).map(toEntry)
  }

  /** Finished and unfinished files, by name. Bytes of uploads in progress that are on their way are missing. */
  async listPairs(): Promise<NamedUpload[]> {
    const { uploads, organizationId } = this.#options
    await uploads.require()
    const pairs = new Map<string, NamedUpload>()
    for (const record of await listUploads(uploads.collections, organizationId)) {
      const { name } = record
      const pair = pairs.get(name) ?? { name, finished: null, unfinished: null }
      if (record.state === 'finished') pair.finished = toEntry(record)
      else pair.unfinished = await this.#unfinishedEntry(record)
      pairs.set(name, pair)
    }
    return [...pairs.values()]
  }

  async findPair(filename: string): Promise<NamedUpload> {
    const name = validName(filename)
    const { finished, unfinished } = await this.#pair(name)
    return {
      name,
      finished: finished === null ? null : toEntry(finished),
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
    const name = validName(filename)
    while ((await this.#pair(name)).unfinished?.is_leased === true && clock.monotonicMs() < deadline)
      await sleep(lockRetryMs)
    const { finished, unfinished } = await this.findPair(name)
    const entry = unfinished ?? finished
    if (entry === null) throw noSuchFile(name)
    return entry
  }

  /** Opens the finished file. Throws UploadRefused without one. */
  async open(filename: string): Promise<UploadFile> {
    const name = validName(filename)
    const { uploads, organizationId } = this.#options
    const file = await uploads.open(organizationId, name)
    if (file === null) throw noSuchFile(name)
    return file
  }

  /**
   * Deletes the finished file, or else the unfinished upload. Throws UploadRefused when there is neither, and while the
   * unfinished one is being uploaded.
   */
  async delete(filename: string): Promise<void> {
    const name = validName(filename)
    const { uploads, organizationId } = this.#options
    await uploads.require()
    const unused =
      (await removeFinished(uploads, organizationId, name)) ??
      (await untilFree(async () => {
        const { unfinished } = await this.#pair(name)
        if (unfinished === null) throw noSuchFile(name)
        const removed = await removeUnfinished(uploads, unfinished, ({ is_leased }) => !is_leased)
        if (removed.length === 0) throw isUploadedElsewhere(name)
        return removed
      }))
    void uploads.removeBlobs(unused)
  }

  /** Replaces a file of the new name. Throws UploadRefused without a file of the old name, and over the limit of names. */
  async rename(from: string, to: string): Promise<void> {
    const { uploads, organizationId, limits } = this.#options
    const names = { from: validName(from), to: validName(to) }
    await uploads.require()
    const outcome = await renameUpload(uploads, organizationId, names, limits)
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
    const name = validName(filename)
    const { uploads, organizationId } = this.#options
    if (!(await setUploadTime(uploads.collections, organizationId, name, time))) throw noSuchFile(name)
  }

  /** Begins an upload. Throws UploadRefused before anything has changed. */
  async beginUpload(filename: string, options: UploadOptions): Promise<Upload> {
    const name = validName(filename)
    await this.#options.uploads.require()
    return untilFree(() => Upload.begin({ ...this.#options, name }, options))
  }

  async #pair(name: string) {
    const { uploads, organizationId } = this.#options
    await uploads.require()
    return findPair(uploads.collections, organizationId, name)
  }

  async #unfinishedEntry(record: UploadDocument): Promise<UploadEntry> {
    const entry = toEntry(record)
    return record.lease === null
      ? entry
      : { ...entry, size: await this.#options.uploads.blobs.size(record.blob) }
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

const toEntry = ({ name, size, modified_at: modifiedAt }: UploadDocument): UploadEntry => ({
  name,
  size,
  modifiedAt,
})

function validName(filename: string): string {
  const name = composeName(filename)
  const problem = fileNameProblem(name)
  if (problem !== null) throw new UploadRefused('bad_name', name, `the file name ${problem}`)
  return name
}
